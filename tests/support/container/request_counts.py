"""A container of which every request to long-term storage is counted, and nothing fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.models.settings import ContainerSettings
from siltstone.core.chunk_names import data_prefix
from siltstone.core.constants import KIB
from siltstone.testing.faults.faulty_chunk_storage import Fate, FaultyChunkStorage, StorageCall
from siltstone.testing.virtual_time import Latency, instant
from tests.support.container.container_world import SETTINGS, Owner, World, world

NEVER = 1e6
WRITE_ONCE = Profile(append=False, concat=False, seal=False)
QUIET = replace(
    SETTINGS,
    chunk_bytes=64 * KIB,
    flush_bytes=1 << 40,
    flush_age_s=NEVER,
    table_flush_age_s=NEVER,
    checkpoint_age_s=NEVER,
    garbage_interval_s=NEVER,
    space_interval_s=NEVER,
)


class Requests:
    """A plan under which nothing fails, and that counts calls by verb.

    Attributes:
        data: those for chunks of segments.
        system: all others.
    """

    def __init__(self) -> None:
        self.data: Counter[str] = Counter()
        self.system: Counter[str] = Counter()

    @property
    def all(self) -> Counter[str]:
        """All calls."""
        return self.data + self.system

    def clear(self) -> None:
        """Begin to count again."""
        self.data.clear()
        self.system.clear()

    def __call__(self, call: StorageCall) -> Fate:
        counted = self.data if call.name.startswith(data_prefix(0)) else self.system
        counted[call.operation] += 1
        return Fate.DONE


@asynccontextmanager
async def counted_open(
    profile: Profile = WRITE_ONCE,
    settings: ContainerSettings = QUIET,
    latency: Latency = instant,
) -> AsyncIterator[tuple[World, Owner, Requests]]:
    """Open an owner, whose requests are counted, and leave its end to the block."""
    requests = Requests()

    def hook(storage: FaultyChunkStorage) -> None:
        storage.plan = requests

    async with world(profile=profile, settings=settings, latency=latency) as made:
        made.storage_hook = hook
        owner = await made.open()
        # The first open looks whether any owner flushed before it; no later one does.
        assert requests.data == {"list": 1}
        requests.data.clear()
        yield made, owner, requests


@asynccontextmanager
async def counted(
    profile: Profile = WRITE_ONCE,
    settings: ContainerSettings = QUIET,
    latency: Latency = instant,
) -> AsyncIterator[tuple[World, Owner, Requests]]:
    """Open an owner that is there at the end of the block; then check and close its container."""
    async with counted_open(profile, settings, latency) as (made, owner, requests):
        yield made, owner, requests
        assert owner.container.failure is None
        await made.check(owner)
        await owner.container.close()
