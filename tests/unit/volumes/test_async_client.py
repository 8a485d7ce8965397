"""Callers of asyncio get the same verbs, and a call that is cancelled is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from siltstone import volumes
from siltstone.core.errors import ClosedError, SettingsError, StoreInUseError
from tests.support.volumes.page_model import PAGE_BYTES

PAGE = b"p" * PAGE_BYTES


async def test_two_clients_of_asyncio_write_push_and_pull(tmp_path: Path) -> None:
    place = str(tmp_path / "place")
    async with (
        await volumes.open_async(tmp_path / "a", place=place) as first,
        await volumes.open_async(tmp_path / "b", place=place) as second,
    ):
        mine = await first.create("v", sync="push")
        async with await mine.writer() as writer:
            writer.write(7, PAGE)
            writer.truncate(9)
            assert (await writer.read(7), writer.page_count) == (PAGE, 9)
            assert (await writer.commit()).local == 1
        assert [each.action for each in await first.sync()] == [volumes.SyncAction.PUSHED]
        others = await second.clone("v", mine.log)
        async with await others.reader() as reader:
            assert (await reader.read(7), reader.page_count) == (PAGE, 9)
            assert reader.snapshot.mapping.remote == 1
        async with await others.writer() as writer:
            writer.write(1, PAGE)
            await writer.commit()
        assert await others.push()
        assert (await mine.fetch(), await mine.pull(), await mine.recover()) == (1, True, False)
        assert await mine.hydrate() == 1
        await mine.set_sync("disabled")
        assert await mine.sync() is volumes.SyncAction.SKIPPED
        assert (await mine.reset()).local == 3
        assert (await mine.info()).line == "3 r2"
        assert (await (await first.volume("v")).info()).name == mine.name == "v"
        await second.drop("v")
        assert (await first.names(), await second.names()) == (["v"], [])


async def test_of_two_writers_the_first_wins(tmp_path: Path) -> None:
    async with await volumes.open_async(tmp_path / "a", place=str(tmp_path / "place")) as client:
        volume = await client.create("v")
        one, other = await volume.writer(), await volume.writer()
        for writer in (one, other):
            writer.write(1, PAGE)
        await one.commit()
        with pytest.raises(volumes.ConcurrentWriteError):
            await other.commit()


async def test_a_commit_whose_caller_is_cancelled_is_whole(tmp_path: Path) -> None:
    async with await volumes.open_async(tmp_path / "a", place=str(tmp_path / "place")) as client:
        volume = await client.create("v")
        writer = await volume.writer()
        for index in range(1, 200):
            writer.write(index, PAGE)
        commit = asyncio.ensure_future(writer.commit())
        await asyncio.sleep(0)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        async with await volume.reader() as reader:
            pages = [await reader.read(index) for index in range(1, 200)]
            assert pages in ([PAGE] * 199, [bytes(PAGE_BYTES)] * 199)


async def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        await volumes.open_async(tmp_path / "a")
    client = await volumes.open_async(tmp_path / "a", place=str(tmp_path / "place"))
    with pytest.raises(StoreInUseError):
        await volumes.open_async(tmp_path / "a")
    await client.close()
    with pytest.raises(ClosedError):
        await client.names()


async def test_what_a_cancelled_caller_opened_is_closed(tmp_path: Path) -> None:
    place = str(tmp_path / "place")
    await cancelled(volumes.open_async(tmp_path / "a", place=place))
    async with await volumes.open_async(tmp_path / "a", place=place) as client:
        volume = await client.create("v")
        await cancelled(volume.reader())
        await cancelled(volume.writer())
        assert not volume._volume._local._pins


async def cancelled(opening: Coroutine[Any, Any, object]) -> None:
    """Cancel what opens something, once it has begun."""
    task = asyncio.ensure_future(opening)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
