"""Checks of calls that run at the same time."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkOffsetError,
)
from siltstone.testing.chunk_checks.abilities import part_of
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
MANY_THREADS = 32


class RaceChecks(ChunkSubject):
    """Of callers that want the same thing one gets it; callers that do not never meet."""

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

        def look_at_it(offset: int) -> list[bytes]:
            return [read(storage, "a", offset, 16) for _ in range(ROUNDS)]

        offsets = range(0, 160, 10)
        results = at_once([partial(look_at_it, offset) for offset in offsets])
        assert results == [[content[offset : offset + 16]] * ROUNDS for offset in offsets]

    def test_write_at_one_offset_by_two_clients_is_won_once(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        need(storage, "offset_checked")
        other = service.open()
        storage.create("a", [b"_" * 10])
        expected = b"_" * 10
        for number in range(1, min(ROUNDS, storage.capabilities.appends_max)):
            calls = [
                partial(client.write, "a", number * 10, [b"%d" % index] * 10)
                for index, client in enumerate((storage, other))
            ]
            results = at_once(calls)
            assert results.count(None) == 1
            expected += b"%d" % results.index(None) * 10
            self._all_of(results, ChunkOffsetError)
        assert service.outside_read("a") == expected
        other.close()

    def test_concat_to_one_name_is_won_once(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "concat")
        for index in range(THREADS):
            fill(storage, f"s/{index}", content=[part_of(storage, b"%d" % index)])
        for number in range(3):
            calls = [
                partial(storage.concat, f"t{number}", [(f"s/{index}", len(part_of(storage, b"x")))])
                for index in range(THREADS)
            ]
            results = at_once(calls)
            assert results.count(None) == 1
            won = part_of(storage, b"%d" % results.index(None))
            assert service.outside_read(f"t{number}") == won
            self._all_of(results, ChunkExistsError)

    def test_create_and_delete_of_one_name_at_once(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        for number in range(ROUNDS):
            name = f"{number}"
            fill(storage, name, content=[b"old"])
            calls: list[Callable[[], None]] = [
                partial(storage.delete, name),
                partial(storage.create, name, [b"new"]),
            ]
            deleted, created = at_once(calls)
            assert deleted is None
            self._all_of([created], ChunkExistsError)
            assert service.outside_read(name) == (b"new" if created is None else None)

    def test_read_and_delete_at_once(self, storage: ChunkStorage) -> None:
        content = bytes(range(250)) * 40
        for number in range(ROUNDS):
            name = f"{number}"
            fill(storage, name, content=[content])

            def look_at_it(name: str = name) -> None:
                assert read(storage, name, 0, len(content)) == content

            calls: list[Callable[[], None]] = [look_at_it] * 4
            calls.append(partial(storage.delete, name))
            results = at_once(calls)
            assert results[-1] is None
            self._all_of(results, ChunkNotFoundError)

    def test_write_and_delete_at_once(self, storage: ChunkStorage) -> None:
        need(storage, "append")
        for number in range(ROUNDS):
            name = f"{number}"
            fill(storage, name)
            calls: list[Callable[[], None]] = [
                partial(storage.write, name, 1, [b"y"]),
                partial(storage.delete, name),
            ]
            written, deleted = at_once(calls)
            assert deleted is None
            self._all_of([written], ChunkNotFoundError)
        assert names(storage) == []

    def test_write_and_seal_at_once(self, storage: ChunkStorage, service: ChunkService) -> None:
        need(storage, "append")
        need(storage, "seal")
        for number in range(ROUNDS):
            name = f"{number}"
            fill(storage, name)
            calls: list[Callable[[], None]] = [
                partial(storage.write, name, 1, [b"y"]),
                partial(storage.seal, name),
            ]
            written, sealed = at_once(calls)
            assert sealed is None
            self._all_of([written], ChunkAccessDeniedError)
            content = b"xy" if written is None else b"x"
            with pytest.raises(ChunkAccessDeniedError):
                storage.write(name, len(content), [b"z"])
            assert service.outside_read(name) == content

    def test_listings_run_side_by_side(self, storage: ChunkStorage) -> None:
        keys = sorted(f"d{number % 3}/{number:03}" for number in range(30))
        fill(storage, *keys)
        results = at_once([partial(names, storage)] * THREADS)
        assert results == [keys] * THREADS

    def test_listings_run_while_chunks_come_and_go(self, storage: ChunkStorage) -> None:
        keys = [f"k/{number:03}" for number in range(20)]
        fill(storage, *keys)

        def come_and_go() -> None:
            for number in range(ROUNDS):
                storage.create(f"k/{number:03}-new", [b"x"])
                storage.delete(f"k/{number:03}-new")

        def look_at_it() -> None:
            for _ in range(5):
                seen = names(storage)
                assert [name for name in seen if name in keys] == keys
                assert len(set(seen)) == len(seen)

        assert at_once([come_and_go, look_at_it, look_at_it]) == [None] * 3

    def test_very_many_threads_do_different_things(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        def live(index: int) -> None:
            name, content = f"d{index % 4}/{index}", b"%d" % index * 500
            storage.create(name, [content])
            assert storage.stat(name).length == len(content)
            assert read(storage, name) == content
            assert names(storage, name + "/") == []
            if index % 2:
                storage.delete(name)

        assert at_once([partial(live, index) for index in range(MANY_THREADS)]) == (
            [None] * MANY_THREADS
        )
        assert len(service.outside_names()) == MANY_THREADS // 2

    def test_two_clients_work_beside_one_another(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        other = service.open()

        def live(client: ChunkStorage, folder: str) -> None:
            for number in range(ROUNDS):
                client.create(f"{folder}/{number}", [b"%d" % number])
                assert read(client, f"{folder}/{number}") == b"%d" % number

        assert at_once([partial(live, storage, "a"), partial(live, other, "b")]) == [None, None]
        assert len(names(storage)) == len(names(other)) == 2 * ROUNDS
        other.close()

    def _all_of(self, results: list[Raised | None], kind: type[Exception]) -> None:
        """All that lost were told so, and why."""
        for result in results:
            assert result is None or isinstance(result.error, kind), result
