"""What a container reports about its log without asking the log, which may be in a sync."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.container.owner_boot import open_container
from siltstone.core.environment import SystemEnvironment
from siltstone.testing.faults.file_layer import Call, FileLayer
from siltstone.tier1.file.fenced_log import FileFencedLog
from tests.support.container.container_world import SETTINGS, World, world

GIVE_UP_S = 120


async def agree(made: World) -> None:
    """After each step, the numbers are those of the log, and the log was not asked."""
    owner = await made.open()
    for step in range(3):
        container, log = owner.container, owner.log
        await container.create(f"s{step}")
        for _ in range(3):
            await container.append(f"s{step}", bytes(9_000))
        await container.flush()
        await container.checkpoint()
        await made.environment.sleep(1)
        calls = log.plan.counts.copy()
        stats = container.stats()
        assert log.plan.counts == calls
        assert (stats.log_first, stats.log_end) == (log.inner.first(), log.inner.end())
        assert stats.log_first > 0
        await container.close()
        owner = await made.open()
        stats, log = owner.container.stats(), owner.log
        assert (stats.log_first, stats.log_end) == (log.inner.first(), log.inner.end())
    await owner.container.close()


def test_the_numbers_are_those_of_the_log() -> None:
    with world() as made:
        made.run(agree(made))


@pytest.mark.virtual_time
async def test_a_reader_looks_at_the_log_when_it_follows_it() -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        reader = await made.open_reader()
        for _ in range(3):
            await owner.container.append("a", bytes(9_000))
            await owner.container.flush()
            await owner.container.checkpoint()
            await reader.refresh()
            stats = reader.stats()
            assert stats.log_first == owner.log.inner.first()
            assert (stats.log_end, stats.epoch) == (owner.log.inner.end(), owner.container.epoch)
        await reader.close()
        await owner.container.close()


async def test_a_sync_that_hangs_does_not_hold_the_loop(tmp_path: Path) -> None:
    calls, syncing, proceed = FileLayer(), threading.Event(), threading.Event()
    overslept: list[bool] = []

    def before(call: Call) -> None:
        if call.kind == "fdatasync" and call.target.endswith(".log"):
            syncing.set()
            overslept.append(not proceed.wait(GIVE_UP_S))

    environment = SystemEnvironment()
    container = await open_container(
        container=0,
        log=FileFencedLog(str(tmp_path / "log"), 0, calls=calls, file_bytes=1 << 20),
        storage=MemoryChunkStorage(),
        environment=environment,
        settings=SETTINGS,
        index_folder=tmp_path / "index",
        owner="me",
        takeover=False,
    )
    await container.create("a")
    end = container.stats().log_end
    calls.before = before
    work = asyncio.ensure_future(container.append("a", b"bytes"))
    await asyncio.to_thread(syncing.wait)
    assert container.stats().log_end == end
    proceed.set()
    await work
    assert container.stats().log_end == end + 1
    await container.close()
    environment.close()
    assert not any(overslept), "stats waited for the sync"
