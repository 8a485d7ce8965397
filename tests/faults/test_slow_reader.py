"""A read-only open that stops at each of its calls, while the owner never waits for it.

What may fail: the reader is paused before or after any call, in its start or in a later look,
for as long as it takes the owner to flush, truncate, delete, checkpoint and truncate its log. What
must hold: what a reader shows was acknowledged, is never less than was acknowledged before it
looked, never less than it has shown, and never wrong.
"""

from __future__ import annotations

import asyncio

import pytest

from siltstone.container.container import Container
from siltstone.container.reader.read_container import ReadContainer
from siltstone.core.errors import SegmentTruncatedError
from tests.support.container.container_world import World, pattern, with_settings, world
from tests.support.faults.zombie import PausingEnvironment
from tests.support.soak import shared

SETTINGS = with_settings(
    chunk_bytes=4_000, flush_bytes=5_000, garbage_delay_s=0.0, garbage_interval_s=2.0
)


async def work(container: Container, made: World, rounds: int, seen: bytearray) -> None:
    for _ in range(rounds):
        data = pattern(len(seen), 2_300)
        await container.append("a", data)
        seen += data
        await container.flush()
        await container.truncate("a", max(0, len(seen) - 3_000))
        await container.checkpoint()
        await made.environment.sleep(3)
        await container.flush()
        await container.collect()


async def look(reader: ReadContainer, least: int, seen: bytearray) -> int:
    """Read all that the reader shows; return its length."""
    for _ in range(10):
        info = await reader.info("a")
        try:
            data = await reader.read("a", info.start_offset, info.length - info.start_offset)
        except SegmentTruncatedError:
            continue
        assert least <= info.length <= len(seen)
        assert data == bytes(seen[info.start_offset : info.length])
        return info.length
    raise AssertionError("the reader never catches up")


async def story(made: World, number: int, *, after: bool) -> int:
    owner = await made.open()
    seen = bytearray()
    await owner.container.create("a")
    await work(owner.container, made, 3, seen)
    environment = PausingEnvironment(made, number, after=after)
    before = len(seen)

    async def read() -> None:
        reader = await made.open_reader(environment)
        shown = await look(reader, before, seen)
        await environment.sleep(1)
        shown = await look(reader, shown, seen)
        await work(owner.container, made, 1, seen)
        await environment.sleep(1)
        await look(reader, max(shown, len(seen)), seen)
        assert not [f async for f in reader.check() if f.severity == "damage"]
        await reader.close()

    reading = asyncio.create_task(read())
    reached = asyncio.create_task(environment.reached.wait())
    await asyncio.wait([reading, reached], return_when=asyncio.FIRST_COMPLETED)
    if not reading.done():
        await work(owner.container, made, 3, seen)
        environment.resume.set()
    await reading
    reached.cancel()
    await owner.container.close()
    return environment.calls


def play(number: int, *, after: bool) -> int:
    try:
        with world(settings=SETTINGS) as made:
            return int(made.run(story(made, number, after=after)))
    except BaseException as error:
        error.add_note(f"reader stopped {'after' if after else 'before'} call {number}")
        raise


def calls(*, after: bool) -> range:
    return range(1, play(10**9, after=after) + 1)


@pytest.mark.parametrize("after", [False, True])
def test_reader_stops_at_some_calls(after: bool) -> None:
    for number in calls(after=after)[::9]:
        play(number, after=after)


LOG_CALLS = 14
"""The journal and the log are read in this many calls, and a few more."""


async def quiet_story(made: World, number: int) -> int:
    """The owner's last act, while the reader is paused, is to truncate its log."""
    owner = await made.open()
    seen = bytearray()
    await owner.container.create("a")
    await work(owner.container, made, 1, seen)
    environment = PausingEnvironment(made, number, after=True)
    reading = asyncio.create_task(made.open_reader(environment))
    reached = asyncio.create_task(environment.reached.wait())
    await asyncio.wait([reading, reached], return_when=asyncio.FIRST_COMPLETED)
    if not reading.done():
        seen += pattern(len(seen), 300)
        await owner.container.append("a", bytes(seen[-300:]))
        await owner.container.flush()
        await owner.container.checkpoint()
        environment.resume.set()
    reader = await reading
    reached.cancel()
    await environment.sleep(1)
    await look(reader, len(seen), seen)
    await reader.close()
    await owner.container.close()
    return environment.calls


def test_reader_misses_nothing_that_was_flushed_and_truncated_under_it() -> None:
    def quiet(number: int) -> int:
        with world(settings=SETTINGS) as made:
            return int(made.run(quiet_story(made, number)))

    for number in range(1, LOG_CALLS + 1):
        quiet(number)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("after", [False, True])
def test_reader_stops_at_every_call(after: bool) -> None:
    for number in shared(calls(after=after)):
        play(number, after=after)
