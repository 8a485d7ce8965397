"""The contracts on mounts of NFS, and a life of a collection there.

The guest runs it: pytest does not find it by its name.

Clients are opened on two mounts in turns. Each mount has caches of its own, so they are like two
machines. The view from outside is a third mount, which keeps nothing in memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import cycle
from pathlib import Path
from uuid import uuid4

import pytest

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from siltstone.testing.consensus_contract import ConsensusContract, ConsensusService
from tests.support.collections.served_life import served_life
from tests.support.services.consensus_places import ObjectPlace
from tests.support.services.local_services import FolderService

MOUNTS = "SILTSTONE_NFS_MOUNTS"
"""The variable with the three mounts, the outer one last, separated by ``:``."""

LEFT_OVER_S = 10.0
"""A file that the client still has after this was never closed: the check fails."""

POLL_S = 0.01


class MountService:
    """A new folder of the export."""

    def __init__(self, mounts: Sequence[str]) -> None:
        name = uuid4().hex
        *insides, outside = [Path(mount) / name for mount in mounts]
        self._insides = cycle(insides)
        self._outside = FolderService(root=outside)

    def open(self) -> ChunkStorage:
        return NfsChunkStorage(next(self._insides))

    def outside_read(self, name: str) -> bytes | None:
        return self._outside.outside_read(name)

    def outside_names(self) -> list[str]:
        """The names; a file that was deleted while it was read may last a little (``.nfs…``).

        The client removes it after the last close, and the close does not wait for that.
        """
        until = time.monotonic() + LEFT_OVER_S
        while True:
            names = self._outside.outside_names()
            if time.monotonic() > until or not any(Path(name).name[:4] == ".nfs" for name in names):
                return names
            time.sleep(POLL_S)

    def outside_write(self, name: str, content: bytes) -> None:
        self._outside.outside_write(name, content)


def new_folder() -> ChunkService:
    return MountService(os.environ[MOUNTS].split(":"))


class TestNfsMount(ChunkStorageContract):
    missing = frozenset({"concat"})
    model_runs = 3

    @pytest.fixture
    def service(self) -> ChunkService:
        return new_folder()


class TestConsensusOnMounts(ConsensusContract):
    callers = 3
    lines = 4
    model_runs = 3

    @pytest.fixture
    def service(self) -> Iterator[ConsensusService]:
        with closing(ObjectPlace(chunks=new_folder())) as place:
            yield place


async def test_a_collection_lives_on_two_mounts() -> None:
    await served_life(new_folder())
