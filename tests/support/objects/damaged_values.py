"""Damage of values of a keyspace in a store that is not open."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import siltstone
from siltstone.objects.open_spaces import open_space
from siltstone.objects.space_names import space_names
from tests.support.objects.rebuilt import bytes_at, flip_all


def damage_values(folder: Path, keyspace: str, keys: Sequence[str]) -> None:
    """Flip a bit near the end of the value of each key of the bucket ``b``, in chunks."""
    flip_all(folder, asyncio.run(_places(folder, keyspace, keys)))


async def _places(folder: Path, keyspace: str, keys: Sequence[str]) -> list[tuple[str, int]]:
    found = []
    async with await siltstone.open_async(folder, read_only=True) as store:
        parts = (await open_space(store, space_names(keyspace))).parts
        for key in keys:
            head = await parts.ledger.head(parts.key_of("o", "b", key))
            assert head is not None
            if head.large is None:
                end = head.offset + head.length
                segment = parts.names.value_segment(head.number)
            else:
                end, segment = head.size, parts.names.large_segment(head.large.number)
            found.append(await bytes_at(store, segment, end - 8))
    return found
