"""The end of a concat whose container ends before it does."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.core.errors import ClosedError, Outcome, SiltstoneError
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from tests.support import inside
from tests.support.container.container_world import (
    pattern,
    small_slices,
    with_settings,
    world,
)

pytestmark = pytest.mark.virtual_time


async def test_a_held_append_ends_when_the_container_is_closed() -> None:
    with small_slices(100):
        async with world(settings=with_settings(flush_age_s=1e6)) as made:
            container = (await made.open()).container
            for name in ("a", "b"):
                await container.create(name)
                await container.append(name, pattern(1, 2_000))
            await container.seal("b")
            made.environment.latency = lambda pool, _: (
                10.0 if pool.name.startswith("chunks-") else 0.0
            )
            joining = asyncio.create_task(container.concat("a", "b"))
            await made.environment.sleep(1)
            held = asyncio.ensure_future(container.append("a", b"held"))
            await made.environment.sleep(1)
            assert not held.done()
            await container.close()
            await asyncio.wait([joining, held], timeout=200)
            with pytest.raises(SiltstoneError):
                await held
            with pytest.raises(SiltstoneError):
                await joining


async def test_a_concat_that_may_have_happened_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its container may be closed, index and all, before the concat hears that the log failed."""

    def closed(*arguments: object) -> None:
        raise ClosedError("index is closed")

    with small_slices(100):
        async with world(settings=with_settings(flush_age_s=1e6)) as made:
            plan = FaultPlan()
            container = (await made.open(plan=plan)).container
            for name in ("a", "b"):
                await container.create(name)
                await container.append(name, pattern(1, 2_000))
            await container.seal("b")
            await container.flush()
            parts = inside.parts(container)
            fail = parts.pipeline.fail

            def failed(error: SiltstoneError) -> None:
                fail(error)
                monkeypatch.setattr(parts.pipeline.replica, "recompute", closed)

            monkeypatch.setattr(parts.pipeline, "fail", failed)
            plan.fail("append", 1, applied=True)
            with pytest.raises(SiltstoneError) as caught:
                await container.concat("a", "b")
            assert caught.value.outcome is Outcome.UNKNOWN
            await container.close()
            container = (await made.open()).container
            assert (await container.info("a")).length == 4_000
            await container.close()
