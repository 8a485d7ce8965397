"""Many chunks are deleted in few requests where the service can do that; none is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.container.garbage.bulk_delete import delete_chunks
from siltstone.core.chunk_storage import Capabilities
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkError, ChunkUnavailableError, Outcome
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.optional_verbs import delete_many, sweep_leftovers
from siltstone.core.storage.retries import Retries, RetryingChunkStorage
from siltstone.testing.faults.faulty_chunk_storage import Fate, FaultyChunkStorage, fail_number
from tests.support import inside

NAMES = [f"d/{number}" for number in range(7)]


class BulkStorage(MemoryChunkStorage):
    """A service that deletes three chunks by one request, and has leftovers."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[list[str]] = []
        self.swept: list[tuple[str, float]] = []
        self.stuck: set[str] = set()
        self.failing = 0

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, bulk_delete_max=3)

    def delete_many(self, names: Sequence[str]) -> Mapping[str, ChunkError]:
        self.requests.append(list(names))
        if self.failing:
            self.failing -= 1
            raise ChunkUnavailableError(
                "no", chunk=names[0], operation="delete", outcome=Outcome.UNKNOWN
            )
        kept = self.stuck & set(names)
        for name in set(names) - kept:
            self._bucket.chunks.pop(name.encode(), None)
        return {name: ChunkError("stuck", chunk=name, operation="delete") for name in kept}

    def sweep_leftovers(self, prefix: str, age_s: float) -> int:
        self.swept.append((prefix, age_s))
        return 4


def deleted(storage: MemoryChunkStorage | FaultyChunkStorage | RetryingChunkStorage) -> set[str]:
    """Make seven chunks but the first, delete all seven, and return the names that failed."""
    for name in NAMES[1:]:
        storage.create(name, [b"x"])
    environment = SystemEnvironment()

    async def run() -> set[str]:
        return set(await delete_chunks(AsyncChunkStorage(storage, environment), NAMES))

    try:
        return asyncio.run(run())
    finally:
        environment.close()


def test_as_few_requests_as_the_service_allows() -> None:
    storage = BulkStorage()
    assert deleted(storage) == set()
    assert storage.requests == [NAMES[:3], NAMES[3:6], NAMES[6:]]
    assert not inside.bucket(storage).chunks


def test_one_that_is_stuck_keeps_no_other() -> None:
    storage = BulkStorage()
    storage.stuck = {NAMES[4]}
    assert deleted(storage) == {NAMES[4]}
    assert set(inside.bucket(storage).chunks) == {NAMES[4].encode()}


def test_a_request_that_fails_fails_for_its_names_alone() -> None:
    storage = BulkStorage()
    storage.failing = 1
    assert deleted(storage) == set(NAMES[:3])
    assert len(storage.requests) == 3


def test_one_by_one_where_there_is_no_such_request() -> None:
    storage = FaultyChunkStorage(MemoryChunkStorage())
    storage.plan = fail_number(3, Fate.REFUSED, "delete")
    assert len(deleted(storage)) == 1
    assert [call.operation for call in storage.calls].count("delete") == 7


def test_wrappers_pass_both_on() -> None:
    inner = BulkStorage()
    inner.failing = 2
    environment = SystemEnvironment()
    wrapped = RetryingChunkStorage(
        FaultyChunkStorage(inner), environment, Retries(attempts=3, deadline_s=30.0)
    )
    assert wrapped.delete_many(NAMES[:2]) == {}
    assert inner.requests == [NAMES[:2]] * 3
    assert wrapped.sweep_leftovers("d/", 5.0) == 4
    assert inner.swept == [("d/", 5.0)]
    environment.close()


def test_what_a_storage_lacks_has_its_default() -> None:
    storage = MemoryChunkStorage()
    storage.create("a", [b"x"])
    assert delete_many(storage, ["a", "gone"]) == {}
    assert list(storage.list()) == []
    assert sweep_leftovers(storage, "", 0.0) == 0
