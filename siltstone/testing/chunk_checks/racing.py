"""Checks of calls that run at the same time."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkExistsError, ChunkNotFoundError, ChunkOffsetError
from siltstone.testing.chunk_checks.subject import (
    ChunkService,
    ChunkSubject,
    Raised,
    at_once,
    fill,
    names,
    need,
    read,
)

THREADS = 8
ROUNDS = 10


class RaceChecks(ChunkSubject):
    """Of callers who want the same thing one gets it; callers who do not never meet."""

    def test_create_of_one_name_is_won_once(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        for number in range(ROUNDS):
            name = f"d{number}/a"
            results = at_once(
                [partial(storage.create, name, [b"%d" % index] * 50) for index in range(THREADS)]
            )
            winners = [index for index, result in enumerate(results) if result is None]
            assert len(winners) == 1, results
            assert service.outside_read(name) == b"%d" % winners[0] * 50
            self._all_of(results, ChunkExistsError)

    def test_create_of_one_name_by_two_clients_is_won_once(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        other = service.open()
        for number in range(ROUNDS):
            calls: list[Callable[[], None]] = [
                partial(storage.create, f"{number}", [b"one"]),
                partial(other.create, f"{number}", [b"two"]),
            ]
            results = at_once(calls)
            assert results.count(None) == 1, results
            won = (b"one", b"two")[results.index(None)]
            assert service.outside_read(f"{number}") == won
            self._all_of(results, ChunkExistsError)
        other.close()

    def test_write_at_one_offset_is_won_once(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        storage.create("a", [b"_" * 1_000])
        expected = b"_" * 1_000
        for number in range(1, min(ROUNDS, storage.capabilities.appends_max)):
            calls = [
                partial(storage.write, "a", number * 1_000, [b"%d" % index] * 1_000)
                for index in range(THREADS)
            ]
            results = at_once(calls)
            assert results.count(None) == 1, results
            expected += b"%d" % results.index(None) * 1_000
            assert service.outside_read("a") == expected
            self._all_of(results, ChunkOffsetError)

    def test_delete_of_one_name_is_won_once(self, storage: ChunkStorage) -> None:
        for number in range(ROUNDS):
            fill(storage, f"d/{number}")
            results = at_once([partial(storage.delete, f"d/{number}")] * THREADS)
            assert results.count(None) == 1, results
            self._all_of(results, ChunkNotFoundError)

    def test_chunks_come_and_go_in_one_folder(self, storage: ChunkStorage) -> None:
        def come_and_go(index: int) -> None:
            for number in range(ROUNDS):
                storage.create(f"d/e/{index}-{number}", [b"x"])
                storage.delete(f"d/e/{index}-{number}")

        results = at_once([partial(come_and_go, index) for index in range(THREADS)])
        assert results == [None] * THREADS
        assert names(storage) == []

    def test_writes_to_many_chunks_do_not_mix(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        rounds = min(ROUNDS, storage.capabilities.appends_max)

        def write_all(index: int) -> None:
            storage.create(f"d/{index}", [b"%d" % index])
            for offset in range(1, rounds):
                storage.write(f"d/{index}", offset, [b"%d" % index])

        assert at_once([partial(write_all, index) for index in range(THREADS)]) == [None] * THREADS
        for index in range(THREADS):
            assert service.outside_read(f"d/{index}") == b"%d" % index * rounds

    def test_acknowledged_bytes_are_visible_while_a_write_is_in_flight(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        part = min(60_000, storage.capabilities.chunk_bytes_max // ROUNDS)
        writes = min(ROUNDS, storage.capabilities.appends_max)
        storage.create("d/a", [bytes(part)])
        done = [1]

        def write_all() -> None:
            for number in range(1, writes):
                storage.write("d/a", number * part, [bytes([number]) * part])
                done[0] = number + 1
            done.append(0)

        def look_at_it() -> None:
            other = service.open()
            while len(done) == 1:
                length = done[0] * part
                assert other.stat("d/a").length >= length
                assert next(other.list("d/")).length >= length
                assert read(other, "d/a", length - part, part) == bytes([length // part - 1]) * part
            other.close()

        assert at_once([write_all, look_at_it]) == [None, None]

    def test_reads_run_side_by_side(self, storage: ChunkStorage) -> None:
        content = bytes(range(256)) * 40
        fill(storage, "a", content=[content[: storage.capabilities.chunk_bytes_max]])

        def look_at_it(offset: int) -> bytes:
            return read(storage, "a", offset, 16)

        offsets = range(0, 160, 10)
        results = at_once([partial(look_at_it, offset) for offset in offsets])
        assert results == [content[offset : offset + 16] for offset in offsets]

    def _all_of(self, results: list[Raised | None], kind: type[Exception]) -> None:
        """All that lost were told so, and why."""
        for result in results:
            assert result is None or isinstance(result.error, kind), result
