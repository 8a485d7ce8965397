"""Rows of a ledger before and after a rebuild, and what may differ between the two."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import siltstone
from siltstone.objects import RebuildReport
from siltstone.objects.async_keyspaces import rebuild_async
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records import keys
from siltstone.objects.records.head import decode_head
from siltstone.objects.records.keys import LargeStatus
from siltstone.objects.records.space_rows import ValueStatus, decode_manifest_row
from siltstone.objects.space_names import SpaceNames, space_names
from tests.support.objects.small_segments import NAME
from tests.support.stores import chunk_path, flip

NAMES = space_names(NAME)
Rows = dict[bytes, object]


async def raw_rows(store: siltstone.AsyncStore, names: SpaceNames = NAMES) -> dict[bytes, bytes]:
    """All rows."""
    return {key: each.value async for key, each in store.table(names.ledger).scan()}


def as_rebuilt(rows: Mapping[bytes, bytes], now_s: float = 0.0) -> Rows:
    """All rows but the state, as a rebuild makes them.

    Heads without their places, which are hints, and without those that have expired at ``now_s``;
    nor what is about the end of these. Of large values those that objects have: what becomes of
    others is up to the time.
    """
    found: Rows = {}
    gone: set[bytes] = set()
    for key, value in rows.items():
        if key.startswith(keys.HEAD):
            head = decode_head(value, where="head")
            if not head.is_visible(now_s):
                parts = keys.decode_head_key(key)
                gone |= {key, keys.expiry_key(parts, head.expires_s)}
                gone |= set(keys.index_keys(parts, head.entries))
                if head.large is not None:
                    gone.add(keys.large_key(LargeStatus.LIVE, head.large.number))
            found[key] = head._replace(number=0, offset=0)
        elif key.startswith(keys.MANIFEST):
            found[key] = decode_manifest_row(keys.first_sqn_of(key), value, where="row")
        elif key.startswith(keys.LARGE_VALUE):
            if keys.decode_large_key(key)[0] is LargeStatus.LIVE:
                found[key] = value
        elif key != keys.STATE:
            found[key] = value
    return {key: value for key, value in found.items() if key not in gone}


async def ledger_rows(store: siltstone.AsyncStore, names: SpaceNames = NAMES) -> Rows:
    """All rows but the state, as a rebuild makes them."""
    return as_rebuilt(await raw_rows(store, names))


async def state_row(store: siltstone.AsyncStore, names: SpaceNames = NAMES) -> bytes:
    """The row of the state."""
    found = await store.table(names.ledger).get(keys.STATE)
    assert found is not None
    return found.value


async def all_sealed(space: OpenSpace) -> None:
    """Wait until each full segment has its footer."""
    while any(row.status is ValueStatus.ROLLING for row in (await space.parts.manifest.now()).rows):
        await space.parts.store.environment.sleep(0.005)


async def rebuilt(store: siltstone.AsyncStore, **arguments: object) -> RebuildReport:
    """Rebuild the small keyspace."""
    return await rebuild_async(store, NAME, **arguments)  # type: ignore[arg-type]


async def bytes_at(store: siltstone.AsyncStore, segment: str, offset: int) -> tuple[str, int]:
    """The chunk that has a byte of a segment, and the offset in it."""
    async for each in store.segment(segment).chunks():
        if each.start <= offset < each.start + each.length:
            return each.chunk, each.chunk_offset + offset - each.start
    raise AssertionError("the byte is in no chunk")


def flip_all(folder: Path, places: list[tuple[str, int]]) -> None:
    """Damage a byte at each place. The store is not open."""
    for chunk, offset in places:
        flip(chunk_path(folder, chunk), offset)
