"""How much of the log a boot decodes.

Each frame once, and no table record that the index holds. Where the frames are larger than what an
owner may hold unflushed, those from the first with bytes in no chunk on are decoded again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from siltstone.container.boot import replay
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.state import logged_frame, replayed
from tests.support.container.container_world import (
    Owner,
    World,
    close_quietly,
    with_settings,
    world,
)

pytestmark = pytest.mark.virtual_time

NEVER = 1e6
QUIET = with_settings(
    flush_bytes=1 << 40, flush_age_s=NEVER, table_flush_age_s=NEVER, checkpoint_age_s=NEVER
)
COUNT = 30


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Calls of the functions that decode frames and table records, by name."""
    found: Counter[str] = Counter()

    def counted(module: Any, name: str) -> None:
        real = getattr(module, name)

        def call(*arguments: Any, **options: Any) -> Any:
            found[name] += 1
            return real(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    counted(logged_frame, "decode_outlines")
    for module in (replay, replayed):
        counted(module, "decode_table_record")
    return found


@asynccontextmanager
async def booted(
    settings: ContainerSettings = QUIET,
) -> AsyncIterator[tuple[World, Owner]]:
    async with world(settings=settings) as made:
        owner = await made.open()
        for number in range(COUNT):
            await owner.container.create(f"s{number}")
            await owner.container.append(f"s{number}", b"bytes")
        yield made, owner


async def shows_all(owner: Owner) -> None:
    infos = await owner.container.list_segments()
    assert [info.length for info in infos] == [5] * COUNT
    await owner.container.flush()
    assert all(info.flushed_length == 5 for info in await owner.container.list_segments())


async def test_a_boot_with_its_index_decodes_no_table_record_again(counts: Counter[str]) -> None:
    async with booted() as (made, owner):
        await owner.container.close()
        counts.clear()
        frames = len(made.shared_log.frames)
        owner = await made.open()
        assert counts["decode_outlines"] == frames
        # The last one is compared with the position of the index, and with the running sum.
        assert counts["decode_table_record"] <= 2
        await shows_all(owner)
        await made.check(owner)
        await owner.container.close()


async def test_a_boot_without_one_decodes_each_once(counts: Counter[str]) -> None:
    async with booted() as (made, owner):
        await made.crash(owner, keep_index=False)
        counts.clear()
        frames = len(made.shared_log.frames)
        owner = await made.open()
        assert counts["decode_outlines"] == frames
        assert COUNT <= counts["decode_table_record"] <= frames
        await shows_all(owner)
        await made.check(owner)
        await close_quietly(owner)


async def test_frames_that_are_more_than_an_owner_may_hold_are_read_twice(
    counts: Counter[str],
) -> None:
    async with booted(replace(QUIET, unflushed_bytes_max=200)) as (made, owner):
        await made.crash(owner, keep_index=False)
        counts.clear()
        frames = len(made.shared_log.frames)
        owner = await made.open()
        assert frames < counts["decode_outlines"] <= 2 * frames
        await shows_all(owner)
        await made.check(owner)
        await close_quietly(owner)
