"""Commits on long-term storage alone: with all their parts, or with none.

A commit appends bytes to two segments and puts rows. Only a frame of tier 1 has all of it; bytes
and rows go to long-term storage by flushes of their own. Here the table log is flushed every
second, and segments are flushed every ten minutes, if nothing asks for it earlier. Commits go on
all the time. Then tier 1 is lost, or a reader looks without it: each row has its bytes there, and
all bytes have a row.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.reader.no_log import NoLog
from siltstone.container.reader.read_container import open_reader
from siltstone.testing.virtual_time import jittered
from tests.support.container.container_world import (
    Owner,
    World,
    close_quietly,
    with_settings,
    world,
)
from tests.support.container.whole_commits import keep_committing, prepare, whole_commits

pytestmark = pytest.mark.virtual_time

ROWS_FIRST = with_settings(
    flush_age_s=600.0, flush_bytes=1 << 26, table_flush_age_s=1.0, chunk_bytes=1 << 20
)
CLIENTS = 4
LOOKS = 8
STEP_S = 0.43
"""Looks fall at any moment between two flushes of the table log, or into one."""

PROFILES = pytest.mark.parametrize(
    "profile", [Profile(), Profile(append=False)], ids=["appends", "creates"]
)


@asynccontextmanager
async def committing(profile: Profile) -> AsyncIterator[tuple[World, Owner]]:
    """An owner that many clients commit to."""
    async with world(1, profile=profile, settings=ROWS_FIRST, latency=jittered(0.02)) as made:
        owner = await made.open()
        await prepare(owner.container)
        await owner.container.flush()
        tasks = [
            asyncio.ensure_future(keep_committing(owner.container, client, CLIENTS, 900))
            for client in range(CLIENTS)
        ]
        yield made, owner
        await close_quietly(owner)
        await asyncio.gather(*tasks)


def copy_of(bucket: Bucket) -> Bucket:
    """Long-term storage as it is at this moment."""
    copy = Bucket()
    for key, chunk in bucket.chunks.items():
        copy.insert(key, deepcopy(chunk))
    return copy


@PROFILES
async def test_a_reader_without_tier_1_sees_commits_as_a_whole(profile: Profile) -> None:
    async with committing(profile) as (made, _):
        seen: set[int] = set()
        for look in range(LOOKS):
            await made.environment.sleep(STEP_S)
            made.bucket, bucket = copy_of(made.bucket), made.bucket
            reader = await open_reader(
                container=0,
                log=NoLog(),
                storage=made.new_storage(),
                environment=made.environment,
                settings=made.settings,
                index_folders=[made.folder / f"look-{look}"],
            )
            made.bucket = bucket
            found = await whole_commits(reader)
            await reader.close()
            assert found >= seen, "what was there is there later"
            seen = found
        assert len(seen) > 100, "rows are flushed while commits go on"


@PROFILES
async def test_a_recovery_keeps_commits_as_a_whole(profile: Profile) -> None:
    async with committing(profile) as (made, owner):
        await made.environment.sleep(LOOKS * STEP_S)
        await made.crash(owner)
        await made.lose_tier_1()
        again = await made.open()
        assert len(await whole_commits(again.container)) > 100
        await again.container.close()
