"""A whole store on virtual time: what happens by itself and when, by the public verbs.

What fails: the log, once. What must hold: flushes, checkpoints and deletions come when the settings
say, not before; a store whose log failed serves again by itself; nothing acknowledged is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from siltstone.bindings.memory.bucket import forget_bucket, shared_bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_names import data_prefix
from siltstone.core.errors import ClosedError, LogError, OutcomeUnknownError, SiltstoneError
from siltstone.core.records.store_manifest import StoreManifest
from siltstone.store.async_store import AsyncStore
from siltstone.store.handles.async_segment import AsyncSegment
from siltstone.store.manifest import create_manifest
from siltstone.store.opening import open_async_store
from siltstone.testing.virtual_time import VirtualEnvironment
from siltstone.tier1.memory.shared_log import forget_logs
from tests.support import inside
from tests.support.async_tests import running_clock

pytestmark = pytest.mark.virtual_time

FLUSH_AGE_S = 300.0

CHECKPOINT_AGE_S = 600.0
GARBAGE_DELAY_S = 1_800.0
GARBAGE_INTERVAL_S = 30.0
STEP_S = 0.5
SLACK_S = 2.0
"""Background work checks the time at least every second."""

SETTINGS = """
long_term_storage: {{binding: memory, memory: {{name: {name}}}}}
tier1: {{log: memory, memory: {{name: {name}}}}}
index: {{path: ./index}}
flush: {{age: 5min}}
garbage: {{delay: 30min}}
"""


class Life:
    """A store in memory, its virtual time, and its long-term storage."""

    def __init__(self, folder: Path) -> None:
        self.environment = VirtualEnvironment(1, clock=running_clock())
        self.name = folder.name
        self.file = folder / "siltstone.yaml"
        self.file.write_text(SETTINGS.format(name=self.name), encoding="utf-8")
        self.storage = MemoryChunkStorage(
            shared_bucket(self.name), clock=self.environment.time, sleep=lambda _: None
        )
        create_manifest(
            self.storage,
            StoreManifest(store_id=self.environment.uuid(), container_count=2, created_ms=0),
        )

    async def open(self) -> AsyncStore:
        return await open_async_store(self.file, environment=self.environment)

    def data(self) -> list[str]:
        """Every chunk with bytes of segments."""
        return [stat.name for index in range(2) for stat in self.storage.list(data_prefix(index))]

    async def until(self, what: Callable[[], bool], seconds: float) -> float:
        """Seconds until ``what`` holds, at most about ``seconds``."""
        start = self.environment.monotonic()
        while not what():
            assert self.environment.monotonic() - start < seconds + SLACK_S, "it never happened"
            await self.environment.sleep(STEP_S)
        return self.environment.monotonic() - start


@asynccontextmanager
async def opened_store(folder: Path) -> AsyncIterator[tuple[Life, AsyncStore]]:
    life = Life(folder)
    try:
        async with await life.open() as store:
            yield life, store
    finally:
        forget_bucket(life.name)
        forget_logs(life.name)


async def filled(store: AsyncStore, name: str = "a") -> AsyncSegment:
    segment = await store.create(name)
    await segment.append(b"bytes")
    return segment


@pytest.mark.slow
async def test_flush_by_age(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as (life, store):
        segment = await filled(store)
        waited = await life.until(lambda: bool(life.data()), FLUSH_AGE_S)
        assert waited >= FLUSH_AGE_S - SLACK_S
        assert (await segment.info()).flushed_length == 5


@pytest.mark.slow
async def test_checkpoint_by_age(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as (life, store):
        await filled(store)
        used = store.container_index("a")

        def versions() -> list[int]:
            return [stats.checkpoint_version for stats in store.stats()]

        assert versions() == [0, 0]
        waited = await life.until(lambda: any(versions()), CHECKPOINT_AGE_S)
        assert waited >= CHECKPOINT_AGE_S - SLACK_S
        assert versions()[1 - used] == 0, "nothing changed there"


@pytest.mark.slow
async def test_garbage_waits_for_its_delay(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as (life, store):
        segment = await filled(store)
        await store.flush()
        assert life.data()
        await segment.delete()
        await life.environment.sleep(SLACK_S)
        await store.flush()
        waited = await life.until(lambda: not life.data(), GARBAGE_DELAY_S + GARBAGE_INTERVAL_S)
        assert waited >= GARBAGE_DELAY_S - 2 * SLACK_S


async def test_a_store_whose_log_failed_serves_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_store(tmp_path) as (life, store):
        segment, other = await filled(store), None
        for number in range(20):
            if store.container_index(f"o{number}") != store.container_index("a"):
                other = await filled(store, f"o{number}")
                break
        assert other is not None
        slot = inside.slots(store)[store.container_index("a")]
        epoch = slot.epoch

        def fail(*arguments: object, **options: object) -> int:
            raise LogError("injected")

        monkeypatch.setattr(inside.parts(slot.container).log, "append", fail)
        with pytest.raises(OutcomeUnknownError):
            await segment.append(b"doubtful")
        with pytest.raises(ClosedError):
            await segment.append(b"refused")
        assert await other.append(b"more") == 5

        def serves() -> bool:
            try:
                return not slot.container.closed
            except SiltstoneError:
                return False

        assert await life.until(serves, 10.0) > 0
        assert slot.epoch > epoch
        assert await segment.append(b"again") == 5
        assert await segment.read(0, 100) == b"bytesagain"
        await store.close()
        async with await life.open() as reopened:
            assert await reopened.segment("a").read(0, 100) == b"bytesagain"
            assert await reopened.segment(other.name).read(0, 100) == b"bytesmore"
