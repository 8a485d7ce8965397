"""Entries that set and remove rows: each under its own key, and read back as it was put."""

from __future__ import annotations

import pytest

from siltstone.core.records.epoch_row import EpochRow
from siltstone.core.records.keys import METADATA_TABLE, RowKind, retention_of, time_of
from siltstone.core.records.retention_row import (
    RetentionRow,
    RetentionScope,
    decode_retention_row,
)
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.time_row import TimeRow, decode_time_row
from siltstone.metadata import changes
from siltstone.metadata.rows import Rows
from siltstone.metadata.tables import Tables


def write(tables: Tables, *entries: TableEntry) -> None:
    tables.acknowledge([tables.assign(entries)], 0)


def stored(tables: Tables, kind: RowKind) -> list[tuple[bytes, bytes]]:
    found = tables.scan(METADATA_TABLE, bytes((kind,)), bytes((kind + 1,)))
    return [(key, entry.value) for key, entry in found]


def test_attributes_are_of_one_segment_and_none_are_no_row(tables: Tables) -> None:
    rows = Rows(tables)
    write(
        tables,
        changes.put_attributes(3, {"a": "1", "b": ""}),
        changes.put_attributes(4, {"a": "2"}),
    )
    assert (rows.attributes(3), rows.attributes(4)) == ({"a": "1", "b": ""}, {"a": "2"})
    assert rows.attributes(5) == {}
    write(tables, changes.put_attributes(3, {}))
    assert (rows.attributes(3), rows.attributes(4)) == ({}, {"a": "2"})
    assert len(stored(tables, RowKind.ATTRIBUTES)) == 1


def test_epochs_are_kept_apart(tables: Tables) -> None:
    rows = Rows(tables)
    known = [
        EpochRow(epoch=6, closed_ms=1, listed_ms=2, clean=3),
        EpochRow(epoch=7, closed_ms=4, listed_ms=5, clean=6, found=True, swept=True),
    ]
    write(tables, *map(changes.put_epoch, known))
    assert [rows.epoch(epoch) for epoch in (5, 6, 7)] == [None, *known]


def times(tables: Tables) -> list[TimeRow]:
    return [decode_time_row(*time_of(key), value) for key, value in stored(tables, RowKind.TIME)]


def test_times_are_of_one_border(tables: Tables) -> None:
    known = [
        TimeRow(segment_id=segment_id, offset=offset, time_ms=segment_id * 100 + offset)
        for segment_id in (3, 4)
        for offset in (5, 6)
    ]
    write(tables, *map(changes.put_time, known))
    assert times(tables) == known
    write(tables, changes.remove_time(known[1]))
    assert times(tables) == [known[0], *known[2:]]


def rules(tables: Tables) -> list[RetentionRow]:
    found = stored(tables, RowKind.RETENTION)
    return [decode_retention_row(*retention_of(key), value) for key, value in found]


@pytest.mark.parametrize("gone", range(4))
def test_rules_are_of_one_scope_and_name(tables: Tables, gone: int) -> None:
    known = [
        RetentionRow(scope=scope, name=name, bytes_max=5, age_max_ms=7 + len(name))
        for scope in sorted(RetentionScope)
        for name in ("a", "ab")
    ]
    write(tables, *map(changes.put_retention, known))
    assert rules(tables) == known
    write(tables, changes.remove_retention(known[gone].scope, known[gone].name))
    assert rules(tables) == [rule for rule in known if rule is not known[gone]]
