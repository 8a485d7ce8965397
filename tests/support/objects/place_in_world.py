"""A place of backups on the storage of a simulated world, whose calls have a fate as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.objects.space_place import SpacePlace, folders_in
from siltstone.store.handles.import_writer import ImportTarget
from tests.support.borrowed_environment import BorrowedEnvironment
from tests.support.container.container_world import World
from tests.support.objects.compaction_life import CHUNK_BYTES


def places_in(world: World, patch: pytest.MonkeyPatch) -> None:
    """Let backups and restores of keyspaces work on the storage of a world."""

    def client() -> ChunkStorage:
        storage = world.faulty(world.new_storage())
        world.storage_hook(storage)
        return storage

    @contextmanager
    def spaces_in(_: str) -> Iterator[list[SpacePlace]]:
        storage = client()
        yield [SpacePlace(storage, world.environment, each) for each in folders_in(storage)]

    async def own_target(store: object) -> ImportTarget:
        return ImportTarget(client(), CHUNK_BYTES, world.environment)

    async def at_once(close: Callable[[], None]) -> None:
        close()  # a thread would let the virtual time pass

    def open_place(*_: object, **__: object) -> ChunkStorage:
        return client()

    module = "siltstone.objects.space_backup"
    patch.setattr(f"{module}.open_place", open_place)
    patch.setattr(f"{module}.SystemEnvironment", lambda: BorrowedEnvironment(world.environment))
    patch.setattr(f"{module}.OBJECT_BYTES", 700)
    module = "siltstone.objects.restore_space"
    patch.setattr(f"{module}.spaces_in", spaces_in)
    patch.setattr(f"{module}.own_target", own_target)
    patch.setattr(f"{module}.off_loop", at_once)
