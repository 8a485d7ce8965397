"""Keyspaces whose value segments are full after a few records, in stores on a local disk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import siltstone
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.open_spaces import open_space
from siltstone.objects.records.space_rows import Space, Strategy
from siltstone.objects.space_names import space_names
from siltstone.objects.space_setup import make_space
from siltstone.objects.value_segments import RollLimits
from siltstone.store.system_table import for_keyspaces
from tests.support.stores import make_store

NAME = "small"
LIMITS = RollLimits(length=3_000, records=20)


def store_for_keyspaces(folder: Path) -> Path:
    """Make a store whose garbage goes at once."""
    return make_store(folder, containers=1)


async def small_space(store: siltstone.AsyncStore, limits: RollLimits = LIMITS) -> OpenSpace:
    """The keyspace of these tests, made if it is not there. Its tag ``log`` retains."""
    names = space_names(NAME)
    store = for_keyspaces(store)
    if names.ledger not in [name async for name in store.list_tables(names.ledger)]:
        tags = {"o": Strategy.RECOVR, "log": Strategy.RETAIN}
        await make_space(store, names, Space(tags=tags))
    return await open_space(store, names, limits)


@asynccontextmanager
async def small_keyspace(
    folder: Path, limits: RollLimits = LIMITS
) -> AsyncIterator[tuple[siltstone.AsyncStore, AsyncKeyspace, OpenSpace]]:
    """Open the store, as one that may change what keyspaces have, and the keyspace in it."""
    async with await siltstone.open_async(folder) as store:
        space = await small_space(store, limits)
        yield for_keyspaces(store), AsyncKeyspace(space), space


async def values_of(keyspace: AsyncKeyspace, bucket: str = "b") -> dict[str, bytes]:
    """All values of a bucket, by key."""
    return {each.head.key: each.value async for each in keyspace.objects(bucket)}
