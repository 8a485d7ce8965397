"""What the next entry holds: how far it goes back, which rollup it names, and what follows it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from siltstone.collections.consensus.entry_plan import (
    REPEATED_BYTES_MAX,
    first_entry,
    next_entry,
    tip_of,
)
from siltstone.collections.consensus.object_names import (
    after_collection,
    collection_prefix,
    entry_name,
    id_of,
    rollup_key,
    rollup_name,
    seqno_of,
)
from siltstone.core.consensus import Tip
from siltstone.core.records.collection_entry import Change, Diff, Entry, Rollup

ID = bytes(range(16))
FIRST = Rollup(seqno=0, nonce=1, length=60, crc=0)


def diff(seqno: int, size: int = 10) -> Diff:
    changes = (Change(kind=1, body=bytes(size)),)
    return Diff(seqno=seqno, token=seqno, written_ms=seqno, actor="x", changes=changes)


def chain(*sizes: int) -> list[Entry]:
    entries = [first_entry(ID, FIRST, diff(1, sizes[0]))]
    for size in sizes[1:]:
        tip = tip_of(entries[-1])
        entries.append(next_entry(tip, diff(tip.seqno + 1, size), None))
    return entries


def linked(tip: Tip, at: int) -> tuple[Entry, Rollup]:
    link = Rollup(seqno=at, nonce=2, length=60, crc=0)
    return next_entry(tip, diff(tip.seqno + 1), link), link


def test_an_entry_repeats_all_since_the_rollup_if_there_is_room() -> None:
    for number, entry in enumerate(chain(*[10] * 30), 1):
        assert [d.seqno for d in entry.diffs] == list(range(1, number + 1))


@pytest.mark.parametrize("size", [1_000, 9_999, 20_000, 40_000, 70_000])
def test_an_entry_repeats_as_many_as_fit(size: int) -> None:
    each = len(diff(1, size).encoded)
    for entry in chain(*[size] * 80):
        repeated = entry.diffs[:-1]
        assert sum(len(one.encoded) for one in repeated) <= REPEATED_BYTES_MAX
        assert (
            entry.base == 0 or sum(len(one.encoded) for one in repeated) + each > REPEATED_BYTES_MAX
        )


def test_entries_lead_back_one_by_one_whatever_their_sizes() -> None:
    for older, entry in pairwise(chain(10, 100_000, 10, 30_000, 30_000, 10, 65_000, 65_600, 1)):
        assert entry.base <= older.seqno
        assert entry.seqno == older.seqno + 1


def test_a_link_is_the_anchor_of_the_next_entry_and_not_of_its_own() -> None:
    entry, link = linked(tip_of(chain(10, 10, 10)[-1]), 2)
    assert (entry.rollup, entry.link) == (FIRST, link)
    tip = tip_of(entry)
    assert (tip.settled, tip.anchor) == (FIRST, link)
    assert [d.seqno for d in tip.recent] == [3, 4], "what the rollup has is not repeated again"
    after = next_entry(tip, diff(5), None)
    assert (after.rollup, after.link, after.base) == (link, None, 2)
    assert tip_of(after).settled == link


@pytest.mark.parametrize("at", [0, 4, 5])
def test_a_link_is_newer_than_the_anchor_and_not_newer_than_the_tip(at: int) -> None:
    with pytest.raises(AssertionError):
        linked(tip_of(chain(10, 10, 10)[-1]), at)


def test_names_lead_back_to_what_they_name() -> None:
    for seqno in (1, 2, 2**32, 2**64 - 1):
        assert seqno_of(entry_name(ID, seqno)) == seqno
        rollup = Rollup(seqno=seqno, nonce=2**64 - seqno, length=1, crc=2)
        assert rollup_key(rollup_name(ID, rollup)) == (seqno, 2**64 - seqno)
        assert id_of(entry_name(ID, seqno)) == id_of(rollup_name(ID, rollup)) == ID


def test_newer_entries_come_first() -> None:
    names = [entry_name(ID, seqno) for seqno in (2**64 - 1, 2**40, 300, 2, 1)]
    assert names == sorted(names)


def test_a_name_after_a_collection_is_before_the_next_one() -> None:
    following = ID[:-1] + bytes([ID[-1] + 1])
    end = after_collection(ID)
    assert collection_prefix(ID) + "\U0010ffff" < end < collection_prefix(following)
