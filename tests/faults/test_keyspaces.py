"""Every call that a keyspace makes meets every fault.

What may fail: one call to long-term storage or the log, while a keyspace is made, opened, changed,
destroyed, takes large values, or rolls its value segments: refused; lost; applied with its reply
lost; applied by half; answered too late; no room; or the process dies before the call or after it.
What must hold: what was told to be done is there; what was told to have failed is not, unless its
outcome is unknown; of what is unknown a beginning is there; head, index and value of a change are
there together or not at all; the same process, or the next one, goes on; each full value segment
gets its footer; of large values that no object has, nothing is left in the end.
"""

from __future__ import annotations

import pytest

from siltstone.objects.open_spaces import destroy_space
from tests.support.objects.space_life import (
    SpaceLife,
    SpaceOperation,
    play,
    play_every,
    play_some,
)
from tests.support.objects.space_model import SpaceModel
from tests.support.objects.space_world import NAMES

SAMPLE = 10
"""Runs of each operation without ``soak``."""


async def nothing(life: SpaceLife) -> None:
    """No keyspace is there."""


async def an_empty_one(life: SpaceLife) -> None:
    await life.make()
    await life.open_space()


async def some_objects(life: SpaceLife) -> None:
    """Value segments with footers, one without, and one that is not full."""
    await an_empty_one(life)
    await life.burst(11)
    await life.world.environment.sleep(5)
    await life.burst(3)


async def make(life: SpaceLife) -> None:
    await life.make()
    await life.open_space()


async def change(life: SpaceLife) -> None:
    """A batch alone, and batches next to one another, without a roll."""
    await life.burst(1)
    await life.burst(2)


async def roll(life: SpaceLife) -> None:
    """Several rolls, and their footers while batches go on."""
    await life.burst(8)
    await life.burst(8)
    await life.world.environment.sleep(3)


async def flush(life: SpaceLife) -> None:
    """Records and rows on their way to long-term storage."""
    await life.burst(9)
    await life.do(lambda opened: opened.store.flush())
    await life.burst(3)


async def reopen(life: SpaceLife) -> None:
    """The next owner finds a value segment without its footer."""
    await life.burst(6)
    await life.reopen()
    await life.burst(1)


async def destroy(life: SpaceLife) -> None:
    """A keyspace with several value segments goes, and another one of its name comes."""
    await life.do(lambda opened: destroy_space(opened.store, NAMES))
    life.keyspace, life.model = None, SpaceModel()
    await make(life)


async def upload(life: SpaceLife) -> None:
    """Large values that replace one another, and that small ones replace."""
    for _ in range(3):
        await life.upload()
    await life.burst(4)


OPERATIONS = {
    "change": SpaceOperation(some_objects, change),
    "destroy": SpaceOperation(some_objects, destroy),
    "flush": SpaceOperation(an_empty_one, flush),
    "make": SpaceOperation(nothing, make),
    "reopen": SpaceOperation(some_objects, reopen),
    "roll": SpaceOperation(an_empty_one, roll),
    "upload": SpaceOperation(some_objects, upload),
}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_some_calls_fail(name: str) -> None:
    play_some(name, OPERATIONS[name], SAMPLE)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_call_fails(name: str) -> None:
    play_every(OPERATIONS[name])


def test_calls_of_log_and_storage_meet_faults() -> None:
    seen = {call.split()[0] for name in ("flush", "reopen") for call in play(OPERATIONS[name]).seen}
    assert seen >= {"create", "list", "log"}
