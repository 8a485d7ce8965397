"""Checks of closing, by one caller and by many."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ClosedError
from siltstone.testing.chunk_checks.subject import (
    ChunkService,
    ChunkSubject,
    Raised,
    at_once,
    fill,
    names,
    read,
)

OPENED = Path("/proc/self/fd")
CYCLES = 12


class CloseChecks(ChunkSubject):
    """A closed storage refuses every call; the service and its other clients continue."""

    def test_close_twice(self, storage: ChunkStorage) -> None:
        storage.close()
        storage.close()

    @pytest.mark.parametrize(
        "operation",
        [
            "create", "write", "read_into", "stat", "list", "delete", "concat", "seal",
            "used_space", "free_space",
        ],
    )  # fmt: skip
    def test_closed_storage_refuses(
        self, storage: ChunkStorage, service: ChunkService, operation: str
    ) -> None:
        fill(storage, "a")
        storage.close()
        calls: dict[str, Callable[[], object]] = {
            "create": lambda: storage.create("b", [b"x"]),
            "write": lambda: storage.write("a", 1, [b"x"]),
            "read_into": lambda: storage.read_into("a", 0, bytearray(1)),
            "stat": lambda: storage.stat("a"),
            "list": lambda: list(storage.list()),
            "delete": lambda: storage.delete("a"),
            "concat": lambda: storage.concat("b", [("a", 1)]),
            "seal": lambda: storage.seal("a"),
            "used_space": lambda: storage.used_space(),
            "free_space": lambda: storage.free_space(),
        }
        with pytest.raises(ClosedError):
            calls[operation]()
        assert list(service.outside_names()) == ["a"]
        assert service.outside_read("a") == b"x"

    def test_close_leaves_other_clients_alone(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        other = service.open()
        fill(other, "a")
        other.close()
        fill(storage, "b")
        assert names(storage) == ["a", "b"]

    def test_listing_ends_with_its_storage(self, storage: ChunkStorage) -> None:
        fill(storage, *(f"{number}" for number in range(self.listed_count)))
        listing = storage.list()
        next(listing)
        storage.close()
        with pytest.raises(ClosedError):
            list(listing)

    def test_reopened_storage_finds_everything(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        fill(storage, "d/a", content=[b"abc"])
        storage.close()
        again = service.open()
        assert read(again, "d/a") == b"abc"
        assert names(again) == ["d/a"]
        again.close()

    def test_close_by_many_at_once(self, storage: ChunkStorage) -> None:
        fill(storage, "a")
        assert at_once([storage.close] * 8) == [None] * 8
        with pytest.raises(ClosedError):
            storage.stat("a")

    def test_close_lets_running_calls_end(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        content = bytes(range(250)) * 80
        service.outside_write("a", content)
        begun = threading.Barrier(5)

        def look_at_it() -> None:
            begun.wait(30)
            for _ in range(20):
                assert read(storage, "a", 0, len(content)) == content

        def close() -> None:
            begun.wait(30)
            storage.close()

        results = at_once([*[look_at_it] * 4, close])
        assert results[-1] is None
        for result in results:
            assert result is None or isinstance(result.error, ClosedError), result

    def test_a_storage_that_was_never_used_closes(self, service: ChunkService) -> None:
        service.open().close()
        assert not service.outside_names()

    def test_opening_and_closing_leaves_nothing_open(self, service: ChunkService) -> None:
        if not OPENED.is_dir():
            pytest.skip("open files cannot be counted here")

        def use() -> None:
            storage = service.open()
            fill(storage, "a")
            assert names(storage) == ["a"]
            storage.delete("a")
            storage.close()

        use()  # What is made once stays.
        gc.collect()
        before = len(os.listdir(OPENED)), threading.active_count()
        for _ in range(CYCLES):
            use()
        gc.collect()
        after = len(os.listdir(OPENED)), threading.active_count()
        assert after[0] <= before[0], "open files"
        assert after[1] <= before[1], "threads"

    def test_opening_changes_nothing(self, storage: ChunkStorage, service: ChunkService) -> None:
        fill(storage, "a")
        clients = at_once([partial(service.open)] * 8)
        for client in clients:
            assert not isinstance(client, Raised)
            assert names(client) == ["a"]
            client.close()
