"""Snapshots against an oracle: the same rows however they lie, and whatever splits read them."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.collections.rows import key_ranges as key_ranges_module
from siltstone.collections.rows import open_part as open_part_module
from siltstone.collections.rows import part_file
from siltstone.collections.rows import snapshot as snapshot_module
from siltstone.collections.rows import stored_run as stored_run_module
from siltstone.collections.rows.changes import read_changes
from siltstone.collections.rows.encode_parts import encode_updates
from siltstone.collections.rows.row_schema import DIFF, RowSchema, evolved
from siltstone.collections.rows.snapshot import SnapshotSplit, plan_snapshot
from siltstone.collections.rows.stored_run import Piece
from siltstone.core.errors import CorruptDataError, NegativeCountError
from tests.support.collections.part_place import PartPlace
from tests.support.collections.row_cases import (
    Update,
    counts_at,
    schema_of,
    schemas,
    table_of,
    updates,
    updates_of,
)

ID = 3


def runs_of(
    place: PartPlace, schema: RowSchema, batches: Sequence[Sequence[Update]], *, inline: bool
) -> list[tuple[Piece, ...]]:
    """One run for each batch, cut into parts of few rows."""
    return [
        place.put_run(
            encode_updates(
                table_of(schema, batch),
                schema,
                ID,
                part_size=400 if not inline else 2**20,
                inline=inline,
            )
        )
        for batch in batches
    ]


def rows_read(
    splits: Sequence[SnapshotSplit], place: PartPlace, schema: RowSchema
) -> dict[Any, int]:
    """How often each row is shown by splits, which went through pickle."""
    found: Counter[Any] = Counter()
    for split in splits:
        for batch in pickle.loads(pickle.dumps(split)).read(place.read):
            assert batch.schema == split.arrow_schema
            table = pyarrow.Table.from_batches([batch])
            for row, count in counts_at(updates_of(schema, table), 0).items():
                found[row] += count
    return {row: count for row, count in found.items() if count}


@settings(deadline=None, max_examples=100)
@given(st.data(), schemas(), st.integers(0, 3), st.booleans(), st.booleans(), st.booleans())
def test_a_snapshot_is_the_sum_of_all_updates_up_to_its_time(
    data: Any, schema: RowSchema, as_of: int, inline: bool, small: bool, positive: bool
) -> None:
    diffs = st.integers(1, 3) if positive else st.integers(-2, 3)
    batches = data.draw(st.lists(updates(schema, diffs=diffs, max_size=5), max_size=3))
    counts = counts_at([update for batch in batches for update in batch], as_of)
    place = PartPlace()
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(part_file, "GROUP_ROWS", 2)
            patch.setattr(stored_run_module, "FEW_ROWS", 0)
            patch.setattr(open_part_module, "WHOLE_BYTES", 0)
            patch.setattr(open_part_module, "SHOWN_BYTES", 1)
            patch.setattr(snapshot_module, "SPLIT_BYTES", 300)
            patch.setattr(snapshot_module, "SHOWN_ROWS", 2)
            patch.setattr(snapshot_module, "MERGE_BYTES", 1)
        runs = runs_of(place, schema, batches, inline=inline)
        read = place.read if small else None
        counted = plan_snapshot(runs, {ID: schema}, ID, as_of=as_of, diffs=True, read=read)
        assert rows_read(counted, place, schema) == counts
        splits = plan_snapshot(runs, {ID: schema}, ID, as_of=as_of, read=read)
        if min(counts.values(), default=1) < 0:
            with pytest.raises(NegativeCountError):
                rows_read(splits, place, schema)
        else:
            assert rows_read(splits, place, schema) == counts


@settings(deadline=None)
@given(st.data(), schemas(), st.integers(0, 3), st.integers(0, 4))
def test_a_snapshot_and_the_changes_after_it_are_a_later_snapshot(
    data: Any, schema: RowSchema, first: int, more: int
) -> None:
    batches = data.draw(st.lists(updates(schema), max_size=3))
    place = PartPlace()
    runs = runs_of(place, schema, batches, inline=False)
    given_updates = [update for batch in batches for update in batch]
    found = [
        update
        for batch in read_changes(
            runs, {ID: schema}, ID, place.read, start=first + 1, end=first + more + 1
        )
        for update in updates_of(schema, pyarrow.Table.from_batches([batch]))
    ]
    before, after = counts_at(given_updates, first), counts_at(given_updates, first + more)
    sums = Counter(before)
    for row, count in counts_at(found, 2**62).items():
        sums[row] += count
    assert {row: count for row, count in sums.items() if count} == after
    assert all(first < update.time <= first + more for update in found)


def numbers(count: int, diff: int = 1, time: int = 0, first: int = 0) -> list[Update]:
    """Rows of one number each."""
    return [Update((number,), time, diff) for number in range(first, first + count)]


NUMBERS = schema_of([pyarrow.int64()])


def test_without_negatives_splits_are_row_groups_and_read_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = 3 * 65_536
    place = PartPlace()
    run = place.put_run(
        encode_updates(pyarrow.table([pyarrow.arange(0, rows)], names=["k0"]), NUMBERS, ID, time=0)
    )
    (piece,) = run
    monkeypatch.setattr(open_part_module, "WHOLE_BYTES", 0)
    monkeypatch.setattr(snapshot_module, "SPLIT_BYTES", -(-piece.part.length // 3))
    splits = plan_snapshot([run], {ID: NUMBERS}, ID, as_of=0)
    assert not place.requests, "a plan reads nothing"
    assert len(splits) == 3
    for index, split in enumerate(splits):
        place.requests.clear()
        found = pyarrow.Table.from_batches(split.read(place.read))
        assert found["k0"].to_pylist() == list(range(index * 65_536, (index + 1) * 65_536))
        assert sum(length for _, _, length in place.requests) < piece.part.length // 2


def test_small_parts_share_a_split() -> None:
    place = PartPlace()
    runs = runs_of(place, NUMBERS, [numbers(5, first=5 * one) for one in range(100)], inline=True)
    (split,) = plan_snapshot(runs, {ID: NUMBERS}, ID, as_of=0)
    found = pyarrow.Table.from_batches(split.read(place.read))
    assert found["k0"].to_pylist() == list(range(500))


def test_a_split_of_a_large_part_is_small() -> None:
    place = PartPlace()
    table = pyarrow.table([pyarrow.arange(0, 200_000)], names=["k0"])
    run = place.put_run(encode_updates(table, NUMBERS, ID, time=1))
    (split,) = plan_snapshot([run], {ID: NUMBERS}, ID, as_of=1)
    assert len(pickle.dumps(split)) < 2_000


def test_where_rows_may_cancel_splits_are_ranges_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 4 * 65_536
    place = PartPlace()
    large = place.put_run(
        encode_updates(pyarrow.table([pyarrow.arange(0, rows)], names=["k0"]), NUMBERS, ID, time=0)
    )
    gone = place.put_run(encode_updates(table_of(NUMBERS, numbers(rows // 2, -1, 1)), NUMBERS, ID))
    monkeypatch.setattr(open_part_module, "WHOLE_BYTES", 0)
    monkeypatch.setattr(snapshot_module, "SPLIT_BYTES", large[0].part.length // 4)
    splits = plan_snapshot([large, gone], {ID: NUMBERS}, ID, as_of=1, read=place.read)
    assert len(splits) >= 4
    bounds = [split.bounds for split in splits]
    assert [one.high for one in bounds if one][:-1] == [one.low for one in bounds if one][1:]
    found = [
        value
        for split in splits
        for batch in split.read(place.read)
        for value in batch["k0"].to_pylist()
    ]
    assert sorted(found) == list(range(rows // 2, rows))
    # Without footers there are fewer cuts, and the same rows.
    fewer = plan_snapshot([large, gone], {ID: NUMBERS}, ID, as_of=1)
    assert len(fewer) < len(splits)
    again = [batch["k0"].to_pylist() for split in fewer for batch in split.read(place.read)]
    assert sorted(value for values in again for value in values) == list(range(rows // 2, rows))


def test_rows_of_a_key_larger_than_memory_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_file, "GROUP_ROWS", 2)
    monkeypatch.setattr(stored_run_module, "FEW_ROWS", 0)
    monkeypatch.setattr(snapshot_module, "MERGE_BYTES", 1)
    schema = schema_of([pyarrow.int64()], [pyarrow.int64()])
    place = PartPlace()
    rows = [(7, number) for number in range(30)]
    batches = [
        [Update((1, 1), 0, 1), *(Update(row, 0, 1) for row in rows), Update((9, 9), 0, 1)],
        [Update((2, 2), 0, 1), *(Update(row, 0, -1) for row in reversed(rows[:20]))],
    ]
    runs = [
        place.put_run(encode_updates(table_of(schema, batch), schema, ID, inline=False))
        for batch in batches
    ]
    splits = plan_snapshot(runs, {ID: schema}, ID, as_of=0)
    found = rows_read(splits, place, schema)
    assert found == counts_at([update for batch in batches for update in batch], 0)
    assert len(found) == 13


def test_a_row_comes_as_often_as_it_counts_some_at_a_time() -> None:
    place = PartPlace()
    runs = runs_of(place, NUMBERS, [[Update((1,), 0, 200_000), Update((2,), 0, 1)]], inline=True)
    (split,) = plan_snapshot(runs, {ID: NUMBERS}, ID, as_of=0)
    batches = list(split.read(place.read))
    assert max(len(batch) for batch in batches) <= 65_536
    counts = Counter(value for batch in batches for value in batch["k0"].to_pylist())
    assert counts == {1: 200_000, 2: 1}


def test_older_parts_show_nulls_in_new_columns() -> None:
    newer = evolved(NUMBERS, pyarrow.schema([*NUMBERS.arrow, ("v0", pyarrow.string())]))
    place = PartPlace()
    old = runs_of(place, NUMBERS, [numbers(1)], inline=False)
    new = place.put_run(encode_updates(table_of(newer, [Update((9, "x"), 0, 1)]), newer, 4))
    known = {ID: NUMBERS, 4: newer}
    for diff in (1, -1):  # as they lie, and grouped
        more = runs_of(place, NUMBERS, [numbers(1, diff, 0, 7), numbers(1, 1, 0, 7)], inline=True)
        splits = plan_snapshot([*old, new, *more], known, 4, as_of=0)
        found = pyarrow.Table.from_batches(
            batch for split in splits for batch in split.read(place.read)
        )
        rows = sorted(zip(*found.to_pydict().values(), strict=True))
        assert rows == [(0, None), *[(7, None)] * (1 + diff), (9, "x")]


def test_only_columns_that_are_asked_for_are_shown() -> None:
    schema = schema_of([pyarrow.int64()], [pyarrow.string(), pyarrow.bool_()])
    place = PartPlace()
    for diffs in ([1, 1], [2, -1]):
        batch = [Update((number, "x", True), 0, diff) for number, diff in enumerate(diffs)]
        batch.append(Update((1, "x", True), 0, 3))
        runs = runs_of(place, schema, [batch], inline=False)
        splits = plan_snapshot(runs, {ID: schema}, ID, as_of=0, columns=["v1", "k0"], diffs=True)
        found = pyarrow.Table.from_batches(
            batch for split in splits for batch in split.read(place.read)
        )
        assert found.column_names == ["v1", "k0", DIFF]
        assert set(found["v1"].to_pylist()) == {True}
    with pytest.raises(KeyError, match="other"):
        plan_snapshot(runs, {ID: schema}, ID, as_of=0, columns=["other"])


def test_damage_names_the_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ranges_module, "open_part", open_part_module.open_part)
    place = PartPlace()
    runs = runs_of(place, NUMBERS, [numbers(9)], inline=False)
    name = runs[0][0].name
    place.objects[name] = bytes(len(place.objects[name]))
    (split,) = plan_snapshot(runs, {ID: NUMBERS}, ID, as_of=0)
    with pytest.raises(CorruptDataError, match=f"where={name}"):
        list(split.read(place.read))
