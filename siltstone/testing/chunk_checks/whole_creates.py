"""Checks of ``create_whole``: a chunk that all see with all of its bytes, or not at all."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import os
from typing import Any

import pytest

from siltstone.core.chunk_storage import WHOLE_CREATE_BYTES_MAX, Buffer, ChunkStorage
from siltstone.core.errors import (
    CapabilityError,
    ChunkAccessDeniedError,
    ChunkExistsError,
    ChunkNameError,
    ChunkNotFoundError,
    Outcome,
)
from siltstone.core.storage.optional_verbs import WholeCreates, create_whole, sweep_leftovers
from siltstone.testing.chunk_checks.subject import ChunkService, names, need, need_missing, read
from siltstone.testing.chunk_checks.whole_races import ROUNDS, WholeRaceChecks


class WholeChecks(WholeRaceChecks):
    """All or nothing, and else the same as ``create``."""

    def test_whole_create_makes_the_chunk(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        parts: list[Buffer] = [b"first", bytearray(b" and "), memoryview(b"_last_")[1:-1], b""]
        whole.create_whole("d/a", parts)
        assert service.outside_read("d/a") == b"first and last"
        assert read(storage, "d/a") == b"first and last"
        assert storage.stat("d/a").length == 14
        assert list(storage.list()) == [storage.stat("d/a")]

    def test_whole_create_is_found_by_every_client_at_once(
        self, whole: WholeCreates, service: ChunkService
    ) -> None:
        other = service.open()
        for number in range(ROUNDS):
            name = f"d{number}/a"
            with pytest.raises(ChunkNotFoundError):
                other.stat(name)
            whole.create_whole(name, [b"abc"])
            assert other.stat(name).length == 3
            assert read(other, name) == b"abc"
            assert names(other, f"d{number}/") == [name]
        other.close()

    def test_whole_create_of_the_most_bytes(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        most = min(WHOLE_CREATE_BYTES_MAX, storage.capabilities.chunk_bytes_max)
        content = os.urandom(min(most, 1 << 20)) * (most >> 20 or 1)
        whole.create_whole("d/a", [content])
        assert service.outside_read("d/a") == content

    def test_whole_create_refuses_more_than_the_most_bytes(
        self, whole: WholeCreates, service: ChunkService
    ) -> None:
        with pytest.raises(ValueError, match="large"):
            whole.create_whole("a", [bytes(WHOLE_CREATE_BYTES_MAX), b"x"])
        assert not service.outside_names()

    def test_whole_create_refuses_no_bytes(
        self, whole: WholeCreates, service: ChunkService
    ) -> None:
        for buffers in ([], [b""]):
            with pytest.raises(ValueError, match="no byte"):
                whole.create_whole("a", buffers)
        no_buffers: Any = b"bytes"
        with pytest.raises(TypeError):
            whole.create_whole("a", no_buffers)
        assert not service.outside_names()

    @pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "..", "a\0b", "x" * 1_025, "\ud800"])
    def test_whole_create_refuses_a_wrong_name(
        self, whole: WholeCreates, service: ChunkService, name: str
    ) -> None:
        with pytest.raises(ChunkNameError) as caught:
            whole.create_whole(name, [b"x"])
        assert caught.value.outcome is Outcome.NOT_APPLIED
        assert not service.outside_names()

    @pytest.mark.parametrize("how", ["create", "create_whole", "another program", "another client"])
    def test_whole_create_refuses_a_taken_name(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService, how: str
    ) -> None:
        match how:
            case "create":
                storage.create("d/a", [b"first"])
            case "create_whole":
                whole.create_whole("d/a", [b"first"])
            case "another program":
                service.outside_write("d/a", b"first")
            case _:
                other = service.open()
                other.create("d/a", [b"first"])
                other.close()
        before = storage.stat("d/a")
        for content in (b"second", b"first"):
            with pytest.raises(ChunkExistsError) as caught:
                whole.create_whole("d/a", [content])
            found = caught.value
            assert (found.chunk, found.operation) == ("d/a", "create")
            assert found.outcome is Outcome.NOT_APPLIED
        assert storage.stat("d/a") == before
        assert service.outside_read("d/a") == b"first"

    def test_a_whole_chunk_refuses_a_create_of_its_name(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        whole.create_whole("a", [b"first"])
        with pytest.raises(ChunkExistsError):
            storage.create("a", [b"second"])
        assert service.outside_read("a") == b"first"

    def test_a_whole_chunk_is_deleted_and_its_name_is_free_again(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        for content in (b"first", b"2nd"):
            whole.create_whole("d/a", [content])
            assert service.outside_read("d/a") == content
            storage.delete("d/a")
            assert not service.outside_names()
        storage.create("d/a", [b"third"])
        assert service.outside_read("d/a") == b"third"

    def test_a_whole_chunk_grows_or_refuses_it(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        need(storage, "append")
        whole.create_whole("a", [b"abc"])
        refusal: ChunkAccessDeniedError | None = None
        try:
            storage.write("a", 3, [b"def"])
        except ChunkAccessDeniedError as error:
            refusal = error
        assert refusal is None or refusal.outcome is Outcome.NOT_APPLIED
        assert service.outside_read("a") == (b"abcdef" if refusal is None else b"abc")

    def test_a_whole_chunk_is_sealed_like_any_other(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        need(storage, "seal")
        whole.create_whole("a", [b"abc"])
        storage.seal("a")
        storage.seal("a")
        if storage.capabilities.append:
            with pytest.raises(ChunkAccessDeniedError):
                storage.write("a", 3, [b"x"])
        assert service.outside_read("a") == b"abc"

    def test_a_whole_chunk_is_a_source_of_concat(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        need(storage, "concat")
        whole.create_whole("a", [b"abc"])
        storage.concat("t", [("a", 2)])
        assert service.outside_read("t") == b"ab"

    def test_whole_creates_leave_nothing_to_sweep(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        whole.create_whole("d/a", [b"abc"])
        with pytest.raises(ChunkExistsError):
            whole.create_whole("d/a", [b"def"])
        assert sweep_leftovers(storage, "", 0.0) == 0
        assert list(service.outside_names()) == ["d/a"]

    def test_service_without_whole_creates_says_so(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need_missing(storage, "whole")
        with pytest.raises(CapabilityError, match="chunk=d/a"):
            create_whole(storage, "d/a", [b"x"])
        assert not service.outside_names()
