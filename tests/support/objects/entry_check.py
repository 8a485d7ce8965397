"""All entries of a keyspace of heads only, read from its rows, and whether these fit together.

Not by its verbs: rows are decoded one by one.
"""

from __future__ import annotations

from siltstone.objects.records import keys
from siltstone.objects.records.head import Head, decode_head
from siltstone.objects.records.keys import ObjectKey
from siltstone.objects.records.space_rows import ValueStatus, decode_manifest_row, decode_state
from siltstone.objects.space_names import SpaceNames
from siltstone.store.async_store import AsyncStore


async def look_at_entries(
    store: AsyncStore, names: SpaceNames
) -> tuple[dict[ObjectKey, Head], int]:
    """The heads, expired ones too, and the next SQN. No record is there, and no other row."""
    rows = {key: found.value async for key, found in store.table(names.ledger).scan()}
    state = decode_state(rows[keys.STATE], where="state")
    heads, ends = {}, set()
    for key, value in rows.items():
        if key.startswith(keys.HEAD):
            heads[keys.decode_head_key(key)] = decode_head(value, where="head")
        elif key.startswith(keys.EXPIRY):
            ends.add(keys.decode_expiry_key(key))
        elif key.startswith(keys.MANIFEST):
            row = decode_manifest_row(keys.first_sqn_of(key), value, where="manifest")
            assert (row.number, row.status) == (1, ValueStatus.ACTIVE)
        else:
            assert key[:1] in (keys.SPACE, keys.STATE), key
    assert ends == {(head.expires_s, key) for key, head in heads.items() if head.expires_s}
    assert (state.length, state.records, state.number) == (0, 0, 1)
    assert [info.length async for info in store.list(names.values)] == [0]
    for name, head in heads.items():
        assert name.tag == b"h"
        assert (head.number, head.offset, head.length, head.size, head.entries) == (0, 0, 0, 0, ())
        assert 0 < head.sqn < state.next_sqn
    return heads, state.next_sqn
