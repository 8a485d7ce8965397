"""A container whose long-term storage is slow, fails, or is gone for hours; on virtual time.

What must hold: appends continue until back-pressure and are slowed down before that, few calls are
sent, nothing is given up, and everything is as before soon after storage is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from siltstone.container.health.monitor import ContainerHealth
from siltstone.container.models.health import HealthReason, HealthState
from siltstone.container.models.settings import ContainerSettings
from siltstone.core.chunk_names import data_prefix
from siltstone.core.environment import Pool
from siltstone.core.errors import ClosedError, StorageSuspendedError
from siltstone.core.storage.circuit_breaker import CircuitState
from siltstone.testing.faults.faulty_chunk_storage import Fate, StorageCall
from tests.support import inside
from tests.support.container.container_world import Owner, World, pattern, with_settings, world

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(late_s=60.0, late_s_max=660.0, throttle_s_max=2.0, storage_deadline_s=20.0)


@asynccontextmanager
async def owned(
    settings: ContainerSettings = SETTINGS, seed: int = 0
) -> AsyncIterator[tuple[World, Owner]]:
    async with world(seed, settings=settings) as made:
        owner = await made.open()
        await owner.container.create("a")
        yield made, owner
        assert owner.container.failure is None
        await made.check(owner, strict=False)
        await owner.container.close()


def silence(call: StorageCall) -> Fate:
    return Fate.LOST_CALL


def answers(call: StorageCall) -> Fate:
    return Fate.DONE


async def health(owner: Owner) -> ContainerHealth:
    return await owner.container.health()


@pytest.mark.slow
async def test_nothing_is_wrong_with_a_store_that_is_idle() -> None:
    async with owned() as (made, owner):
        await owner.container.append("a", b"x")
        await made.environment.sleep(300)
        found = await health(owner)
        assert (found.state, found.reasons) == (HealthState.OK, ())
        assert found.circuit is CircuitState.CLOSED
        assert (found.lateness_s, found.throttle_s, found.unflushed_age_s) == (0, 0, 0)
        before = len(owner.storage.calls)
        await made.environment.sleep(3_600)
        assert len(owner.storage.calls) - before < 20, "reading the health costs no call"


@pytest.mark.slow
@pytest.mark.parametrize("hours", [1, 10])
async def test_an_outage(hours: int) -> None:
    async with owned() as (made, owner):
        container = owner.container
        await container.append("a", pattern(1, 20_000))
        await container.flush()
        await container.truncate("a", 17_000)
        await container.flush()
        owner.storage.plan = silence
        before = len(owner.storage.calls)
        sent = bytearray(pattern(1, 20_000))
        took = []
        outage = made.environment.monotonic()
        for number in range(hours * 6):
            start = made.environment.monotonic()
            assert await container.append("a", b"%08d" % number) == len(sent)
            took.append(made.environment.monotonic() - start)
            sent += b"%08d" % number
            await made.environment.sleep(600)
        # Slower and slower, up to the bound of the throttle; the first was not held back.
        assert took == sorted(took)
        assert took[0] < 0.1
        assert took[-1] == pytest.approx(2.0, abs=0.1)
        found = await health(owner)
        assert found.state is HealthState.UNAVAILABLE
        assert HealthReason.SILENT in found.reasons
        assert HealthReason.LATE in found.reasons
        age_s = made.environment.monotonic() - outage
        assert found.unflushed_age_s == pytest.approx(age_s, abs=1)
        assert found.lateness_s == pytest.approx(age_s - 5.0, abs=1)
        calls = owner.storage.calls[before:]
        assert len(calls) <= 20 + hours * 120, "probes, one in 30 seconds"
        assert sum(call.operation != "stat" for call in calls) <= 10
        with pytest.raises(StorageSuspendedError):
            await container.flush()
        owner.storage.plan = answers
        await made.environment.sleep(45)
        assert not container.stats().unflushed_bytes
        await made.environment.sleep(60)
        assert (await health(owner)).state is HealthState.OK
        assert await container.read("a", 17_000, 10_000) == sent[17_000:]
        status = await container.garbage.status()
        assert status.failed_count == 0
        await made.environment.sleep(600)
        assert len(made.names(data_prefix(0))) <= 4, "what the outage left is collected"


async def test_an_outage_that_begins_between_a_chunk_and_its_batch() -> None:
    """The journal waits with the batch that it has composed, and the owner stays alive."""
    async with owned() as (made, owner):
        container = owner.container

        def plan(call: StorageCall) -> Fate:
            if "journal-" in call.name:
                owner.storage.plan = silence
                return Fate.LOST_CALL
            return Fate.DONE

        await container.append("a", pattern(1, 9_000))
        owner.storage.plan = plan
        await made.environment.sleep(400)
        assert owner.storage.plan is silence
        assert (await health(owner)).state is HealthState.UNAVAILABLE
        owner.storage.plan = answers
        await made.environment.sleep(45)
        assert (await health(owner)).circuit is CircuitState.CLOSED
        await container.flush()
        assert container.stats().unflushed_table_bytes == 0


async def test_closing_does_not_wait_for_a_journal_that_waits_for_storage() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await made.open()
        await owner.container.create("a")

        def plan(call: StorageCall) -> Fate:
            if "journal-" in call.name:
                owner.storage.plan = silence
                return Fate.LOST_CALL
            return Fate.DONE

        await owner.container.append("a", pattern(1, 9_000))
        owner.storage.plan = plan
        await made.environment.sleep(100)
        start = made.environment.monotonic()
        await owner.container.close()
        assert made.environment.monotonic() - start < 30
        with pytest.raises(ClosedError):
            await owner.container.health()
        newer = await made.open()
        assert await newer.container.read("a", 0, 9_000) == pattern(1, 9_000)
        await newer.container.close()


async def test_slow_calls_make_storage_slow_and_rest_the_optimiser() -> None:
    async with owned() as (made, owner):
        container = owner.container
        parts = inside.parts(container)

        def slow(pool: Pool, chance: object) -> float:
            return 3.0 if pool.name.startswith("chunks-") else 0.0

        for number in range(6):
            await container.append("a", pattern(number, 9_000))
            await container.flush()
        await made.environment.sleep(70)
        made.environment.latency = slow
        for number in range(4):
            await container.append("a", pattern(number, 9_000))
            await made.environment.sleep(10)
        found = await health(owner)
        assert (found.state, found.reasons) == (HealthState.SLOW, (HealthReason.SLOW,))
        assert found.latency_s == 3.0
        assert parts.optimiser.backoff.pausing
        assert not parts.collector.backoff.pausing
        assert not parts.segment_flusher.backoff.pausing
        made.environment.latency = lambda pool, chance: 0.0
        await made.environment.sleep(70)
        assert (await health(owner)).state is HealthState.OK
        assert not parts.optimiser.backoff.pausing


@pytest.mark.slow
async def test_garbage_rests_while_some_calls_fail_and_loses_no_attempt() -> None:
    settings = replace(SETTINGS, garbage_delay_s=0.0, garbage_interval_s=1.0, garbage_attempts=2)
    async with owned(settings) as (made, owner):
        container = owner.container
        await container.append("a", pattern(1, 60_000))
        await container.flush()
        owner.storage.plan = silence
        for _ in range(5):
            with pytest.raises(Exception, match="injected"):
                await container.read("a", 0, 10_000)
        await container.truncate("a", 60_000)
        with pytest.raises(StorageSuspendedError):
            await container.collect()
        await made.environment.sleep(1_000)
        assert not [call for call in owner.storage.calls if call.operation == "delete"]
        owner.storage.plan = answers
        await made.environment.sleep(200)
        assert (await container.garbage.status()).failed_count == 0
        await container.flush()
        await made.environment.sleep(60)
        assert not made.names(data_prefix(0))


async def test_late_bytes_alone_do_not_rest_the_garbage() -> None:
    """On a full disk, bytes are late until garbage collection makes room."""
    async with owned() as (made, owner):
        container = owner.container
        await container.append("a", pattern(1, 100))
        inside.parts(container).segment_flusher.backoff.suspended = lambda: True
        await made.environment.sleep(200)
        found = await health(owner)
        assert (found.state, found.reasons) == (HealthState.DEGRADED, (HealthReason.LATE,))
        assert not inside.parts(container).collector.backoff.pausing
        assert inside.parts(container).optimiser.backoff.pausing
        inside.parts(container).segment_flusher.backoff.suspended = lambda: False


async def test_a_reader_tells_of_storage_as_it_finds_it() -> None:
    async with owned() as (made, owner):
        owner.storage.plan = silence
        await owner.container.append("a", b"x")
        await made.environment.sleep(100)
        reader = await made.open_reader()
        found = await reader.health()
        assert found.unanswered == 0 < found.calls, "the reader gets answers"
        assert (found.state, found.reasons) == (HealthState.DEGRADED, (HealthReason.LATE,))
        assert found.unflushed_age_s == pytest.approx(100, abs=1)
        assert found.lateness_s == pytest.approx(95, abs=1)
        await reader.close()
        owner.storage.plan = answers
        await asyncio.sleep(60)


async def test_nothing_is_late_while_the_store_has_no_owner() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await made.open()
        await owner.container.create("a")
        owner.storage.plan = silence
        await owner.container.append("a", b"x")
        await owner.container.close()
        await made.environment.sleep(5_000)
        reader = await made.open_reader()
        found = await reader.health()
        assert (found.state, found.lateness_s) == (HealthState.OK, 0)
        assert found.unflushed_age_s == pytest.approx(5_000, abs=1)
        await reader.close()
        newer = await made.open()
        found = await newer.container.health()
        assert (found.state, found.throttle_s) == (HealthState.OK, 0)
        await newer.container.close()


async def test_a_deletion_that_was_not_sent_is_no_attempt() -> None:
    settings = replace(SETTINGS, garbage_delay_s=0.0, garbage_interval_s=1e6)
    async with owned(settings) as (made, owner):
        container = owner.container
        await container.append("a", pattern(1, 9_000))
        await container.flush()
        await container.truncate("a", 9_000)
        await container.collect()
        await container.flush()
        storage = inside.parts(container).storage
        send = storage.delete

        async def refuse(name: str) -> None:
            raise StorageSuspendedError("not sent", chunk=name, operation="delete")

        storage.delete = refuse  # type: ignore[method-assign]
        with pytest.raises(StorageSuspendedError):
            await container.collect()
        tasks = [task for task in owner.rows.tasks(2**62) if task.name.startswith(data_prefix(0))]
        assert [task.attempts for task in tasks] == [0]
        assert tasks[0].due_ms > made.environment.time() * 1_000
        storage.delete = send  # type: ignore[method-assign]
        await made.environment.sleep(61)
        assert await container.collect() == 1
