"""Merges against an oracle: the same sums from since on, in order, and in little memory."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from siltstone.collections.rows import merge as merge_module
from siltstone.collections.rows import open_part as open_part_module
from siltstone.collections.rows import part_file
from siltstone.collections.rows import stored_run as stored_run_module
from siltstone.collections.rows.consolidate import consolidate
from siltstone.collections.rows.encode_parts import encode_updates
from siltstone.collections.rows.key_order import key_at, key_columns
from siltstone.collections.rows.key_ranges import key_ranges
from siltstone.collections.rows.merge import merge_runs
from siltstone.collections.rows.row_schema import DIFF, TIME, RowSchema, evolved
from siltstone.collections.rows.stored_run import EVERYTHING, Bounds, Piece, RunReader
from siltstone.core.errors import CollectionError, CorruptDataError
from siltstone.core.records.collection_part import PartFlags, contradiction
from tests.support.collections.part_place import PartPlace
from tests.support.collections.row_cases import (
    Update,
    schema_of,
    schemas,
    sums_from,
    table_of,
    updates,
    updates_of,
)

ID = 3
NUMBERS = schema_of([pyarrow.int64()])


def put(
    place: PartPlace,
    schema: RowSchema,
    batch: Sequence[Update],
    *,
    schema_id: int = ID,
    part_size: int = 2**20,
    inline: bool = False,
) -> tuple[Piece, ...]:
    """A run that holds updates, of objects or inline."""
    table = table_of(schema, batch)
    return place.put_run(
        encode_updates(table, schema, schema_id, part_size=part_size, inline=inline)
    )


def table_of_run(place: PartPlace, schema: RowSchema, run: Sequence[Piece]) -> pyarrow.Table:
    """All updates of a run, in its order."""
    reader = RunReader(
        schemas={ID: schema}, schema=schema, with_time=True, time_end=None, read=place.read
    )
    tables = list(reader.tables(run, EVERYTHING))
    return pyarrow.concat_tables(tables) if tables else table_of(schema, [])


def counted(place: PartPlace, run: Sequence[Piece]) -> list[bool]:
    """Which objects of a run have ``_diff``, as another program sees them."""
    names = [
        parquet.read_schema(io.BytesIO(bytes(place.objects[piece.name]))).names for piece in run
    ]
    return [DIFF in one for one in names]


def test_rows_that_are_left_when_others_were_taken_away_are_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merge_module, "FEW_BYTES", 0)
    place = PartPlace()
    came = put(place, NUMBERS, [Update((number,), 0, 1) for number in range(20_000)])
    went = put(place, NUMBERS, [Update((number,), 1, -1) for number in range(0, 20_000, 10)])
    merged = place.put_run(merge_runs([came, went], {ID: NUMBERS}, ID, place.read, since=1))
    assert counted(place, went) == [True]
    assert counted(place, merged) == [False]
    assert len(table_of_run(place, NUMBERS, merged)) == 18_000


def test_a_part_ends_where_rows_begin_to_come_more_than_once() -> None:
    place = PartPlace()
    total = 200_000
    table = pyarrow.table(
        {"k0": range(total), DIFF: [1 + (number == 150_000) for number in range(total)]}
    )
    run = place.put_run(encode_updates(table, NUMBERS, ID, time=0))
    assert counted(place, run) == [False, True]
    assert sum(piece.part.rows for piece in run) == total
    assert sum(piece.part.diff_sum for piece in run) == total + 1
    merged = place.put_run(merge_runs([run], {ID: NUMBERS}, ID, place.read, since=1))
    found = table_of_run(place, NUMBERS, merged)
    assert found["k0"].to_pylist() == list(range(total))
    assert found[DIFF].to_pylist() == table[DIFF].to_pylist()


@settings(deadline=None, max_examples=100)
@given(st.data(), schemas(), st.integers(0, 4), st.booleans(), st.booleans())
def test_a_merge_means_the_same_from_since_on(
    data: Any, schema: RowSchema, since: int, tight: bool, by_ranges: bool
) -> None:
    batches = data.draw(st.lists(updates(schema, max_size=6), min_size=1, max_size=4))
    place = PartPlace()
    with pytest.MonkeyPatch.context() as patch:
        if tight:
            patch.setattr(open_part_module, "WHOLE_BYTES", 0)
            patch.setattr(part_file, "GROUP_ROWS", 2)
            patch.setattr(stored_run_module, "FEW_ROWS", 0)
            patch.setattr(merge_module, "FEW_BYTES", 0)
        size = 700 if tight else 2**20
        runs = [
            put(place, schema, batch, part_size=size, inline=data.draw(st.booleans()))
            for batch in batches
        ]
        ranges = key_ranges(runs, {ID: schema}, place.read, 1) if by_ranges else [EVERYTHING]
        merged = [
            piece
            for bounds in ranges
            for piece in place.put_run(
                merge_runs(
                    runs,
                    {ID: schema},
                    ID,
                    place.read,
                    since=since,
                    part_size=size,
                    memory=2_800 if tight else merge_module.MERGE_BYTES,
                    bounds=bounds,
                )
            )
        ]
    table = table_of_run(place, schema, merged)
    found = updates_of(schema, table)
    given_updates = [update for batch in batches for update in batch]
    assert sums_from(found, since) == sums_from(given_updates, since)
    assert all(update.time >= since for update in found)
    keys = key_columns(table, schema)
    in_order = [key_at(keys, row) for row in range(len(table))]
    assert in_order == sorted(in_order)
    assert len(found) <= len(given_updates)
    assert all(contradiction(piece.part) == "" for piece in merged)
    for piece in merged:
        times = table_of_run(place, schema, [piece])[TIME].to_pylist()
        assert (piece.part.time_min, piece.part.time_max) == (min(times), max(times))
    total = sum(piece.part.diff_sum for piece in merged)
    assert total == sum(update.diff for update in given_updates)
    parts = [piece.part for run in runs for piece in run]
    if not tight and any(PartFlags.HAS_NEGATIVES in part.flags for part in parts):
        assert len(found) == len(sums_from(given_updates, since)), "a row and time comes once"


def test_rows_of_one_time_and_one_copy_need_no_columns_for_it() -> None:
    place = PartPlace()
    batches = [[Update((number,), time, 1) for number in range(5)] for time in (1, 2)]
    runs = [put(place, NUMBERS, batch) for batch in batches]
    (late,) = merge_runs(runs, {ID: NUMBERS}, ID, place.read, since=2)
    assert late.part.flags == PartFlags(0)
    assert (late.part.rows, late.part.time) == (10, 2)
    (early,) = merge_runs(runs, {ID: NUMBERS}, ID, place.read, since=1)
    assert early.part.flags == PartFlags.HAS_TIME


def test_inline_parts_of_several_forms_become_one_run() -> None:
    place = PartPlace()
    newer = evolved(NUMBERS, NUMBERS.arrow.append(pyarrow.field("later", pyarrow.int64())))
    old = [[Update((5,), 1, 1), Update((1,), 1, 1)], [Update((3,), 2, 1)]]
    new = [[Update((4, 40), 3, 1)], [Update((2, 20), 4, 1), Update((6, 60), 5, 2)]]
    runs = [
        *[put(place, NUMBERS, batch, inline=True) for batch in old],
        *[put(place, newer, batch, schema_id=ID + 1, inline=True) for batch in new],
    ]
    assert all(piece.part.inline is not None for run in runs for piece in run)
    both = {ID: NUMBERS, ID + 1: newer}
    (merged,) = merge_runs(runs, both, ID + 1, place.read, since=0)
    reader = RunReader(schemas=both, schema=newer, with_time=True, time_end=None, read=place.read)
    (table,) = reader.tables(place.put_run([merged]), EVERYTHING)
    assert updates_of(newer, table) == [
        Update((1, None), 1, 1),
        Update((2, 20), 4, 1),
        Update((3, None), 2, 1),
        Update((4, 40), 3, 1),
        Update((5, None), 1, 1),
        Update((6, 60), 5, 2),
    ]


def test_what_cancels_leaves_no_part() -> None:
    place = PartPlace()
    runs = [put(place, NUMBERS, [Update((1,), diff + 1, diff)]) for diff in (1, -1)]
    assert list(merge_runs(runs, {ID: NUMBERS}, ID, place.read, since=2)) == []


def test_few_rows_become_an_inline_part() -> None:
    place = PartPlace()
    runs = [put(place, NUMBERS, [Update((number,), 0, 1)]) for number in range(8)]
    (encoded,) = merge_runs(runs, {ID: NUMBERS}, ID, place.read, since=0)
    assert encoded.part.inline is not None
    assert encoded.part.rows == 8


def test_older_schemas_get_nulls_in_new_columns() -> None:
    newer = evolved(NUMBERS, pyarrow.schema([*NUMBERS.arrow, ("v0", pyarrow.string())]))
    place = PartPlace()
    old = put(place, NUMBERS, [Update((1,), 0, 1)])
    new = place.put_run(encode_updates(table_of(newer, [Update((1, None), 0, -1)]), newer, 4))
    known = {ID: NUMBERS, 4: newer}
    assert list(merge_runs([old, new], known, 4, place.read, since=0)) == []


def large_key(rows: int) -> Iterator[Update]:
    """Rows of one key: each comes twice, far apart, and once of the two it goes."""
    for diff in (1, -1, 1):
        yield from (Update((7, number), 0, diff) for number in range(rows))


def test_a_key_larger_than_memory_is_merged_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_file, "GROUP_ROWS", 50)
    monkeypatch.setattr(stored_run_module, "FEW_ROWS", 0)
    monkeypatch.setattr(merge_module, "FEW_BYTES", 0)
    schema = schema_of([pyarrow.int64()], [pyarrow.int64()])
    place = PartPlace()
    rows = list(large_key(200))
    runs = [put(place, schema, rows[start : start + 200]) for start in range(0, 600, 200)]
    sizes = []
    for memory in (2**20, 16 * 1_000):
        parts = list(merge_runs(runs, {ID: schema}, ID, place.read, since=0, memory=memory))
        run = place.put_run(parts)
        found = updates_of(schema, table_of_run(place, schema, run))
        assert sums_from(found, 0) == sums_from(rows, 0)
        sizes.append(len(found))
    assert sizes[0] == 200
    assert 200 <= sizes[1] < 600


@pytest.mark.parametrize("memory", [2**12, 2**14, 2**20])
def test_rows_of_a_key_cancel_across_row_groups(
    memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_file, "GROUP_ROWS", 4)
    monkeypatch.setattr(stored_run_module, "FEW_ROWS", 0)
    monkeypatch.setattr(merge_module, "FEW_BYTES", 0)
    schema = schema_of([pyarrow.int64()], [pyarrow.int64()])
    place = PartPlace()
    rows = [(number // 7, number % 7) for number in range(210)]  # keys begin inside of groups
    batches = [
        [Update(row, 0, diff) for row in order]
        for diff, order in ((1, rows), (-1, [*reversed(rows)][:140]), (1, rows[::3]))
    ]
    runs = [put(place, schema, batch) for batch in batches]
    parts = merge_runs(runs, {ID: schema}, ID, place.read, since=0, memory=memory)
    found = updates_of(schema, table_of_run(place, schema, place.put_run(parts)))
    wanted = sums_from([update for batch in batches for update in batch], 0)
    assert sums_from(found, 0) == wanted
    assert len(found) == len(wanted)


def test_a_sum_beyond_64_bits_is_refused_and_not_wrapped() -> None:
    place = PartPlace()
    batches = [[Update((1,), 0, 2**62)], [Update((1,), 0, 2**62)], [Update((2,), 0, -1)]]
    runs = [put(place, NUMBERS, batch) for batch in batches]
    with pytest.raises(CollectionError, match="64 bits"):
        list(merge_runs(runs, {ID: NUMBERS}, ID, place.read, since=0))


@pytest.mark.parametrize("bounds", [EVERYTHING, Bounds(low=b"\0")])
def test_a_merge_that_loses_a_row_is_seen_by_its_sum(
    bounds: Bounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = PartPlace()
    batches = [[Update((1,), 0, 2)], [Update((2,), 0, 1), Update((3,), 0, -1)]]
    runs = [put(place, NUMBERS, batch) for batch in batches]

    def losing(table: pyarrow.Table, since: int = 0) -> pyarrow.Table:
        return consolidate(table, since).slice(1)

    monkeypatch.setattr(merge_module, "consolidate", losing)
    with pytest.raises(CorruptDataError, match="another sum of diffs"):
        list(merge_runs(runs, {ID: NUMBERS}, ID, place.read, since=0, bounds=bounds))


def test_rows_that_sum_to_something_else_than_their_part_says_are_seen() -> None:
    place = PartPlace()
    runs = [put(place, NUMBERS, [Update((number,), 0, 2)]) for number in range(3)]
    (piece,) = runs[0]
    runs[0] = (replace(piece, part=replace(piece.part, diff_sum=3)),)
    with pytest.raises(CorruptDataError, match="another sum of diffs"):
        list(merge_runs(runs, {ID: NUMBERS}, ID, place.read, since=0))


def test_ranges_of_keys_are_merged_alone() -> None:
    place = PartPlace()
    rows = [Update((number,), 0, 1) for number in range(100)]
    runs = [put(place, NUMBERS, rows), put(place, NUMBERS, rows)]
    middle = (2**63 + 40).to_bytes(8, "big")
    low, high = (
        sum(
            encoded.part.rows
            for encoded in merge_runs(runs, {ID: NUMBERS}, ID, place.read, since=0, bounds=bounds)
        )
        for bounds in (Bounds(high=middle), Bounds(low=middle))
    )
    assert (low, high) == (80, 120)


MEMORY = """
import sys

import pyarrow

from siltstone.collections.rows.encode_parts import encode_updates
from siltstone.collections.rows.merge import merge_runs
from siltstone.collections.rows.row_schema import row_schema
from siltstone.core.constants import MIB
from tests.support.collections.part_place import PartPlace

schema = row_schema(
    pyarrow.schema({"k": pyarrow.int64(), "v": pyarrow.binary(200)}), ["k"]
)
place = PartPlace()
runs = []
for number in range(8):
    values = pyarrow.repeat(bytes([number]) * 200, 100_000).cast(pyarrow.binary(200))
    keys = pyarrow.compute.multiply(pyarrow.arange(0, 100_000), 8)
    diffs = pyarrow.repeat(1 if number % 2 else -1, 100_000)
    table = pyarrow.table([keys, values, diffs], names=["k", "v", "_diff"])
    runs.append(place.put_run(encode_updates(table, schema, 0, time=0)))
del table, keys, values, diffs
usual = pyarrow.default_memory_pool()
pool = pyarrow.proxy_memory_pool(usual)  # knows its own peak
pyarrow.set_memory_pool(pool)
rows = 0
for encoded in merge_runs(runs, {0: schema}, 0, place.read, since=0, memory=64 * MIB):
    rows += encoded.part.rows
del encoded
pyarrow.set_memory_pool(usual)
print(rows, pool.max_memory() // MIB, flush=True)
"""


def test_a_merge_of_more_rows_than_memory_stays_within_it() -> None:
    """Rows of 170 MiB, as Arrow has them; a row group of each of eight runs is held."""
    run = subprocess.run(
        [sys.executable, "-c", MEMORY],
        cwd=Path(__file__).resolve().parents[4],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    rows, peak_mib = map(int, run.stdout.split())
    assert rows == 800_000
    assert peak_mib < 96, "a bound of 64 MiB, about"
