"""Walks along the index, against a sorted list, and their steps; what a range removes."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Any

import pytest
import rocksdict

from siltstone.core.errors import (
    ClosedError,
    CorruptDataError,
    SettingsError,
    StoreError,
    StoreInUseError,
)
from siltstone.metadata.index import RANGE_EARLIER_MAX, RANGE_POINTS_MAX, Index
from siltstone.metadata.index_errors import translated, translation
from siltstone.metadata.index_rows import (
    NO_LIMIT,
    Change,
    Entry,
    RangeEnd,
    below,
    entry_of,
    index_key,
    keys_between,
    range_bounds,
    scan_bounds,
    stored,
    walk_backward,
    walk_forward,
    walk_values,
)
from siltstone.metadata.position import Position

POSITION = Position(b"lineage-of-tests", 1, 2, 3)


class Rows:
    """An iterator like that of the library, over a list; it counts its steps."""

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        self.keys = sorted(rows)
        self.rows = rows
        self.at = -1
        self.steps = 0
        self.looked = 0
        self.damage: Exception | None = None

    def seek(self, key: bytes) -> None:
        self.at = bisect_left(self.keys, key)

    def seek_for_prev(self, key: bytes) -> None:
        self.at = bisect_right(self.keys, key) - 1

    def valid(self) -> bool:
        return 0 <= self.at < len(self.keys)

    def key(self) -> bytes | None:
        return self.keys[self.at] if self.valid() else None

    def value(self) -> bytes:
        return self.rows[self.keys[self.at]]

    def next(self) -> None:
        self.steps += 1
        self.at += 1

    def prev(self) -> None:
        self.steps += 1
        self.at -= 1

    def status(self) -> None:
        self.looked += 1
        if self.damage is not None:
            raise self.damage


KEYS = [b"a", b"b", b"b\0", b"c", b"d"]
ROW_BYTES = 4 + 1 + 8 + 3
"""Size of a row with a key of one byte: table, key, version, value."""


def table(*keys: bytes) -> Rows:
    """Rows of the tables 1, 2 and 3, each with these keys."""
    return Rows({index_key(t, key): stored(t, b"val") for t in (1, 2, 3) for key in keys})


def walked(
    rows: Rows,
    start: bytes,
    end: bytes | None,
    *,
    reverse: bool = False,
    limit: int = 99,
    bytes_max: int = NO_LIMIT,
) -> list[bytes]:
    found = walk(rows, start, end, reverse=reverse, limit=limit, bytes_max=bytes_max)
    assert all(entry == Entry(2, b"val") for _, entry in found)
    return [key for key, _ in found]


def walk(
    rows: Any, start: bytes, end: bytes | None, *, reverse: bool, limit: int, bytes_max: int
) -> list[tuple[bytes, Entry]]:
    low, high = scan_bounds(2, start, end)
    return (walk_backward if reverse else walk_forward)(rows, low, high, limit, bytes_max)


BOUNDS = [b"", b"a", b"aa", b"b", b"b\0", b"c", b"d", b"d\0", b"z"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", [0, 1, 2, 99])
def test_a_walk_finds_what_a_list_holds(reverse: bool, limit: int) -> None:
    for start in BOUNDS:
        for end in (*BOUNDS, None):
            inside = [key for key in KEYS if start <= key and (end is None or key < end)]
            expected = (inside[::-1] if reverse else inside)[:limit]
            rows = table(*KEYS)
            assert walked(rows, start, end, reverse=reverse, limit=limit) == expected
            assert rows.looked == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_a_walk_ends_with_the_entry_that_reaches_its_bytes(reverse: bool) -> None:
    for bytes_max, count in (
        (0, 0),
        (1, 1),
        (ROW_BYTES, 1),
        (ROW_BYTES + 1, 2),
        (2 * ROW_BYTES, 2),
        (2 * ROW_BYTES + 1, 3),
    ):
        rows = table(b"a", b"b", b"c", b"d")
        found = walked(rows, b"", None, reverse=reverse, bytes_max=bytes_max)
        assert len(found) == count, bytes_max


@pytest.mark.parametrize("bytes_max", [0, 1, 2 * ROW_BYTES, NO_LIMIT])
@pytest.mark.parametrize("limit", [0, 1, 2, 99])
def test_a_walk_of_values_finds_what_the_other_one_does(limit: int, bytes_max: int) -> None:
    for start in BOUNDS:
        for end in (*BOUNDS, None):
            rows, others = table(*KEYS), table(*KEYS)
            low, high = scan_bounds(2, start, end)
            found = walk_values(rows, low, high, limit, bytes_max)  # type: ignore[arg-type]
            entries = walk(others, start, end, reverse=False, limit=limit, bytes_max=bytes_max)
            assert found == [(key, entry.value) for key, entry in entries]
            assert (rows.steps, rows.looked) == (others.steps, others.looked)


def test_a_walk_does_not_step_beyond_what_was_asked_for() -> None:
    rows = table(*KEYS)
    assert walked(rows, b"", None, bytes_max=2 * ROW_BYTES) == [b"a", b"b"]
    assert rows.steps == 1
    rows = table(*KEYS)
    assert walked(rows, b"b", None, limit=3) == [b"b", b"b\0", b"c"]
    assert rows.steps == 2
    rows = table(*KEYS)
    assert walked(rows, b"", b"cc", reverse=True, limit=3) == [b"c", b"b\0", b"b"]
    assert rows.steps == 2


@pytest.mark.parametrize("reverse", [False, True])
def test_damage_that_ends_a_walk_is_raised(reverse: bool) -> None:
    rows = table()
    rows.damage = ValueError("Corruption")
    with pytest.raises(ValueError, match="Corruption"):
        walked(rows, b"", None, reverse=reverse)
    with pytest.raises(ValueError, match="Corruption"):
        keys_between(rows, b"", b"z", 9)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Corruption"):
        walk_values(rows, b"", b"z", 9, 9)  # type: ignore[arg-type]


def test_keys_are_found_up_to_a_limit_and_not_the_end() -> None:
    low, high = range_bounds(2, b"b", b"d")
    expected = [index_key(2, key) for key in (b"b", b"b\0", b"c")]
    for limit in range(5):
        found = keys_between(table(*KEYS), low, high, limit)  # type: ignore[arg-type]
        assert found == expected[:limit]


def test_bounds_stay_within_the_table() -> None:
    assert scan_bounds(2, b"a", None) == (b"\0\0\0\2a", b"\0\0\0\3")
    assert scan_bounds(2, b"a", b"") == (b"\0\0\0\2a", b"\0\0\0\2")
    assert range_bounds(2, b"a", b"b") == (b"\0\0\0\2a", b"\0\0\0\2b")
    assert range_bounds(2, b"a", b"") == (b"\0\0\0\2a", b"\0\0\0\3")


def test_a_value_carries_its_version() -> None:
    assert stored(258, b"val") == b"\2\1\0\0\0\0\0\0val"
    assert entry_of(stored(258, b"val")) == Entry(258, b"val")
    assert entry_of(stored(0, b"")) == Entry(0, b"")


# --- ranges that an index removes ---


@pytest.mark.parametrize("suffix", [b"\0", b"A", b"X\0", b"\xff"])
def test_a_longer_key_is_not_taken_for_the_one_it_begins_with(index: Index, suffix: bytes) -> None:
    index.apply([(index_key(1, b"a" + suffix), stored(1, b"longer"))], POSITION)
    snapshot = index.snapshot()
    assert (index.get(1, b"a"), snapshot.get(1, b"a")) == (None, None)
    index.apply([(index_key(1, b"a"), stored(2, b"a"))], POSITION)
    snapshot = index.snapshot()
    assert index.get(1, b"a") == snapshot.get(1, b"a") == Entry(2, b"a")


def filled(index: Index, count: int) -> None:
    keys = [b"%06d" % number for number in range(count)]
    index.apply([(index_key(t, key), stored(1, b"v")) for t in (1, 2) for key in keys], POSITION)


def removal(start: bytes, end: bytes) -> Change:
    low, high = range_bounds(1, start, end)
    return low, RangeEnd(high)


def keys_of(index: Index, table_id: int = 1) -> list[bytes]:
    return [key for key, _ in index.scan(table_id, b"", None, limit=NO_LIMIT)]


@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_many_keys_go_like_few(index: Index, spare: int) -> None:
    count = RANGE_POINTS_MAX + spare
    filled(index, count + 2)
    index.apply([removal(b"000001", b"%06d" % (count + 1))], POSITION)
    assert keys_of(index) == [b"000000", b"%06d" % (count + 1)]
    assert len(keys_of(index, 2)) == count + 2


@pytest.mark.parametrize("earlier", [0, 1, RANGE_EARLIER_MAX, RANGE_EARLIER_MAX + 1])
@pytest.mark.parametrize("count", [0, 300])
def test_what_is_put_before_a_removal_goes_up_to_its_bounds(
    index: Index, earlier: int, count: int
) -> None:
    filled(index, count)
    changes: list[Change] = [
        (index_key(1, key), stored(2, b"new")) for key in (b"a", b"b", b"b\0", b"c", b"d")
    ]
    changes += [(index_key(3, b"%d" % number), stored(2, b"v")) for number in range(earlier)]
    changes += [removal(b"b", b"d"), (index_key(1, b"bb"), stored(2, b"later"))]
    if count:
        changes.append(removal(b"0", b"1"))
    index.apply(changes, POSITION)
    assert keys_of(index) == [b"a", b"bb", b"d"]
    assert len(keys_of(index, 2)) == count
    assert len(keys_of(index, 3)) == earlier


def test_a_removal_that_meets_damage_removes_nothing(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "i")
    keys = [b"%06d" % number for number in range(5_000)]
    index.apply([(index_key(1, key), stored(1, key * 3)) for key in keys], POSITION)
    index.close()
    (file,) = (tmp_path / "i").glob("*.sst")
    data = bytearray(file.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 50] = bytes(50)
    file.write_bytes(data)
    index = Index.open(tmp_path / "i")
    with pytest.raises(CorruptDataError, match=f"where={tmp_path / 'i'}"):
        remove_by_parts(index)
    assert index.position == POSITION
    index.close()


def remove_by_parts(index: Index) -> None:
    for start in range(0, 5_000, 200):
        index.apply([removal(b"%06d" % start, b"%06d" % (start + 200))], POSITION)


# --- what the library's errors mean ---

FOLDER = Path("/some/folder")


def meaning(error: Exception) -> tuple[type[Exception], str]:
    found = translation(error, FOLDER)
    return type(found), str(found)


@pytest.mark.parametrize(
    "message",
    [
        "Corruption: block checksum mismatch",
        "IO error: No such file or directory: 000012.sst",
        "Invalid argument: CURRENT is nonsense",
    ],
)
def test_damage_is_told_by_the_message(message: str) -> None:
    text = f"index is damaged where={FOLDER} reason={message}"
    assert meaning(Exception(message)) == (CorruptDataError, text)


def test_other_errors_are_told_apart() -> None:
    closed = rocksdict.DbClosedError("DB instance already closed")
    assert meaning(closed) == (ClosedError, f"index is closed folder={FOLDER}")
    busy = Exception(f"IO error: While lock file: {FOLDER}/LOCK: Resource temporarily unavailable")
    text = f"index is open elsewhere owner=unknown folder={FOLDER}"
    assert meaning(busy) == (StoreInUseError, text)
    text = f"index failed folder={FOLDER} reason=IO error: No space left on device"
    assert meaning(Exception("IO error: No space left on device")) == (StoreError, text)
    text = f"index failed folder={FOLDER} reason=not Corruption"
    assert meaning(Exception("not Corruption")) == (StoreError, text)


@pytest.mark.parametrize("error", [SettingsError("ours"), OSError(5, "of the system")])
def test_what_needs_no_translation_stays(error: Exception) -> None:
    assert translation(error, FOLDER) is error


def test_the_first_error_is_kept_as_the_cause() -> None:
    first = Exception("Corruption: here")

    def call() -> None:
        raise first

    with pytest.raises(CorruptDataError) as caught:
        translated(FOLDER, call)
    assert caught.value.__cause__ is first
    assert translated(FOLDER, lambda: 7) == 7


def test_a_closed_index_and_its_snapshots_name_their_folder(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "i")
    filled(index, 3)
    taken, let_go = index.snapshot(), index.snapshot()
    let_go.close()
    let_go.close()
    assert (taken.closed, let_go.closed) == (False, True)
    assert taken.scan(1, b"", None, limit=2, reverse=True) == [
        (b"000002", Entry(1, b"v")),
        (b"000001", Entry(1, b"v")),
    ]
    assert len(taken.scan(1, b"", None, bytes_max=1)) == 1
    assert [key for key, _ in taken.scan(1, b"000001", b"000002")] == [b"000001"]
    assert taken.get(1, b"000003") is None
    assert taken.get(3, b"000001") is None
    index.close()
    assert (taken.closed, let_go.closed) == (True, True)
    of_snapshot = f"snapshot is closed folder={tmp_path / 'i'}"
    of_index = f"index is closed folder={tmp_path / 'i'}"
    for call, text in (
        (lambda: taken.scan(1, b"", None), of_snapshot),
        (lambda: taken.get(1, b""), of_snapshot),
        (lambda: index.get(1, b""), of_index),
        (lambda: index.scan(1, b"", None), of_index),
        (lambda: index.snapshot(), of_index),
        (lambda: index.apply([], POSITION), of_index),
        (lambda: index.checkpoint(tmp_path / "c"), of_index),
    ):
        with pytest.raises(ClosedError) as caught:
            call()
        assert str(caught.value) == text


def test_an_empty_range_is_found_empty_without_a_step_past_removed_rows_after_it(
    tmp_path: Path,
) -> None:
    options = rocksdict.Options(raw_mode=True)
    options.enable_statistics()
    database = rocksdict.Rdict(str(tmp_path / "rows"), options)
    removed = [b"bc%d" % number for number in range(200)]
    for key in removed:
        database[key] = b"12345678"
    for key in removed:
        del database[key]
    low, high = b"b", b"bb"
    found = below(database, high, lambda rows: walk_forward(rows, low, high, NO_LIMIT, NO_LIMIT))
    assert not found
    counted = str(database.property_value("rocksdb.options-statistics"))
    skipped = re.search(r"^rocksdb\.number\.iter\.skip COUNT : (\d+)$", counted, re.MULTILINE)
    assert skipped is not None
    assert int(skipped[1]) < 10
    database.close()
