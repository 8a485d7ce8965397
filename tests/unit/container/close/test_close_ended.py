"""A close that is to flush everything, by an owner that has ended or whose log fails meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from siltstone.core.errors import ClosedError, FencedError, LogError, StorageFullError
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from tests.support.container.container_world import Owner, World, world

pytestmark = pytest.mark.virtual_time


def _fails(raised: type[LogError]) -> Callable[[FaultPlan], None]:
    return lambda plan: plan.fail("append", applied=False, error=raised("injected"))


@asynccontextmanager
async def owned() -> AsyncIterator[tuple[World, Owner]]:
    async with world() as made:
        yield made, await made.open()


async def _owner_with_a_tail(owner: Owner) -> None:
    await owner.container.create("a")
    await owner.container.append("a", b"only in tier 1")


async def test_a_fenced_owner_says_what_it_did_not_flush() -> None:
    async with owned() as (made, owner):
        await _owner_with_a_tail(owner)
        newer = await made.open(takeover=True, index="newer")
        with pytest.raises(FencedError):
            await owner.container.append("a", b"never")
        with pytest.raises(FencedError, match=r"not all was flushed: .* unflushed_bytes="):
            await owner.container.close(flush="always")
        assert await newer.container.read("a", 0, 99) == b"only in tier 1"
        await newer.container.close()


@pytest.mark.parametrize(
    ("raised", "told"), [(LogError, ClosedError), (StorageFullError, StorageFullError)]
)
async def test_a_log_that_fails_while_all_is_flushed(
    raised: type[LogError], told: type[Exception]
) -> None:
    async with owned() as (made, owner):
        await _owner_with_a_tail(owner)
        _fails(raised)(owner.log.plan)
        with pytest.raises(told):
            await owner.container.close(flush="always")
        again = await made.open(takeover=True)
        assert await again.container.read("a", 0, 99) == b"only in tier 1"
        await again.container.close()


@pytest.mark.parametrize("flush", ["auto", "never"])
@pytest.mark.parametrize("ended", [True, False])
async def test_any_other_close_of_such_an_owner_succeeds(flush: str, ended: bool) -> None:
    async with owned() as (made, owner):
        await _owner_with_a_tail(owner)
        if ended:
            newer = await made.open(takeover=True, index="newer")
            with pytest.raises(FencedError):
                await owner.container.append("a", b"never")
            await newer.container.close()
        else:
            _fails(StorageFullError)(owner.log.plan)
        await owner.container.close(flush=flush)  # type: ignore[arg-type]


async def test_an_owner_that_has_flushed_all_before_it_was_fenced_has_nothing_to_say() -> None:
    async with owned() as (made, owner):
        await _owner_with_a_tail(owner)
        await owner.container.flush()
        newer = await made.open(takeover=True, index="newer")
        with pytest.raises(FencedError):
            await owner.container.append("a", b"never")
        await newer.container.close()
        await owner.container.close(flush="always")
