"""Every call of every operation meets every fault.

What may fail: one call to long-term storage or the log, of one operation: refused; lost; applied
with its reply lost; applied by half; answered too late, with its effect later still; or the process
dies before the call or after it. What must hold: a caller that repeats the operation reaches its
end, or hears that it took place; what was acknowledged is there, for this owner, for a reader, and
for an owner without a local index; every invariant holds.
"""

from __future__ import annotations

import shutil

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.chunk_names import data_chunk
from tests.support.faults.failing_calls import (
    DAYS_S,
    LATE_S,
    Mortal,
    Operation,
    a_source,
    open_chunk,
    play,
    play_every,
    play_some,
)

SAMPLE = 8
"""Runs of each operation without ``soak``."""


# --- operations: what comes before, and the one that is looked at ---------------------------------


async def nothing(life: Mortal) -> None:
    """Nothing but what every life begins with."""


async def append_and_flush(life: Mortal) -> None:
    await life.append("a", 900)
    await life.append_once("a", 3, 1_500)
    await life.flush()


async def create(life: Mortal) -> None:
    await life.create("new")


async def seal(life: Mortal) -> None:
    await life.append("a", 100)
    await life.seal("a")
    await life.flush("a")


async def several_chunks(life: Mortal) -> None:
    await life.filled(1_900, 1_900, 1_900)


async def truncate(life: Mortal) -> None:
    """Past one chunk and into the next one, whose rest is then relocated."""
    await life.truncate("a", 3_600)
    await life.do(lambda c: c.collect())
    await life.optimise()


async def delete(life: Mortal) -> None:
    await life.delete("a")
    await life.do(lambda c: c.garbage.run())
    await life.create("a")


async def concat(life: Mortal) -> None:
    await life.concat("a", "source")


async def commit(life: Mortal) -> None:
    await life.commit("a", 300, b"key")


async def checkpoint(life: Mortal) -> None:
    await life.append("a", 300)
    await life.do(lambda c: c.checkpoint())


async def garbage(life: Mortal) -> None:
    await several_chunks(life)
    await life.create("gone")
    await life.append("gone", 3_000)
    await life.flush()
    await life.delete("gone")
    await life.truncate("a", 2_500)


async def collect(life: Mortal) -> None:
    await life.do(lambda c: c.garbage.run())


async def small_chunks(life: Mortal) -> None:
    """Chunks of closed owners, which the optimiser merges."""
    for _ in range(4):
        await life.filled(200)
        await life.close()


async def optimise(life: Mortal) -> None:
    await life.optimise()
    # The delay of garbage is longer than calls are late. What comes later still is for a sweep.
    await life.wait(2 * LATE_S)
    await life.do(lambda c: c.garbage.run())


async def left_over(life: Mortal) -> None:
    """A chunk of an owner that died, three days old."""
    await life.filled(500)
    await life.close()
    life.world.new_storage().create(data_chunk(0, 1, "late", 0, 9), [b"late"])
    life.world.environment.clock.now += DAYS_S
    await life.opened()


async def sweep(life: Mortal) -> None:
    await life.sweep()


async def a_tail(life: Mortal) -> None:
    """Something in chunks, in tier 1, and in the tables."""
    await life.filled(2_500)
    await life.commit("a", 700, b"key")
    await life.truncate("a", 300)


async def boot(life: Mortal) -> None:
    await life.close()
    await life.append("a", 10)


async def boot_without_index(life: Mortal) -> None:
    await life.close()
    shutil.rmtree(life.world.folder / "index", ignore_errors=True)
    await life.append("a", 10)


async def rename(life: Mortal) -> None:
    await life.rename("a", "b")
    await life.append("b", 20)


async def many_small(life: Mortal) -> None:
    for name in ("x", "y", "z"):
        await life.create(name)
        await life.append(name, 150)
    await life.flush()


WRITE_ONCE = Profile(append=False, concat=False, seal=False)
OPERATIONS = {
    "append and flush": Operation(before=open_chunk, act=append_and_flush),
    "append and flush, write once": Operation(
        before=open_chunk, act=append_and_flush, profile=WRITE_ONCE
    ),
    "boot": Operation(before=a_tail, act=boot),
    "boot without index": Operation(before=a_tail, act=boot_without_index),
    "checkpoint": Operation(before=a_tail, act=checkpoint),
    "collect": Operation(before=garbage, act=collect),
    "commit": Operation(before=open_chunk, act=commit),
    "concat": Operation(before=a_source, act=concat),
    "concat in slices": Operation(before=a_source, act=concat, slices=2),
    "create": Operation(before=nothing, act=create),
    "delete": Operation(before=several_chunks, act=delete),
    "optimise": Operation(before=small_chunks, act=optimise),
    "pack": Operation(before=nothing, act=many_small, pack_bytes=500),
    "rename": Operation(before=open_chunk, act=rename),
    "seal": Operation(before=open_chunk, act=seal),
    "sweep": Operation(before=left_over, act=sweep),
    "truncate and relocate": Operation(before=several_chunks, act=truncate),
}


def test_calls_of_every_kind_meet_faults() -> None:
    names = ("append and flush", "checkpoint", "collect", "optimise", "sweep")
    seen = {call.split()[0] for name in names for call in play(OPERATIONS[name]).seen}
    assert seen >= {"create", "write", "concat", "list", "read_into", "delete", "log"}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_some_calls_fail(name: str) -> None:
    play_some(name, OPERATIONS[name], SAMPLE)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_call_fails(name: str) -> None:
    play_every(OPERATIONS[name])
