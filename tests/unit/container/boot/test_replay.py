"""The replay of an owner whose log is truncated meanwhile, by a newer owner or without one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from siltstone.core.errors import FencedError, LogLostError
from siltstone.core.records.frame import Frame
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from siltstone.tier1.memory.shared_log import SharedLog
from tests.support.container.container_world import pattern, with_settings, world

pytestmark = pytest.mark.virtual_time

NO_FRAME_KEPT = with_settings(unflushed_bytes_max=1)
"""The first look at the log keeps no appends, so that the replay reads the log a second time."""


class ShorterLog(MemoryFencedLog):
    """Loses all frames before it is read a second time."""

    def __init__(self, shared: SharedLog, *, newer: bool) -> None:
        super().__init__("world", 0, shared=shared)
        self._newer = newer
        self._reads = 0

    def read(self, from_index: int) -> Iterator[Frame]:
        self._reads += 1
        if self._reads == 2:
            if self._newer:
                self._overtake()
            self._shared.frames.clear()
        return super().read(from_index)

    def _overtake(self) -> None:
        """Claim as a newer owner does. It may truncate what it has flushed."""
        newer = MemoryFencedLog("world", 0, shared=self._shared)
        newer.claim(lineage=self._lineage, new=False, above=0, takeover=True, owner="newer")


@pytest.mark.parametrize("newer", [False, True])
async def test_frames_that_a_newer_owner_truncated_are_not_lost(newer: bool) -> None:
    async with world() as made:
        first = await made.open()
        await first.container.create("a")
        await first.container.append("a", pattern(1, 100))
        await made.crash(first)
        made.new_log = lambda: ShorterLog(made.shared_log, newer=newer)
        told = "a newer epoch owns the log" if newer else "truncated beyond what is needed"
        with pytest.raises(FencedError if newer else LogLostError, match=told):
            await made.open(settings=NO_FRAME_KEPT)
