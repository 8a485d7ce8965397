"""The one way of tests to what a part of the engine keeps to itself.

A test looks from outside where it can. Where it cannot, it comes here, so that one place holds what
the tests know of the inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import asyncio

    from rocksdict import Rdict

    from siltstone.bindings.memory.bucket import Bucket
    from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
    from siltstone.container.container import Container
    from siltstone.container.owner_parts import OwnerParts
    from siltstone.metadata.index import Index
    from siltstone.objects.async_keyspace import AsyncKeyspace
    from siltstone.objects.open_space import OpenSpace
    from siltstone.objects.value_segments import ValueSegments
    from siltstone.segments.context import Context
    from siltstone.segments.segment_storage import ChunkedSegmentStorage
    from siltstone.store.async_store import AsyncStore
    from siltstone.store.blocking.background_loop import BackgroundLoop
    from siltstone.store.handles.container_slot import ContainerSlot
    from siltstone.store.store import Store


def parts(container: Container) -> OwnerParts:
    """What an owner is made of."""
    return container._parts


def slots(store: AsyncStore) -> Sequence[ContainerSlot]:
    """The containers of a store, by their index."""
    return store._slots


def async_store(store: Store) -> AsyncStore:
    """What a blocking store calls."""
    return store._store


def loop(store: Store) -> BackgroundLoop:
    """Where a blocking store calls it."""
    return store._loop


def context(segments: ChunkedSegmentStorage) -> Context:
    """What the parts of a segment layer share."""
    return segments._context


def database(index: Index) -> Rdict:
    """The files of a local index."""
    return index._database


def bucket(storage: MemoryChunkStorage) -> Bucket:
    """Where a storage in memory has its chunks."""
    return storage._bucket


def open_space(keyspace: AsyncKeyspace) -> OpenSpace:
    """What the handles of a keyspace share."""
    return keyspace._space


def value_segments(space: OpenSpace) -> ValueSegments:
    """What begins and ends the value segments of an open keyspace."""
    return cast("ValueSegments", space.batches._rolling)


def space_tasks(space: OpenSpace) -> list[asyncio.Task[None]]:
    """What an open keyspace does by itself."""
    return [*space._tasks, *([] if space._run is None else [space._run])]


def is_comparing(space: OpenSpace) -> bool:
    """Whether a head is being compared with its record, after it was given to a caller."""
    return space.checks._busy


def watching(store: AsyncStore) -> asyncio.Task[None] | None:
    """What opens containers of a store again."""
    return store._watching
