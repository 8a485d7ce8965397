"""Locks of segments: a caller that takes many never waits, so no circle of waiters arises."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.segments.locks import SegmentLocks


async def test_only_locks_that_are_neither_held_nor_awaited_are_taken() -> None:
    locks = SegmentLocks()
    held, promised = locks.of(1), locks.of(2)
    await held.acquire()
    await promised.acquire()
    waiter = asyncio.create_task(promised.acquire())
    await asyncio.sleep(0)
    promised.release()
    assert not promised.locked(), "released, but promised to the waiter, which has not run yet"
    holding = locks.hold_free([1, 2, 3])
    entering = holding.__aenter__()
    with pytest.raises(StopIteration) as entered:  # it would not stop there if it waited
        entering.send(None)
    assert set(entered.value.value) == {3}
    assert locks.of(3).locked()
    await waiter
    await holding.__aexit__(None, None, None)
    assert not locks.of(3).locked()
    held.release()
    promised.release()
    async with locks.hold_free([1, 2, 3]) as free:
        assert set(free) == {1, 2, 3}


async def test_a_waiter_that_gives_up_is_no_user() -> None:
    locks = SegmentLocks()
    lock = locks.of(1)
    await lock.acquire()
    waiter = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    lock.release()
    assert lock.users == 0
    async with locks.hold_free([1]) as free:
        assert set(free) == {1}
