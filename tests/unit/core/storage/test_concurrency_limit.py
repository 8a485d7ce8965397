"""Slots: a waiter that is cancelled in the step in which a slot is given back."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.core.storage.concurrency_limit import Slots


async def test_a_waiter_that_is_cancelled_as_a_slot_is_given_back_loses_none() -> None:
    slots = Slots(1)
    await slots.acquire()
    waiting = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    waiting.cancel()
    slots.release()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(60):
        await slots.acquire()
