"""An object whose index a function made is as whole as one whose put gave it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.objects import ObjectHead, Recalc
from siltstone.objects.records.head import decode_head, encode_head
from siltstone.objects.records.keys import IndexEntry, ObjectKey, head_key, index_keys
from siltstone.objects.records.space_rows import encode_index_entry
from siltstone.objects.space_names import space_names
from tests.support.objects.small_segments import store_for_keyspaces

Index = Callable[[ObjectHead, bytes | None], dict[str, list[str]]]
LARGE = b"l" * (5 << 20)


def nothing(head: ObjectHead, value: bytes | None) -> dict[str, list[str]]:
    return {}


def much(head: ObjectHead, value: bytes | None) -> dict[str, list[str]]:
    return {"field": ["a term that is longer than the value " * 9]}


@pytest.mark.parametrize(
    ("value", "index"),
    [(b"value", nothing), (b"value", much), (b"", nothing), (LARGE, nothing)],
    ids=["less", "more", "empty", "large"],
)
async def test_its_head_is_compared_with_its_record_and_nothing_is_lost(
    tmp_path: Path, value: bytes, index: Index
) -> None:
    async with await siltstone.open_async(store_for_keyspaces(tmp_path)) as store:
        keyspace = await objects.create_async(store, "again", tags={"o": "recalc"})
        await keyspace.put("b", "k", value, index={"old": ["term"]}, metadata=b"note")
        await objects.rebuild_async(store, "again", recalc={"o": Recalc(index=index)})
        keyspace = await objects.open_async(store, "again")
        head = await keyspace.head("b", "k", check=True)
        assert head is not None
        assert (head.size, head.metadata) == (len(value), b"note")
        assert [each async for each in keyspace.check(deep=True)] == []


async def test_another_index_than_that_of_the_record_is_damage_where_no_function_makes_it(
    tmp_path: Path,
) -> None:
    async with await siltstone.open_async(store_for_keyspaces(tmp_path)) as store:
        keyspace = await objects.create_async(store, "again", tags={"o": "recovr"})
        await keyspace.put("b", "k", b"value")
        table = store.table(space_names("again").ledger, force=True)
        key = ObjectKey(b"o", b"b", b"k")
        row = await table.get(head_key(key))
        assert row is not None
        other = (IndexEntry(b"f", b"t"),)
        forged = encode_head(decode_head(row.value, where="head")._replace(entries=other))
        await table.put(head_key(key), forged)
        await table.put(index_keys(key, other)[0], encode_index_entry(0))
        told = [each async for each in keyspace.check(deep=True)]
        assert [each.message for each in told] == ["head and record differ sqn=1"]
