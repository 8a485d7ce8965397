"""Read-only opens that fail leave no index open; reads outlive the fresh start of their reader."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.reader.reader_view import View, build_view
from siltstone.core.errors import ChunkUnavailableError, CorruptDataError
from siltstone.metadata.index import Index
from tests.support import inside
from tests.support.container.container_world import pattern, with_settings, world

pytestmark = pytest.mark.virtual_time


async def test_a_reader_that_fails_at_its_last_step_closes_its_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[Index] = []
    close = Index.close

    async def fails(*arguments: object) -> object:
        raise ChunkUnavailableError("injected", chunk="journal", operation="list")

    def noted(index: Index) -> None:
        closed.append(index)
        close(index)

    async with world() as made:
        owner = await made.open()
        await owner.container.close()
        monkeypatch.setattr(
            "siltstone.container.reader.reader_view.compare_newest_checkpoint", fails
        )
        monkeypatch.setattr(Index, "close", noted)
        with pytest.raises(ChunkUnavailableError):
            await made.open_reader()
        assert len(closed) == 1


@pytest.mark.parametrize(
    ("wrong", "opens"), [("ab", True), ("abab", True), ("aa", False), ("baa", False)]
)
async def test_what_looks_damaged_in_another_way_each_time_is_looked_at_again(
    wrong: str, opens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A working owner deletes what a start is about to read; only damage stays in its place."""
    answers = iter(wrong)

    async def built(*arguments: Any) -> View:
        for where in answers:
            raise CorruptDataError("it is cut", where=where)
        return await build_view(*arguments)

    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        monkeypatch.setattr("siltstone.container.reader.read_container.build_view", built)
        if opens:
            reader = await made.open_reader()
            assert (await reader.info("a")).length == 0
            await reader.close()
        else:
            with pytest.raises(CorruptDataError, match="it is cut"):
                await made.open_reader()
        assert next(answers, None) is None
        await owner.container.close()


async def test_a_read_whose_chunks_go_while_its_reader_starts_again_finds_them_again() -> None:
    settings = with_settings(garbage_delay_s=0.0, optimiser_interval_s=1e6, flush_age_s=1e6)
    parts = [pattern(number, 1_000) for number in range(40)]
    async with world(settings=settings, profile=Profile(append=False)) as made:
        owner = await made.open()
        await owner.container.create("a")
        for part in parts:
            await owner.container.append("a", part)
            await owner.container.flush()
        reader = await made.open_reader()
        assert await inside.parts(owner.container).optimiser.round()
        await owner.container.flush()
        latency, made.environment.latency = made.environment.latency, lambda *_: 0.05
        reading = asyncio.ensure_future(reader.read("a", 0, 40_000))
        await made.environment.sleep(0.01)
        made.environment.latency = latency
        assert await owner.container.collect() == 40
        async with reader._lock:
            await reader._start()
        assert await reading == b"".join(parts)
        await reader.close()
        await owner.container.close()
