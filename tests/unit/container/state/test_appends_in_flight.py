"""Appends without a waiter yet: their bytes, their order, and how their results are told."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.container.state.batch import LOG_INDEX, TOLD_COUNT, Batch
from siltstone.core.constants import MIB
from siltstone.core.errors import OffsetError
from siltstone.core.records.piece import ControlKind
from tests.support import inside
from tests.support.container.container_world import world

FRAME = 7 * MIB
"""Two of these do not fit in one frame."""


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_they_begin_in_the_order_of_the_calls_whatever_their_kind() -> None:
    async with world() as made:
        container = (await made.open()).container
        await container.create("a")
        # The first one finds the segment by its row, since it was not used yet.
        parts: list[bytes | bytearray] = [b"1", bytearray(b"22"), bytes(FRAME), b"x" * FRAME, b"3"]
        futures = [container.append("a", part) for part in parts]
        end = sum(map(len, parts))
        futures.append(container.append("a", memoryview(b"4444"), end))
        futures.append(container.append_many("a", [b"5", bytearray(b"6")]))
        refused = container.append("a", b"never", end)
        futures.append(container.append("a", b"7", end + 6))
        offsets = await asyncio.gather(*futures)
        with pytest.raises(OffsetError):
            await refused
        whole = b"".join([*map(bytes, parts), b"4444", b"56", b"7"])
        assert await container.read("a", 0, len(whole) + 1) == whole
        lengths = [*(len(part) for part in parts), 4, 2, 1]
        assert offsets == [sum(lengths[:count]) for count in range(len(lengths))]
        await container.close()


@pytest.mark.virtual_time
async def test_their_bytes_are_taken_by_the_call() -> None:
    async with world() as made:
        container = (await made.open()).container
        await container.create("a")
        data = bytearray(b"before")
        unopened = container.append("a", data)
        data[:] = b"behind"
        await unopened
        conditional = container.append("a", data, 99)
        data[:] = b"wrong!"
        with pytest.raises(OffsetError):
            await conditional
        assert await container.read("a", 0, 99) == b"before"
        await container.close()


@pytest.mark.virtual_time
async def test_many_are_told_in_several_turns_and_those_given_up_are_passed_over() -> None:
    count = 3 * TOLD_COUNT + 1
    async with world() as made:
        container = (await made.open()).container
        await container.create("a")
        await container.append("a", b"0")
        futures = [container.append("a", b"x") for _ in range(count)]
        for future in futures[::7]:
            future.cancel()
        done, _ = await asyncio.wait(futures)
        assert len(done) == count
        assert [f.result() for f in futures if not f.cancelled()] == [
            number + 1 for number in range(count) if number % 7
        ]
        assert (await container.info("a")).length == count + 1
        await container.close()


async def test_callers_that_are_not_told_yet_are_told_when_the_container_is_stopped() -> None:
    loop = asyncio.get_running_loop()
    batch = Batch()
    batch.futures = futures = [loop.create_future() for _ in range(2 * TOLD_COUNT)]
    batch.results = list(range(len(futures)))
    telling = asyncio.create_task(batch.tell(5))
    await asyncio.sleep(0)
    assert [future.done() for future in futures] == [True] * TOLD_COUNT + [False] * TOLD_COUNT
    telling.cancel()
    await asyncio.wait([telling])
    assert [future.result() for future in futures] == list(range(len(futures)))


async def test_the_caller_that_put_a_control_record_gets_the_index_of_its_frame() -> None:
    loop = asyncio.get_running_loop()
    batch = Batch()
    batch.controls.append(bytes([ControlKind.CHECKPOINT]))
    batch.futures = futures = [loop.create_future(), loop.create_future()]
    batch.results = [17, LOG_INDEX]
    await batch.tell(5)
    assert [future.result() for future in futures] == [17, 5]


@pytest.mark.virtual_time
async def test_a_frame_that_is_being_told_lets_no_barrier_wait() -> None:
    async with world() as made:
        container = (await made.open()).container
        await container.create("a")
        await container.append("a", b"0")
        futures = [container.append("a", b"x") for _ in range(3 * TOLD_COUNT)]
        await futures[0]
        assert not futures[-1].done()
        # Nothing is assigned after the frame, so this asks whether it has been acknowledged.
        async with asyncio.timeout(60):
            assert not await inside.parts(container).pipeline.settled()
        await asyncio.gather(*futures)
        await container.close()
