"""Files that become objects of a collection as they are: the same bytes, for all readers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow
import pytest
from pyarrow import compute, parquet

import siltstone
from siltstone.collections.blocking import Collection, Collections
from siltstone.collections.row_imports import CollectionImport
from siltstone.collections.rows import open_part, taken_file
from siltstone.collections.sources.any_source import table_source
from siltstone.core.errors import CollectionSourceError, CorruptDataError
from tests.support.collections.import_rows import rows_of, write
from tests.support.collections.store_fixtures import collections, folder

__all__ = ["collections", "folder"]

ROWS = 9_000
SORTED = pyarrow.table(
    {
        "station": [f"station-{number // 3:06}" for number in range(ROWS)],
        "year": [2000 + number % 3 for number in range(ROWS)],
        "gust": pyarrow.array([number / 7 if number % 11 else None for number in range(ROWS)]),
        "calm": [number * 3 for number in range(ROWS)],
    }
)
BACKWARD = list(reversed(range(3_000)))
KEY = ("station", "year")
WRITTEN = {"row_group_size": 3_000, "compression": "snappy"}


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of these tests are as large as those that are worth it, and are read in ranges."""
    monkeypatch.setattr(taken_file, "TAKEN_BYTES_MIN", 1)
    monkeypatch.setattr(open_part, "WHOLE_BYTES", 1)


def imported(collections: Collections, source: Path) -> tuple[Collection, CollectionImport]:
    found = table_source(source)
    made = collections.create("gusts", found.schema, key=KEY, times="count")
    told = made.import_rows(found)
    assert made.info().rows == told.rows
    return made, told


def objects(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*/parts/**/*.parquet"))


def halves(source: Path) -> list[pyarrow.Table]:
    """Write two files, of which the second one has the lower keys."""
    tables = [SORTED.slice(ROWS // 2), SORTED.slice(0, ROWS // 2)]
    for name, table in zip("ab", tables, strict=True):
        write(source, f"{name}.parquet", table, **WRITTEN)
    return tables


def test_the_bytes_are_those_of_the_file(
    collections: Collections, folder: Path, tmp_path: Path
) -> None:
    path = write(tmp_path, "a.parquet", SORTED, **WRITTEN)
    made, told = imported(collections, path)
    assert (told.taken, told.files, told.rows) == (1, 1, ROWS)
    data = path.read_bytes()
    (found,) = [each.read_bytes() for each in objects(folder)]
    footer = struct.unpack("<I", data[-8:-4])[0] + 8
    assert found[: len(data) - footer] == data[:-footer]
    assert found[-footer:] == data[-footer:]
    assert rows_of(made.snapshot().to_arrow()) == rows_of(SORTED)


def test_every_reader_reads_them(collections: Collections, folder: Path, tmp_path: Path) -> None:
    halves(tmp_path / "source")
    made, told = imported(collections, tmp_path / "source")
    assert told.taken == 2
    by_pyarrow = pyarrow.concat_tables(map(parquet.read_table, objects(folder)))
    assert rows_of(by_pyarrow) == rows_of(SORTED)
    snapshot = made.snapshot(columns=["gust"])
    assert snapshot.to_arrow()["gust"].null_count == SORTED["gust"].null_count
    tables = [table for split in snapshot.splits() for table in siltstone.read_split(folder, split)]
    assert sum(table.num_rows for table in tables) == ROWS
    assert list(collections.check(deep=True)) == []


def test_rows_of_them_go_and_come_and_are_merged(collections: Collections, tmp_path: Path) -> None:
    halves(tmp_path / "source")
    made, _ = imported(collections, tmp_path / "source")
    gone, come = SORTED.slice(7, 100), SORTED.slice(ROWS - 50)
    done = made.append(come, remove=gone)
    expected = rows_of(SORTED) + rows_of(come) - rows_of(gone)
    assert rows_of(made.snapshot().to_arrow()) == expected
    made.advance_since(done.time)
    made.compact()
    assert rows_of(made.snapshot().to_arrow()) == expected
    assert made.info().parts == 1


def test_files_whose_keys_do_not_overlap_are_one_run(
    collections: Collections, tmp_path: Path
) -> None:
    halves(tmp_path / "source")
    write(tmp_path / "source", "c.parquet", SORTED.slice(100, 300), **WRITTEN)
    made, told = imported(collections, tmp_path / "source")
    assert told.taken == 3
    state = made._collection._shared.state  # runs are seen in the state alone
    assert [len(run) for batch in state.batches.items for run in batch.runs] == [2, 1]


def test_files_of_a_table_of_delta_are_taken_without_those_that_were_replaced(
    collections: Collections, tmp_path: Path
) -> None:
    for _ in range(2):
        deltalake.write_deltalake(tmp_path / "delta", SORTED, mode="overwrite")
    made, told = imported(collections, tmp_path / "delta")
    assert told.taken == told.files == 1
    assert rows_of(made.snapshot().to_arrow()) == rows_of(SORTED)


def test_dictionaries_and_large_strings_are_taken(collections: Collections, tmp_path: Path) -> None:
    stations = SORTED["station"].cast(pyarrow.large_string()).dictionary_encode()
    write(tmp_path, "a.parquet", SORTED.set_column(0, "station", stations), **WRITTEN)
    made, told = imported(collections, tmp_path / "a.parquet")
    assert told.taken == 1
    assert rows_of(made.snapshot().to_arrow()) == rows_of(SORTED)


def other_nan() -> pyarrow.Table:
    bits = pyarrow.array([0x7FF3_0000_0000_0001] * ROWS, pyarrow.int64())
    return SORTED.set_column(2, "gust", bits.view(pyarrow.float64()))


NOT_TAKEN: dict[str, Callable[[], tuple[pyarrow.Table, dict[str, Any]]]] = {
    "rows in another order": lambda: (SORTED.take(list(reversed(range(ROWS)))), {}),
    "a row group out of order": lambda: (
        pyarrow.concat_tables([SORTED.slice(3_000), SORTED.slice(0, 3_000)]),
        {},
    ),
    "a later row group in another order": lambda: (
        pyarrow.concat_tables([SORTED.slice(0, 6_000), SORTED.slice(6_000).take(BACKWARD)]),
        {},
    ),
    "columns in another order": lambda: (
        SORTED.select(["station", "calm", "gust", "year"]),
        {},
    ),
    "another NaN": lambda: (other_nan(), {}),
    "a codec that few have": lambda: (SORTED, {"compression": "brotli"}),
    "a column in another type": lambda: (
        SORTED.set_column(1, "year", SORTED["year"].cast(pyarrow.int16())),
        {},
    ),
}


@pytest.mark.parametrize("kind", NOT_TAKEN)
def test_a_file_that_is_not_as_objects_are_is_copied(
    collections: Collections, tmp_path: Path, kind: str
) -> None:
    table, options = NOT_TAKEN[kind]()
    path = write(tmp_path, "a.parquet", table, **{**WRITTEN, **options})
    made = collections.create("gusts", SORTED.schema, key=KEY)
    told = made.import_rows(table_source(path))
    assert (told.taken, told.rows) == (0, ROWS)
    assert rows_of(made.snapshot().to_arrow()) == rows_of(table)


@pytest.mark.parametrize(
    ("limit", "value"), [("TAKEN_BYTES_MIN", 2**30), ("GROUP_BYTES_MAX", 10_000)]
)
def test_small_files_and_large_row_groups_are_copied(
    collections: Collections,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: int,
) -> None:
    monkeypatch.setattr(taken_file, limit, value)
    write(tmp_path, "a.parquet", SORTED, **WRITTEN)
    _, told = imported(collections, tmp_path / "a.parquet")
    assert (told.taken, told.rows) == (0, ROWS)


def test_taken_and_copied_files_come_at_one_time(collections: Collections, tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", SORTED, **WRITTEN)
    more = SORTED.slice(0, 100).take(compute.sort_indices(SORTED["gust"].slice(0, 100)))
    write(tmp_path, "b.parquet", more)
    found = table_source(tmp_path)
    made = collections.create("gusts", found.schema, key=KEY, times="count")
    told = made.import_rows(found, time=5)
    assert (told.taken, told.files, told.time) == (1, 2, 5)
    assert rows_of(made.snapshot(5).to_arrow()) == rows_of(SORTED) + rows_of(more)
    assert len(made.snapshot(4).to_arrow()) == 0


def test_damage_of_a_file_is_noticed_before_and_after_it_was_taken(
    collections: Collections, folder: Path, tmp_path: Path
) -> None:
    plain = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    path = write(tmp_path, "a.parquet", SORTED, row_group_size=3_000, **plain)
    made, _ = imported(collections, path)
    chunk = parquet.read_metadata(path).row_group(1).column(2)
    at = chunk.data_page_offset + chunk.total_compressed_size // 2
    for spoiled in (path, *objects(folder)):
        data = bytearray(spoiled.read_bytes())
        data[at] ^= 1
        spoiled.chmod(0o644)
        spoiled.write_bytes(data)
    with pytest.raises(CorruptDataError):
        made.snapshot().to_arrow()
    with pytest.raises(CollectionSourceError, match=r"a\.parquet"):
        made.import_rows(table_source(path), writer="me", sequence=0)
