"""Checks of errors: which chunk, which verb, and whether anything was applied."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from collections.abc import Callable

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkOffsetError,
    Outcome,
)
from siltstone.testing.chunk_checks.abilities import part_of
from siltstone.testing.chunk_checks.subject import ChunkService, ChunkSubject, need

VERBS = {"write": "append", "concat": "concat", "seal": "seal"}
"""The capability that a verb needs."""


class OutcomeChecks(ChunkSubject):
    """A refusal names what was refused, and leaves everything as it was."""

    @pytest.mark.parametrize(
        "operation", ["write", "read_into", "stat", "delete", "concat", "seal"]
    )
    def test_a_missing_chunk_is_named(self, storage: ChunkStorage, operation: str) -> None:
        if operation in VERBS:
            need(storage, VERBS[operation])
        calls: dict[str, Callable[[], object]] = {
            "write": lambda: storage.write("d/a", 0, [b"x"]),
            "read_into": lambda: storage.read_into("d/a", 0, bytearray(1)),
            "stat": lambda: storage.stat("d/a"),
            "delete": lambda: storage.delete("d/a"),
            "concat": lambda: storage.concat("t", [("d/a", 1)]),
            "seal": lambda: storage.seal("d/a"),
        }
        with pytest.raises(ChunkNotFoundError) as caught:
            calls[operation]()
        assert caught.value.operation == operation
        assert caught.value.chunk == "d/a"
        assert caught.value.outcome is Outcome.NOT_APPLIED

    def test_a_taken_target_is_named(self, storage: ChunkStorage) -> None:
        need(storage, "concat")
        part = part_of(storage, b"a")
        storage.create("a", [part])
        storage.create("t", [b"x"])
        with pytest.raises(ChunkExistsError) as caught:
            storage.concat("t", [("a", len(part))])
        assert (caught.value.chunk, caught.value.operation) == ("t", "concat")

    def test_a_wrong_offset_is_named(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"abc"])
        with pytest.raises(ChunkOffsetError) as caught:
            storage.read_into("a", 5, bytearray(1))
        assert (caught.value.chunk, caught.value.operation) == ("a", "read_into")
        assert caught.value.outcome is Outcome.NOT_APPLIED
        if storage.capabilities.append:
            with pytest.raises(ChunkOffsetError) as caught:
                storage.write("a", 5, [b"x"])
            assert (caught.value.chunk, caught.value.operation) == ("a", "write")

    def test_a_refused_create_changes_nothing(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        storage.create("a", [b"abc"])
        before = storage.stat("a")
        with pytest.raises(ChunkExistsError):
            storage.create("a", [b"longer than it was"])
        assert storage.stat("a") == before
        assert service.outside_read("a") == b"abc"

    def test_a_refused_write_changes_nothing(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        storage.create("a", [b"abc"])
        before = storage.stat("a")
        with pytest.raises(ChunkOffsetError):
            storage.write("a", 2, [b"xyz"])
        assert storage.stat("a") == before
        storage.write("a", 3, [b"d"])
        assert service.outside_read("a") == b"abcd"

    def test_a_refused_delete_changes_nothing(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        storage.create("d/a", [b"abc"])
        before = storage.stat("d/a")
        for name in ("d", "d/a/b", "d/ab", "D/a"):
            with pytest.raises(ChunkNotFoundError):
                storage.delete(name)
        assert storage.stat("d/a") == before
        assert list(service.outside_names()) == ["d/a"]

    def test_a_client_goes_on_after_every_refusal(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        storage.create("a", [b"abc"])
        for number in range(20):
            for call in (
                lambda: storage.create("a", [b"x"]),
                lambda: storage.stat("missing"),
                lambda: storage.read_into("a", 9, bytearray(1)),
                lambda: storage.delete("missing"),
                lambda: storage.stat("wrong//name"),
            ):
                with pytest.raises(ChunkError):
                    call()
            storage.create(f"{number}", [b"x"])
        assert len(service.outside_names()) == 21

    def test_an_error_can_be_shown(self, storage: ChunkStorage) -> None:
        with pytest.raises(ChunkNotFoundError) as caught:
            storage.stat("d/é a")
        assert "d/é a" in str(caught.value) or ascii("d/é a")[1:-1] in str(caught.value)
        assert str(caught.value) == str(caught.value).strip()
