"""Assigned updates: bounds of range removals, what a splice keeps, what a replay says.

The keys here are exactly at the end of a range, which random tests seldom draw.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.table_record import (
    KeyChanges,
    TableEntry,
    TableRecord,
    decode_table_record,
)
from siltstone.metadata.index import Index
from siltstone.metadata.index_rows import Entry
from siltstone.metadata.position import Position
from siltstone.metadata.tables import Tables
from tests.unit.metadata.conftest import LINEAGE


def put(key: bytes, value: bytes, splice_at: int | None = None) -> TableEntry:
    return TableEntry(1, key, value, splice_at)


def remove_range(start: bytes, end: bytes) -> TableEntry:
    return TableEntry(1, start, None, range_end=end)


def record_of(tables: Tables, *entries: TableEntry) -> TableRecord:
    """A record of an update that is then forgotten."""
    update = tables.assign(entries)
    tables.drop_pending()
    return decode_table_record(update.record, where="test")


def pending(tables: Tables, *keys: bytes) -> dict[bytes, bytes]:
    found = {key: tables.pending(1, key) for key in keys}
    return {key: entry.value for key, entry in found.items() if entry is not None}


KEYS = (b"a", b"b", b"c", b"d")


def filled(tables: Tables) -> None:
    tables.acknowledge([tables.assign([put(key, b"old") for key in KEYS])], 0)


# --- changes of keys ---


def test_changes_of_keys_are_pending_until_they_are_applied(tables: Tables) -> None:
    filled(tables)
    first = tables.assign(
        [KeyChanges(1, [b"a", b"b", b"a"], [b"1", None, b"2"]), put(b"a", b"3", 1)]
    )
    second = tables.assign([KeyChanges(1, [b"b", b"c"], [b"again", None])])
    assert pending(tables, *KEYS) == {b"a": b"23", b"b": b"again", b"d": b"old"}
    tables.acknowledge([first], 1)
    assert pending(tables, *KEYS) == {b"a": b"23", b"b": b"again", b"d": b"old"}
    assert [(key, entry.value) for key, entry in tables.scan(1, b"", None)] == [
        (b"a", b"23"),
        (b"c", b"old"),
        (b"d", b"old"),
    ]
    tables.acknowledge([second], 2)
    assert pending(tables, *KEYS) == {b"a": b"23", b"b": b"again", b"d": b"old"}
    assert [key for key, _ in tables.scan(1, b"", None)] == [b"a", b"b", b"d"]


def test_a_removal_stays_pending_when_an_older_one_of_the_same_key_is_applied(
    tables: Tables,
) -> None:
    filled(tables)
    updates = [
        tables.assign([KeyChanges(1, [b"a"], [value])]) for value in (None, b"", None, b"", None)
    ]
    for number, update in enumerate(updates):
        assert sorted(pending(tables, *KEYS)) == [b"b", b"c", b"d"]
        tables.acknowledge([update], 1 + number)
        assert len(tables.scan(1, b"a", b"b")) == number % 2
    assert sorted(pending(tables, *KEYS)) == [b"b", b"c", b"d"]


# --- range removals ---


def test_a_range_removal_takes_its_first_key_and_not_the_one_after(tables: Tables) -> None:
    filled(tables)
    update = tables.assign([remove_range(b"b", b"d")])
    assert sorted(pending(tables, *KEYS)) == [b"a", b"d"]
    tables.acknowledge([update], 1)
    assert sorted(pending(tables, *KEYS)) == [b"a", b"d"]
    assert [key for key, _ in tables.scan(1, b"", None)] == [b"a", b"d"]


def test_a_range_removal_takes_what_is_assigned_with_the_same_bounds(tables: Tables) -> None:
    before = tables.assign([put(key, b"new") for key in KEYS])
    removal = tables.assign([remove_range(b"b", b"d")])
    assert sorted(pending(tables, *KEYS)) == [b"a", b"d"]
    tables.acknowledge([before], 1)
    assert sorted(pending(tables, *KEYS)) == [b"a", b"d"]
    tables.acknowledge([removal], 2)
    assert sorted(pending(tables, *KEYS)) == [b"a", b"d"]
    assert [key for key, _ in tables.scan(1, b"", None)] == [b"a", b"d"]


def test_what_is_put_after_a_removal_stays_pending_when_that_is_applied(tables: Tables) -> None:
    filled(tables)
    removal = tables.assign([remove_range(b"b", b"d")])
    tables.assign([put(b"b", b"new"), put(b"d", b"new")])
    other = tables.assign([remove_range(b"a", b"b")])
    assert pending(tables, *KEYS) == {b"b": b"new", b"d": b"new"}
    tables.acknowledge([removal], 1)
    # The second removal is not applied yet, and neither are the puts after the first one.
    assert pending(tables, *KEYS) == {b"b": b"new", b"d": b"new"}
    assert sorted(key for key, _ in tables.scan(1, b"", None)) == [b"a", b"d"]
    tables.drop_pending()
    assert pending(tables, *KEYS) == {b"a": b"old", b"d": b"old"}
    assert other.table_version > tables.version


def test_what_is_applied_hides_nothing_that_comes_later(index: Index, tables: Tables) -> None:
    keys = (*KEYS, b"x", b"xx", b"y")
    puts = tables.assign([put(key, b"1") for key in keys])
    removal = tables.assign([put(b"b", b"2"), remove_range(b"b", b"d"), put(b"c", b"2")])
    single = tables.assign([remove_range(b"x", b"y"), put(b"a", b"3"), TableEntry(1, b"d", None)])
    tables.acknowledge([puts, removal, single], 1)
    # Other tables that write meanwhile prove that these look at the index alone.
    others = Tables(index, LINEAGE)
    others.acknowledge([others.assign([put(key, b"4") for key in keys])], 2)
    assert pending(tables, *keys) == dict.fromkeys(keys, b"4")


def test_a_row_that_is_put_again_after_its_removal_is_there(tables: Tables) -> None:
    filled(tables)
    tables.acknowledge([tables.assign([remove_range(b"b", b"d")])], 1)
    tables.acknowledge([tables.assign([put(b"b", b"again")])], 2)
    assert pending(tables, *KEYS) == {b"a": b"old", b"b": b"again", b"d": b"old"}
    tables.assign([put(b"b", b"!", 5)])
    assert pending(tables, b"b") == {b"b": b"again!"}


# --- splices ---


@pytest.mark.parametrize(("key", "kept"), [(b"a", b"o"), (b"b", None), (b"c", None), (b"d", b"o")])
@pytest.mark.parametrize("together", [True, False])
def test_a_splice_sees_a_range_up_to_its_bounds(
    tables: Tables, key: bytes, kept: bytes | None, together: bool
) -> None:
    filled(tables)
    entries = [remove_range(b"b", b"d")]
    if not together:
        tables.assign(entries)
        entries = []
    entries.append(put(key, b"+", 1))
    if kept is None:
        with pytest.raises(ValueError, match=r"^splice keeps 1 bytes of a value that has fewer$"):
            tables.assign(entries)
        return
    tables.assign(entries)
    assert pending(tables, key) == {key: b"o+"}


def test_a_splice_keeps_the_newest_value_there_is(tables: Tables) -> None:
    filled(tables)
    tables.assign([put(b"a", b"new")])
    tables.assign([put(b"b", b"x"), put(b"a", b"er", 3), put(b"c", b"y"), put(b"a", b"s", 5)])
    assert pending(tables, *KEYS) == {b"a": b"newers", b"b": b"x", b"c": b"y", b"d": b"old"}
    tables.assign([TableEntry(1, b"a", None)])
    with pytest.raises(ValueError, match="splice"):
        tables.assign([put(b"a", b"z", 1)])


def test_there_must_be_a_value_even_to_keep_nothing_of_it(tables: Tables) -> None:
    with pytest.raises(ValueError, match="keeps 0 bytes"):
        tables.assign([put(b"a", b"z", 0)])
    tables.assign([put(b"a", b"")])
    tables.assign([put(b"a", b"z", 0)])
    assert pending(tables, b"a") == {b"a": b"z"}


# --- what a scan is asked for ---


def test_a_scan_is_asked_for_as_that_of_the_index(index: Index, tables: Tables) -> None:
    filled(tables)
    for asked in (
        {"reverse": True},
        {"limit": 2},
        {"bytes_max": 1},
        {"reverse": True, "limit": 3, "bytes_max": 30},
    ):
        found = tables.scan(1, b"b", b"d", **asked)
        assert found == index.scan(1, b"b", b"d", **asked)
        assert {key for key, _ in found} <= {b"b", b"c"}
    assert [key for key, _ in tables.scan(1, b"b", b"d", reverse=True)] == [b"c", b"b"]
    assert len(tables.scan(1, b"", None, limit=2)) == 2
    assert len(tables.scan(1, b"", None, bytes_max=1)) == 1


def test_a_snapshot_is_that_of_the_index(tables: Tables) -> None:
    filled(tables)
    taken = tables.snapshot()
    tables.acknowledge([tables.assign([put(b"a", b"new")])], 1)
    found = taken.get(1, b"a")
    assert found is not None
    assert found.value == b"old"
    taken.close()


# --- replay ---


def test_an_empty_table_log_has_the_sum_of_nothing(index: Index, tables: Tables) -> None:
    assert (tables.version, tables.running_crc) == (0, 0)
    assert (tables.applied_version, tables.applied_crc) == (0, 0)
    record = record_of(tables, put(b"a", b"1"))
    assert (record.running_crc, tables.running_crc) == (0, 0)
    assert tables.replay(record)
    assert index.position == Position(LINEAGE, record.length, record.crc_after, 0)
    assert (tables.version, tables.running_crc) == (record.table_version, record.crc_after)
    assert (tables.applied_version, tables.applied_crc) == (tables.version, tables.running_crc)


def test_a_record_of_the_table_log_leaves_the_log_index_as_it_is(
    index: Index, tables: Tables
) -> None:
    tables.acknowledge([tables.assign([put(b"a", b"1")])], 41)
    assert tables.replay(record_of(tables, put(b"b", b"2")))
    assert index.position is not None
    assert index.position.log_index == 42


def test_replay_keeps_splices_and_range_removals(tables: Tables) -> None:
    filled(tables)
    entries = (put(b"a", b"+", 2), remove_range(b"b", b"d"), put(b"c", b"new"))
    record = record_of(tables, *entries)
    assert tables.replay(record)
    version = record.table_version
    assert tables.scan(1, b"", None) == [
        (b"a", Entry(version, b"ol+")),
        (b"c", Entry(version, b"new")),
        (b"d", Entry(record.table_version - record.length, b"old")),
    ]


def refused(tables: Tables, record: TableRecord) -> str:
    with pytest.raises(CorruptDataError) as caught:
        tables.replay(record)
    return str(caught.value)


def test_what_replay_refuses_is_named_by_its_place(tables: Tables) -> None:
    filled(tables)
    end = tables.applied_version
    record = record_of(tables, put(b"e", b"1"))
    at = f"where=table log at {end}"
    gap = replace(record, table_version=record.table_version + 5)
    assert (
        refused(tables, gap) == f"gap in the table log where=table log at {end + 5} applied={end}"
    )
    overlap = replace(record, table_version=record.table_version - 5)
    assert refused(tables, overlap).startswith("gap in the table log")
    other = replace(record, running_crc=record.running_crc ^ 1)
    assert refused(tables, other) == f"table log does not match its running sum {at}"
    none = replace(record, entries=(put(b"nobody", b"1", 1),))
    assert refused(tables, none) == f"splice of a value that is not there {at}"
    assert tables.replay(record)
    assert not tables.replay(record)
    differs = replace(record, crc_after=record.crc_after ^ 1)
    assert refused(tables, differs) == f"table log differs from the index {at}"
    assert tables.applied_version == record.table_version


def test_tables_over_an_index_continue_where_it_ends(index: Index, tables: Tables) -> None:
    filled(tables)
    again = Tables(index, LINEAGE)
    position = index.position
    assert position is not None
    assert (again.version, again.running_crc) == (position.version, position.running_crc)
    assert (again.applied_version, again.applied_crc) == (again.version, again.running_crc)
    assert again.lineage == LINEAGE


def test_a_dropped_update_leaves_no_trace(tables: Tables) -> None:
    filled(tables)
    before = (tables.version, tables.running_crc)
    tables.assign([put(b"a", b"new"), remove_range(b"b", b"")])
    tables.drop_pending()
    assert (tables.version, tables.running_crc) == before
    assert set(pending(tables, *KEYS)) == set(KEYS)
