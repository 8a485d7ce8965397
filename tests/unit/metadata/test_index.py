"""The local index: rows and position together, through restarts, and never trusted when damaged."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.errors import (
    ClosedError,
    CorruptDataError,
    FormatError,
    StoreInUseError,
)
from siltstone.metadata.index import Index, checkpoint_position
from siltstone.metadata.index_rows import Entry, RangeEnd, index_key, range_bounds, stored
from siltstone.metadata.position import Position, decode_position, encode_position
from tests.support import inside

LINEAGE = b"lineage-of-tests"


def position(version: int) -> Position:
    return Position(LINEAGE, version, version * 3, version * 7)


def fill(index: Index, version: int, table_id: int, keys: list[bytes]) -> None:
    changes = [(index_key(table_id, key), stored(version, b"v" + key)) for key in keys]
    index.apply(changes, position(version))


def test_an_empty_index_has_no_position(index: Index) -> None:
    assert index.position is None
    assert index.get(0, b"") is None
    assert index.scan(0, b"", None) == []


def test_rows_and_position_survive_a_close(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "i")
    fill(index, 9, 1, [b"", b"a"])
    index.apply([(index_key(1, b"a"), None)], position(11))
    index.close()
    index.close()
    index = Index.open(tmp_path / "i")
    assert index.position == position(11)
    assert index.get(1, b"") == Entry(9, b"v")
    assert index.get(1, b"a") is None
    index.close()


def test_later_changes_win(index: Index) -> None:
    key = index_key(1, b"k")
    index.apply([(key, stored(1, b"1")), (key, None), (key, stored(2, b"2"))], position(2))
    assert index.get(1, b"k") == Entry(2, b"2")


def test_scans_are_half_open_and_stay_in_their_table(index: Index) -> None:
    for table_id in (0, 1, 2):
        fill(index, 5, table_id, [b"", b"a", b"b", b"b\0", b"c", b"\xff\xff"])

    def keys(
        start: bytes, end: bytes | None, *, reverse: bool = False, limit: int = 9
    ) -> list[bytes]:
        return [key for key, _ in index.scan(1, start, end, reverse=reverse, limit=limit)]

    assert keys(b"", None) == [b"", b"a", b"b", b"b\0", b"c", b"\xff\xff"]
    assert keys(b"a", b"b") == [b"a"]
    assert keys(b"b", b"c", reverse=True) == [b"b\0", b"b"]
    assert keys(b"", None, reverse=True, limit=2) == [b"\xff\xff", b"c"]
    assert keys(b"b", b"b") == keys(b"c", b"a") == keys(b"c", b"a", reverse=True) == []
    assert keys(b"", None, limit=0) == []
    assert index.scan(1, b"c", None, limit=1) == [(b"c", Entry(5, b"vc"))]


def remove_range(table_id: int, start: bytes, end: bytes) -> tuple[bytes, RangeEnd]:
    low, high = range_bounds(table_id, start, end)
    return low, RangeEnd(high)


@pytest.mark.parametrize("count", [3, 400])
def test_a_range_goes_at_once_and_later_changes_win(index: Index, count: int) -> None:
    keys = [b"k%04d" % number for number in range(count)]
    for table_id in (0, 1, 2):
        fill(index, 5, table_id, [b"a", *keys, b"z"])
    early, late = index_key(1, b"k-early"), index_key(1, b"k-late")
    index.apply(
        [
            (early, stored(7, b"e")),
            remove_range(1, b"k", b"z"),
            (late, stored(7, b"l")),
        ],
        position(7),
    )
    assert [key for key, _ in index.scan(1, b"", None)] == [b"a", b"k-late", b"z"]
    index.apply([remove_range(1, b"", b"")], position(9))
    assert index.scan(1, b"", None) == []
    for table_id in (0, 2):
        assert len(index.scan(table_id, b"", None)) == count + 2


def test_ranges_survive_a_checkpoint_and_a_close(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "i")
    fill(index, 5, 1, [b"%04d" % number for number in range(400)])
    index.apply([remove_range(1, b"0001", b"0399")], position(6))
    index.checkpoint(tmp_path / "copy")
    index.close()
    for folder in ("i", "copy"):
        again = Index.open(tmp_path / folder)
        assert [key for key, _ in again.scan(1, b"", None)] == [b"0000", b"0399"]
        again.close()


def test_a_scan_may_be_bounded_in_bytes(index: Index) -> None:
    index.apply([(index_key(1, b"%d" % n), stored(1, bytes(1_000))) for n in range(9)], position(1))
    assert len(index.scan(1, b"", None, bytes_max=2_500)) == 3
    assert len(index.scan(1, b"", None, bytes_max=1, reverse=True)) == 1


def test_a_snapshot_shows_one_version(index: Index) -> None:
    fill(index, 5, 1, [b"a", b"b", b"c"])
    taken = index.snapshot()
    index.apply([remove_range(1, b"", b""), (index_key(1, b"b"), stored(6, b"n"))], position(6))
    assert [key for key, _ in taken.scan(1, b"", None)] == [b"a", b"b", b"c"]
    assert [key for key, _ in taken.scan(1, b"", None, reverse=True)] == [b"c", b"b", b"a"]
    values = taken.scan_values(1, b"", None, limit=9, bytes_max=999)
    assert values == [(b"a", b"va"), (b"b", b"vb"), (b"c", b"vc")]
    assert taken.get(1, b"a") == Entry(5, b"va")
    assert taken.get(1, b"") is None
    assert [key for key, _ in index.scan(1, b"", None)] == [b"b"]
    taken.close()
    with pytest.raises(ClosedError):
        taken.get(1, b"a")
    with pytest.raises(ClosedError):
        taken.scan_values(1, b"", None, limit=9, bytes_max=999)


def test_closing_the_index_ends_its_snapshots_and_frees_the_folder(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "i")
    fill(index, 5, 1, [b"a"])
    taken = index.snapshot()
    index.close()
    with pytest.raises(ClosedError):
        taken.get(1, b"a")
    with pytest.raises(ClosedError):
        index.snapshot()
    Index.open(tmp_path / "i").close()


def test_nothing_is_written_ahead(index: Index) -> None:
    fill(index, 5, 1, [b"a"])
    assert [path.stat().st_size for path in index.folder.glob("*.log")] == [0]


def test_after_a_kill_rows_and_position_agree(tmp_path: Path) -> None:
    code = f"""
import os
from pathlib import Path
from siltstone.metadata.index import *
from siltstone.metadata.index_rows import *
from siltstone.metadata.position import Position
index = Index.open(Path({str(tmp_path / "i")!r}))
index.apply([(index_key(1, b"a"), stored(1, b"a"))], Position({LINEAGE!r}, 1, 0, 0))
index.checkpoint(Path({str(tmp_path / "c")!r}))
index.apply([(index_key(1, b"b"), stored(2, b"b"))], Position({LINEAGE!r}, 2, 0, 0))
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    index = Index.open(tmp_path / "i")
    assert index.position == Position(LINEAGE, 1, 0, 0)
    assert index.get(1, b"a") == Entry(1, b"a")
    assert index.get(1, b"b") is None
    index.close()


def test_a_second_open_is_refused_here_and_elsewhere(index: Index) -> None:
    with pytest.raises(StoreInUseError):
        Index.open(index.folder)
    code = f"""
from pathlib import Path
from siltstone.core.errors import StoreInUseError
from siltstone.metadata.index import Index
try:
    Index.open(Path({str(index.folder)!r}))
except StoreInUseError:
    print("in use")
"""
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True
    )
    assert run.stdout == "in use\n"


def test_a_closed_index_says_so(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "i")
    index.close()
    with pytest.raises(ClosedError):
        index.get(0, b"")
    with pytest.raises(ClosedError):
        index.scan(0, b"", None)
    with pytest.raises(ClosedError):
        index.apply([], position(1))
    with pytest.raises(ClosedError):
        index.checkpoint(tmp_path / "c")


def damage(folder: Path, way: str) -> None:
    (file,) = folder.glob("*.sst")
    if way == "missing":
        file.unlink()
    elif way == "cut":
        file.write_bytes(file.read_bytes()[:-50])
    elif way == "changed":
        data = bytearray(file.read_bytes())
        data[10:200] = bytes(190)
        file.write_bytes(data)
    else:
        (folder / "CURRENT").write_text("nonsense")


@pytest.mark.parametrize("way", ["missing", "cut", "changed", "current"])
def test_damage_is_found(tmp_path: Path, way: str) -> None:
    index = Index.open(tmp_path / "i")
    fill(index, 1, 1, [b"%05d" % n for n in range(1_000)])
    index.close()
    damage(tmp_path / "i", way)
    with pytest.raises(CorruptDataError) as caught:
        read_all(tmp_path / "i")
    assert f"where={tmp_path / 'i'} " in str(caught.value)


def read_all(folder: Path) -> list[tuple[bytes, Entry]]:
    index = Index.open(folder)
    try:
        return index.scan(1, b"", None)
    finally:
        index.close()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_that_meets_damage_is_no_short_scan(tmp_path: Path, reverse: bool) -> None:
    index = Index.open(tmp_path / "i")
    fill(index, 1, 1, [b"%05d" % n for n in range(5_000)])
    index.close()
    (file,) = (tmp_path / "i").glob("*.sst")
    data = bytearray(file.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 50] = bytes(50)
    file.write_bytes(data)
    index = Index.open(tmp_path / "i")
    snapshot = index.snapshot()
    for scan in (index.scan, snapshot.scan):
        with pytest.raises(CorruptDataError) as caught:
            scan(1, b"", None, reverse=reverse, limit=5_000)
        assert f"where={tmp_path / 'i'} " in str(caught.value)
    index.close()


def test_a_read_that_meets_damage_finds_no_missing_key(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "i")
    keys = [b"%05d" % n for n in range(5_000)]
    fill(index, 1, 1, keys)
    index.close()
    (file,) = (tmp_path / "i").glob("*.sst")
    data = bytearray(file.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 50] = bytes(50)
    file.write_bytes(data)
    index = Index.open(tmp_path / "i")
    errors = []
    for key in keys:
        try:
            assert index.get(1, key) == Entry(1, b"v" + key)
        except CorruptDataError as error:
            errors.append(str(error))
    assert errors
    assert all(f"where={tmp_path / 'i'} " in error for error in errors)
    index.close()


@pytest.mark.parametrize("way", ["missing", "changed", "current"])
def test_the_position_of_a_damaged_checkpoint_is_not_told(
    index: Index, tmp_path: Path, way: str
) -> None:
    fill(index, 1, 1, [b"%05d" % n for n in range(1_000)])
    index.checkpoint(tmp_path / "c")
    damage(tmp_path / "c", way)
    with pytest.raises(CorruptDataError) as caught:
        checkpoint_position(tmp_path / "c")
    assert f"where={tmp_path / 'c'} " in str(caught.value)


def test_folders_are_made_with_their_parents(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "not" / "there" / "i")
    fill(index, 4, 1, [b"a"])
    copy = tmp_path / "neither" / "this" / "c"
    assert index.checkpoint(copy) == checkpoint_position(copy) == position(4)
    index.close()


def test_a_write_that_fails_moves_nothing(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "i")
    fill(index, 4, 1, [b"a"])
    inside.database(index).close()  # its refusals then stand for any failure
    with pytest.raises(ClosedError, match=f"index is closed folder={tmp_path / 'i'}"):
        fill(index, 5, 1, [b"b"])
    assert index.position == position(4)
    with pytest.raises(ClosedError, match=f"index is closed folder={tmp_path / 'i'}"):
        index.close()
    index.close()
    index = Index.open(tmp_path / "i")
    assert (index.position, index.get(1, b"b")) == (position(4), None)
    index.close()


def test_a_checkpoint_is_a_copy_that_opens(index: Index, tmp_path: Path) -> None:
    fill(index, 4, 1, [b"a"])
    assert index.checkpoint(tmp_path / "copies" / "c") == position(4)
    fill(index, 6, 1, [b"b"])
    assert checkpoint_position(tmp_path / "copies" / "c") == position(4)
    copy = Index.open(tmp_path / "copies" / "c")
    assert copy.position == position(4)
    assert [key for key, _ in copy.scan(1, b"", None)] == [b"a"]
    copy.close()
    assert index.get(1, b"b") is not None


def test_a_checkpoint_of_nothing_has_no_position(index: Index, tmp_path: Path) -> None:
    assert index.checkpoint(tmp_path / "c") is None


@given(st.builds(Position, st.binary(min_size=16, max_size=16), *[st.integers(0, 2**32 - 1)] * 3))
def test_positions_round_trip(value: Position) -> None:
    assert decode_position(encode_position(value)) == value


@given(st.binary(max_size=60))
def test_noise_is_no_position(noise: bytes) -> None:
    with contextlib.suppress(CorruptDataError, FormatError):
        assert encode_position(decode_position(noise)) == noise
