"""An owner that was overtaken and does not know it is asked for what would change nothing.

What may fail: a newer owner takes over while the older one is idle, or while the answer of the log
to its last frame is on its way; then a caller asks the older one. What must hold: it acknowledges
and refuses nothing on the strength of what it knows, for the newer one may have made that untrue:
here by a deletion, and a new segment and table of the same names. The caller hears that it is
fenced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from siltstone.container.container import Container
from siltstone.container.models.segments import Append, LengthIs, Put
from siltstone.core.errors import FencedError, SiltstoneError
from siltstone.core.records.retention_row import RetentionScope
from tests.support.container.container_world import Owner, World, pattern, with_settings, world
from tests.support.faults.zombie import PausingEnvironment

pytestmark = pytest.mark.virtual_time

QUIET = with_settings(
    flush_age_s=1e6, table_flush_age_s=1e6, checkpoint_age_s=1e6, garbage_interval_s=1e6
)
WRITER = 1
"""Number of the first writer of a container."""

Ask = Callable[[Container], Awaitable[object]]

DONE_ALREADY: dict[str, Ask] = {
    "append of nothing": lambda c: c.append("a", b""),
    "append once": lambda c: c.append_as("a", WRITER, 7, b"once"),
    "commit of nothing": lambda c: c.commit([Append("a", b"")], [LengthIs("a", 3_004)]),
    "concat": lambda c: c.concat("a", "joined"),
    "create": lambda c: c.create("a", exist_ok=True),
    "create table": lambda c: c.create_table("t", exist_ok=True),
    "flush": lambda c: c.flush(),
    "register writer": lambda c: c.register_writer("a", "w"),
    "rename": lambda c: c.rename("old", "new"),
    "remove retention": lambda c: c.retention.remove(RetentionScope.SEGMENT, "a"),
    "seal": lambda c: c.seal("sealed"),
    "truncate": lambda c: c.truncate("a", 1_000),
}
"""What an owner that is one answers at once, since it took place or there is nothing to do."""

REFUSED: dict[str, Ask] = {
    "append at an offset": lambda c: c.append("a", b"x", 5),
    "append by an unknown writer": lambda c: c.append_as("a", WRITER + 1, 1, b"x"),
    "append of an older sequence": lambda c: c.append_as("a", WRITER, 6, b"x"),
    "append to a sealed one": lambda c: c.append("sealed", b"x"),
    "append to none": lambda c: c.append("none", b"x"),
    "commit on a condition": lambda c: c.commit([Append("a", b"x")], [LengthIs("a", 5)]),
    "commit to no table": lambda c: c.commit([Put("none", b"k", b"v")]),
    "concat of an open one": lambda c: c.concat("a", "new"),
    "create": lambda c: c.create("a"),
    "delete of none": lambda c: c.delete("none"),
    "rename to a name that is taken": lambda c: c.rename("a", "sealed"),
    "truncate beyond the end": lambda c: c.truncate("a", 9_000),
}
"""What it refuses for reasons that only an owner knows."""


async def prepared(owner: Owner) -> None:
    container = owner.container
    for name in ("a", "joined", "old", "sealed"):
        await container.create(name)
    await container.create_table("t")
    await container.append("a", pattern(1, 3_000))
    assert (await container.register_writer("a", "w")).number == WRITER
    await container.append_as("a", WRITER, 7, b"once")
    await container.seal("sealed")
    await container.seal("joined")
    await container.concat("a", "joined")
    await container.rename("old", "new")
    await container.truncate("a", 1_000)
    await container.flush()


async def overtake(made: World) -> Owner:
    """Take over, and make everything that the older owner knows of these names untrue."""
    newer = await made.open(takeover=True, index="newer")
    for name in ("a", "sealed", "new"):
        await newer.container.delete(name)
        await newer.container.create(name)
    await newer.container.create("none")
    return newer


async def ended(older: Owner) -> None:
    with pytest.raises(FencedError):
        await older.container.append("a", b"late")
    with suppress(SiltstoneError):
        await older.container.close()


@pytest.mark.parametrize("ask", sorted(DONE_ALREADY))
async def test_nothing_is_acknowledged_from_memory(ask: str) -> None:
    async with world(settings=QUIET) as made:
        older = await made.open()
        await prepared(older)
        await DONE_ALREADY[ask](older.container)
        newer = await overtake(made)
        with pytest.raises(FencedError):
            await DONE_ALREADY[ask](older.container)
        await ended(older)
        await newer.container.close()


@pytest.mark.parametrize("ask", sorted(REFUSED))
async def test_nothing_is_refused_from_memory(ask: str) -> None:
    async with world(settings=QUIET) as made:
        older = await made.open()
        await prepared(older)
        with pytest.raises(SiltstoneError) as told:
            await REFUSED[ask](older.container)
        assert not isinstance(told.value, FencedError)
        newer = await overtake(made)
        with pytest.raises(FencedError):
            await REFUSED[ask](older.container)
        await ended(older)
        await newer.container.close()


@pytest.mark.parametrize("ask", ["seal", "truncate"])
async def test_the_answer_to_an_earlier_frame_confirms_nothing_that_is_asked_later(
    ask: str,
) -> None:
    """The log had answered, and asked whose it is before that; this owner was paused meanwhile."""
    async with world(settings=QUIET) as made:
        environment = PausingEnvironment(made, 10**9, after=True)
        older = await made.open(environment=environment)
        await prepared(older)
        environment.stop_after_next()
        appending = asyncio.ensure_future(older.container.append("a", b"durable"))
        await environment.reached.wait()
        newer = await overtake(made)
        asking = asyncio.ensure_future(DONE_ALREADY[ask](older.container))
        await asyncio.sleep(0)
        environment.resume.set()
        assert await appending == 3_004
        with pytest.raises(FencedError):
            await asking
        await ended(older)
        await newer.container.close()
