"""An owner whose log failed, and who was fenced: it says fenced, whatever failed first.

What may fail: any call to the log, with a newer claim made before it; and the caller that waits for
a call may be cancelled, so that no caller hears how it ended. What must hold: all who wait, and all
who ask later, get ``FencedError``, of unknown outcome for what was in flight; without a newer claim
they do not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from siltstone.container.models.segments import Put
from siltstone.core.errors import (
    ClosedError,
    FencedError,
    LogError,
    Outcome,
    OutcomeUnknownError,
    SiltstoneError,
)
from siltstone.testing.faults.faulty_chunk_storage import Fate
from tests.support.container.container_world import Owner, World, pattern, with_settings, world
from tests.support.container.newer_claim import claim

pytestmark = pytest.mark.virtual_time

NEVER = 1e6
QUIET = with_settings(
    flush_bytes=1 << 40,
    flush_age_s=NEVER,
    table_flush_age_s=NEVER,
    checkpoint_age_s=NEVER,
    garbage_interval_s=NEVER,
)
POISONS = ("append", "truncate", "newest_epoch")


async def appended(owner: Owner, data: bytes) -> int:
    return await owner.container.append("a", data)


@asynccontextmanager
async def owned() -> AsyncIterator[tuple[World, Owner]]:
    async with world(settings=QUIET) as made:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.create_table("t")
        yield made, owner
        await owner.container.close()


async def every_call_is_fenced(owner: Owner) -> None:
    container = owner.container
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: container.append("a", b"x"),
        lambda: container.append("a", b""),
        lambda: container.commit([Put("t", b"k", b"v")]),
        lambda: container.truncate("a", 0),
        lambda: container.create("b"),
        lambda: container.flush(),
        lambda: container.checkpoint(),
        lambda: container.collect(),
        lambda: container.read("a", 0, 1),
    ]
    for call in calls:
        with pytest.raises(FencedError):
            await call()
    with pytest.raises(FencedError):
        container.stats()
    assert isinstance(container.failure, FencedError)


@pytest.mark.parametrize("fenced", [True, False])
async def test_a_truncation_without_a_waiting_caller_poisons_the_log(fenced: bool) -> None:
    async with owned() as (made, owner):
        await owner.container.append("a", pattern(1, 900))
        plan = owner.log.plan
        begun = asyncio.Event()

        def before(method: str, number: int) -> None:
            if method == "truncate":
                begun.set()
                if fenced:
                    claim(made, owner)

        plan.before = before
        if not fenced:
            plan.fail("truncate", applied=False)
        made.environment.latency = lambda pool, chance: 1.0 if "log" in pool.name else 0.0
        flushing = asyncio.create_task(owner.container.flush())
        await begun.wait()
        flushing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flushing
        await made.environment.sleep(5)
        if fenced:
            with pytest.raises(FencedError) as caught:
                await owner.container.append("a", b"late")
            assert caught.value.outcome is Outcome.UNKNOWN
            await every_call_is_fenced(owner)
        else:
            with pytest.raises(OutcomeUnknownError):
                await owner.container.append("a", b"late")
            with pytest.raises(ClosedError):
                await owner.container.append("a", b"later")


@pytest.mark.parametrize("method", POISONS)
async def test_a_log_that_fails_under_a_newer_claim(method: str) -> None:
    """The disk fails, or the marker cannot be read: the claim was there before."""
    async with owned() as (made, owner):
        await owner.container.append("a", pattern(1, 900))
        owner.log.plan.fail(method, applied=False, error=LogError("injected"))
        claimed = False

        def before(called: str, number: int) -> None:
            nonlocal claimed
            if called == method and not claimed:
                claimed = True
                claim(made, owner)

        owner.log.plan.before = before
        work = [
            asyncio.create_task(appended(owner, b"in flight")),
            asyncio.create_task(owner.container.flush()),
        ]
        for result in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(result, BaseException):
                assert isinstance(result, FencedError), repr(result)
                assert result.outcome is Outcome.UNKNOWN
        assert claimed
        await every_call_is_fenced(owner)


@pytest.mark.parametrize("fenced", [True, False])
@pytest.mark.parametrize("act", ["flush", "checkpoint"])
async def test_a_journal_that_fails(act: str, fenced: bool) -> None:
    async with owned() as (made, owner):
        container = owner.container
        await container.append("a", pattern(1, 900))
        owner.storage.plan = lambda call: Fate.REFUSED if "journal" in call.name else Fate.DONE

        async def later() -> None:
            await made.environment.sleep(0.05)
            claim(made, owner)

        claiming = asyncio.create_task(later()) if fenced else None
        with pytest.raises(FencedError if fenced else LogError) as caught:
            await (container.flush() if act == "flush" else container.checkpoint())
        assert isinstance(caught.value, FencedError) is fenced
        assert caught.value.outcome is Outcome.UNKNOWN
        if claiming is not None:
            await claiming
            await every_call_is_fenced(owner)


async def test_a_look_at_a_container_does_not_meet_the_poisoned_log() -> None:
    """The log knows that it is fenced, and the container has not heard yet."""
    async with owned() as (made, owner):
        claim(made, owner)
        with suppress(SiltstoneError):
            owner.log.inner.append([b""], count=0)
        stats = owner.container.stats()
        assert (stats.log_first, stats.epoch) == (0, owner.container.epoch)
        with pytest.raises(FencedError):
            await owner.container.append("a", b"x")
        await every_call_is_fenced(owner)
