"""A container of which every request to long-term storage is counted, and nothing fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
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


Story = Callable[[World, Owner, Requests], Awaitable[None]]


def play(
    story: Story,
    profile: Profile = WRITE_ONCE,
    settings: ContainerSettings = QUIET,
    latency: Latency = instant,
) -> None:
    """Play a story with an owner who is there at its end; then check and close its container."""

    async def whole(made: World, owner: Owner, requests: Requests) -> None:
        await story(made, owner, requests)
        assert owner.container.failure is None
        await made.check(owner)
        await owner.container.close()

    play_open(whole, profile, settings, latency)


def play_open(
    story: Story,
    profile: Profile = WRITE_ONCE,
    settings: ContainerSettings = QUIET,
    latency: Latency = instant,
) -> None:
    """Play a story that ends its owners itself."""
    requests = Requests()

    def hook(storage: FaultyChunkStorage) -> None:
        storage.plan = requests

    async def whole(made: World) -> None:
        owner = await made.open()
        # The first open looks whether anybody flushed before it; no later one does.
        assert requests.data == {"list": 1}
        requests.data.clear()
        await story(made, owner, requests)

    with world(profile=profile, settings=settings, latency=latency) as made:
        made.storage_hook = hook
        made.run(whole(made))
