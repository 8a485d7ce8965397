"""A boot that is overtaken between its claim and its look at the log, by one that fails."""

from __future__ import annotations

from uuid import UUID

import pytest

from siltstone.core.errors import FencedError
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from tests.support.container.container_world import pattern, world

pytestmark = pytest.mark.virtual_time


async def test_a_boot_that_finds_frames_of_a_newer_epoch_is_fenced() -> None:
    """It must not state them as its own: the next owner would take the log for another one."""
    async with world() as made:
        first = await made.open()
        await first.container.create("a")
        await first.container.append("a", pattern(1, 500))
        lineage = UUID(first.container.stats().lineage).bytes
        await first.container.close()
        plan = FaultPlan()

        def overtake(method: str, number: int) -> None:
            if method == "claim":
                other = MemoryFencedLog("world", 0, shared=made.shared_log)
                other.claim(lineage=lineage, new=False, above=0, takeover=True, owner="other")
                other.close()

        plan.after = overtake
        with pytest.raises(FencedError):
            await made.open(plan=plan)
        last = await made.open()
        assert await last.container.read("a", 0, 1_000) == pattern(1, 500)
        await last.container.close()
