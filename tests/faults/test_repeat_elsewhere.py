"""An exactly-once append whose owner is paused, repeated by its writer at the next owner.

What may fail: the older owner is paused before or after any call while a writer appends through
it, its tail flushed now and then and the log truncated; the writer repeats at a newer owner what it
has no answer to; then the older one continues. What must hold: every append of the writer is there
once, in its order, also for an owner without a local index.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from siltstone.core.errors import SiltstoneError
from tests.support.container.container_world import (
    World,
    close_quietly,
    pattern,
    with_settings,
    world,
)
from tests.support.faults.zombie import PausingEnvironment, content

SETTINGS = with_settings(
    chunk_bytes=2_000,
    flush_age_s=1e6,
    table_flush_age_s=1e6,
    checkpoint_age_s=1e6,
    garbage_interval_s=1e6,
    storage_deadline_s=1e6,
    pack_bytes=1,
)
APPENDS = 6


def data_of(sequence: int) -> bytes:
    return pattern(sequence + 1, 300 + sequence)


async def repeated(made: World, number: int, *, after: bool) -> int:
    first = await made.open()
    await first.container.create("a")
    await first.container.register_writer("a", "w")
    await first.container.close()
    environment = PausingEnvironment(made, 10**9, after=after)
    older = await made.open(index="older", environment=environment)
    begin = environment.calls
    environment._number = begin + number
    answered: list[int] = []

    async def write() -> None:
        container = older.container
        with suppress(SiltstoneError):
            writer = await container.register_writer("a", "w")
            for sequence in range(APPENDS):
                await container.append_as("a", writer.number, sequence, data_of(sequence))
                answered.append(sequence)
                if sequence % 2:
                    await container.flush()
                    await container.checkpoint()

    life = asyncio.create_task(write())
    reached = asyncio.create_task(environment.reached.wait())
    await asyncio.wait([life, reached], return_when=asyncio.FIRST_COMPLETED)
    calls = environment.calls - begin
    environment.stop_now()
    known = len(answered)
    newer = await made.open(takeover=True, index="newer")
    writer = await newer.container.register_writer("a", "w")
    assert writer.sequence >= known - 1, "an acknowledged sequence is forgotten"
    for sequence in range(max(0, known - 1), APPENDS):
        if sequence < writer.sequence:
            continue
        offset = await newer.container.append_as("a", writer.number, sequence, data_of(sequence))
        assert offset == sum(len(data_of(each)) for each in range(sequence))
    environment.resume.set()
    await life
    reached.cancel()
    assert answered == list(range(len(answered)))
    await close_quietly(older)
    whole = b"".join(data_of(sequence) for sequence in range(APPENDS))
    assert await content(newer, "a") == (0, whole)
    await newer.container.flush()
    await newer.container.checkpoint()
    await made.crash(newer, keep_index=False)
    last = await made.open(index="last")
    assert await content(last, "a") == (0, whole)
    assert (await last.container.register_writer("a", "w")).sequence == APPENDS - 1
    await made.check(last, strict=False)
    await last.container.close()
    return calls


@pytest.mark.parametrize("after", [False, True])
def test_a_writer_repeats_at_the_next_owner(after: bool) -> None:
    with world(settings=SETTINGS) as made:
        count = int(made.run(repeated(made, 10**8, after=after)))
    assert count > 30
    for number in range(1, count + 1, 3):
        with world(settings=SETTINGS) as made:
            try:
                made.run(repeated(made, number, after=after))
            except BaseException as error:
                error.add_note(f"stopped {'after' if after else 'before'} call {number}")
                raise
