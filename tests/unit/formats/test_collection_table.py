"""The keys and values of the table that holds collections, as their page has them."""

from __future__ import annotations

import pytest

from siltstone.collections.consensus.table_keys import (
    after,
    decode_head,
    encode_head,
    entry_key,
    head_key,
    id_of_head,
    piece_key,
    rollup_key,
    rollup_name,
)
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.collection_entry import Rollup
from tests.support.docs.format_page import example

ID = bytes(range(16))
ROLLUP = Rollup(seqno=1, nonce=0x1122334455667788, length=3, crc=4)


def test_keys_and_values_are_those_of_the_page() -> None:
    rows = [head_key(ID), encode_head(2), entry_key(ID, 2), piece_key(ID, ROLLUP, 1)]
    assert b"".join(rows) == example("collection-table.md")
    assert id_of_head(head_key(ID)) == ID
    assert rollup_name(piece_key(ID, ROLLUP, 1)) == (ROLLUP.seqno, ROLLUP.nonce)
    assert decode_head(encode_head(2), ID) == 2


def test_keys_are_in_the_order_of_their_numbers() -> None:
    seqnos = [1, 2, 255, 256, 2**32, 2**64 - 1]
    keys = [entry_key(ID, seqno) for seqno in seqnos]
    assert keys == sorted(keys)


@pytest.mark.parametrize("nonce", [0, 255, 256, 2**64 - 2])
def test_a_range_has_all_pieces_of_a_rollup_and_no_other(nonce: int) -> None:
    rollup = Rollup(seqno=7, nonce=nonce, length=1, crc=1)
    start, end = rollup_key(ID, rollup), after(rollup_key(ID, rollup))
    assert all(start <= piece_key(ID, rollup, index) < end for index in (0, 1, 2**32 - 1))
    others = [Rollup(seqno=7, nonce=nonce + 1, length=1, crc=1), ROLLUP]
    assert not any(start <= piece_key(ID, other, 0) < end for other in others)


def test_a_head_of_another_length_is_damage() -> None:
    with pytest.raises(CorruptDataError, match="damaged"):
        decode_head(b"\x02\x00", ID)
