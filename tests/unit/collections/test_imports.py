"""Folders of Parquet come into a collection: once, all at one time, and as pyarrow reads them."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow
import pytest
from pyarrow import dataset

from siltstone.collections import upload_ticket
from siltstone.collections.blocking import Collections
from siltstone.collections.sources import source_file
from siltstone.collections.sources.any_source import table_source
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    CollectionSequenceError,
    CollectionSourceError,
    SiltstoneError,
    UpdateTimeError,
)
from siltstone.testing.faults.faulty_chunk_storage import Fate, StorageCall
from tests.support.collections.collections_world import (
    CollectionsWorld,
    many_rows,
    pairs_of,
    shown,
)
from tests.support.collections.import_rows import GUSTS, brought, rows_of, write
from tests.support.collections.store_fixtures import collections, folder

__all__ = ["collections", "folder"]

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of two files."""
    folder = tmp_path / "source"
    write(folder, "a.parquet", GUSTS.slice(0, 4))
    write(folder, "below/b.parquet", GUSTS.slice(4))
    return folder


# --- what comes ---


def test_a_folder_comes_as_pyarrow_reads_it(collections: Collections, source: Path) -> None:
    expected = dataset.dataset(source).to_table()
    assert rows_of(brought(collections, source)) == rows_of(expected)


def test_one_file_comes_alone(collections: Collections, source: Path) -> None:
    assert rows_of(brought(collections, source / "a.parquet")) == rows_of(GUSTS.slice(0, 4))


def test_values_of_folders_become_columns(collections: Collections, tmp_path: Path) -> None:
    table = GUSTS.append_column("place", [["a b", "x/y", None, "æ=1", "a b", "%20"]])
    dataset.write_dataset(
        table,
        tmp_path / "parts",
        format="parquet",
        partitioning=["year", "place"],
        partitioning_flavor="hive",
    )
    (tmp_path / "parts" / "_SUCCESS").write_bytes(b"")
    (tmp_path / "parts" / "year=2024" / ".part.crc").write_bytes(b"crc")
    found = brought(collections, tmp_path / "parts")
    assert found.schema.field("year").type == pyarrow.int64()
    assert rows_of(found) == rows_of(table)


def test_values_of_folders_get_the_types_of_the_collection(
    collections: Collections, tmp_path: Path
) -> None:
    for day, month in (("2024-02-29", "02"), ("__HIVE_DEFAULT_PARTITION__", "11")):
        write(tmp_path / "parts", f"day={day}/month={month}/a.parquet", GUSTS.slice(0, 1))
    assert table_source(tmp_path / "parts").schema.field("month").type == pyarrow.string()
    fields = [*GUSTS.schema, pyarrow.field("day", pyarrow.date32()), ("month", pyarrow.int8())]
    made = collections.create("gusts", pyarrow.schema(fields), key=["station"])
    made.import_rows(table_source(tmp_path / "parts"))
    found = made.snapshot().to_arrow().to_pylist()
    days = {(row["day"], row["month"]) for row in found}
    assert days == {(date(2024, 2, 29), 2), (None, 11)}


def test_every_type_that_is_stored_comes(collections: Collections, tmp_path: Path) -> None:
    table = pyarrow.table(
        {
            "key": pyarrow.array(["a", "b"], pyarrow.large_string()),
            "flag": [True, None],
            "small": pyarrow.array([1, None], pyarrow.uint8()),
            "price": pyarrow.array([Decimal("1.50"), None], pyarrow.decimal128(9, 2)),
            "seen": pyarrow.array([NOON, None], pyarrow.timestamp("us", "UTC")),
            "bytes": pyarrow.array([b"\0\xff", None], pyarrow.large_binary()),
            "word": pyarrow.array(["x", None]).dictionary_encode(),
            "view": pyarrow.array(["y", None], pyarrow.string_view()),
            "day": pyarrow.array([date(2024, 2, 29), None], pyarrow.date64()),
            "half": pyarrow.array([0.5, None], pyarrow.float16()),
        }
    )
    write(tmp_path, "all.parquet", table)
    found = brought(collections, tmp_path / "all.parquet", "key")
    assert found.sort_by("key").to_pylist() == table.to_pylist()
    types = [found.schema.field(name).type for name in ("key", "bytes", "word", "view", "day")]
    strings = [pyarrow.string(), pyarrow.binary(), pyarrow.string(), pyarrow.string()]
    assert types == [*strings, pyarrow.date32()]


def test_old_timestamps_come_whatever_their_year(collections: Collections, tmp_path: Path) -> None:
    seen = [NOON.replace(year=year, tzinfo=None) for year in (1900, 9999)]
    table = pyarrow.table({"key": ["a", "b"], "seen": seen})
    path = write(tmp_path, "old.parquet", table, use_deprecated_int96_timestamps=True)
    assert rows_of(brought(collections, path, "key")) == rows_of(table)
    zoned = pyarrow.schema([("key", "string"), ("seen", pyarrow.timestamp("ms", "UTC"))])
    cut = pyarrow.table({"key": ["a"], "seen": seen[:1]})
    path = write(tmp_path, "cut.parquet", cut, use_deprecated_int96_timestamps=True)
    made = collections.create("zoned", zoned, key=["key"])
    made.import_rows(table_source(path))
    (row,) = made.snapshot().to_arrow().to_pylist()
    assert row["seen"].replace(tzinfo=None) == seen[0]


def test_columns_that_a_file_lacks_hold_nulls(collections: Collections, source: Path) -> None:
    note = pyarrow.field("note", pyarrow.string(), nullable=False)
    more = GUSTS.slice(0, 1).append_column(note, [["storm"]])
    write(source, "e.parquet", more)
    write(source, "d.parquet", GUSTS.slice(1, 1).drop_columns(["gust"]))
    found = brought(collections, source)
    assert len(found) == len(GUSTS) + 2
    assert sorted(found["note"].drop_null().to_pylist()) == ["storm"]


def test_columns_can_be_chosen(collections: Collections, source: Path) -> None:
    write(source, "c.parquet", GUSTS.append_column("nested", [[{"a": 1}] * len(GUSTS)]))
    found = brought(collections, source, columns=["year", "station"])
    assert found.column_names == ["station", "year"]
    assert len(found) == 2 * len(GUSTS)


def test_a_column_with_a_dot_is_not_the_field_of_another_one(
    collections: Collections, tmp_path: Path
) -> None:
    table = pyarrow.table({"a": [{"b": 1}, {"b": 2}], "a.b": ["x", "y"]})
    path = write(tmp_path, "names.parquet", table)
    found = brought(collections, path, "a.b", columns=["a.b"])
    assert rows_of(found) == rows_of(table.select(["a.b"]))


def test_large_files_come_in_several_objects(
    collections: Collections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_ticket, "RUN_BYTES", MIB)
    monkeypatch.setattr(source_file, "BATCH_BYTES", MIB // 2)
    keys = pyarrow.array([f"{number * 7919 % 20_000:05}" * 40 for number in range(20_000)])
    path = write(tmp_path, "large.parquet", pyarrow.table({"key": keys}), row_group_size=3_000)
    done: list[int] = []
    found = table_source(path)
    made = collections.create("gusts", found.schema, key=["key"])
    made.import_rows(found, progress=done.append)
    assert made.snapshot().to_arrow()["key"].combine_chunks().sort() == keys.sort()
    assert sum(done) == path.stat().st_size
    assert len(done) > 1
    assert made.info().parts > 2


# --- once ---


def test_a_repeat_appends_nothing_and_tells_the_same_time(
    collections: Collections, source: Path
) -> None:
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    first = made.import_rows(table_source(source))
    again = made.import_rows(table_source(source))
    assert (first.repeated, again.repeated) == (False, True)
    assert (again.time, again.rows, first.rows) == (first.time, 0, len(GUSTS))
    assert made.info().rows == len(GUSTS)


def test_other_content_of_a_place_comes_only_under_a_name(
    collections: Collections, source: Path
) -> None:
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    made.import_rows(table_source(source))
    os.utime(source / "a.parquet", (1, 1))
    with pytest.raises(CollectionSourceError, match="rows would come twice"):
        made.import_rows(table_source(source))
    for repeated in (False, True):
        told = made.import_rows(table_source(source), writer="me", sequence=3)
        assert told.repeated is repeated
    with pytest.raises(CollectionSequenceError):
        made.import_rows(table_source(source), writer="me", sequence=2)
    assert made.info().rows == 2 * len(GUSTS)


def test_a_writer_needs_a_sequence(collections: Collections, source: Path) -> None:
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    with pytest.raises(ValueError, match="go together"):
        made.import_rows(table_source(source), writer="me")


def test_rows_come_at_the_time_that_is_asked_for(collections: Collections, source: Path) -> None:
    made = collections.create("gusts", GUSTS.schema, key=["station"], times="count")
    told = made.import_rows(table_source(source), time=41)
    assert (told.time, told.upper, made.info().upper) == (41, 42, 42)
    assert len(made.snapshot(40).to_arrow()) == 0
    assert len(made.snapshot(41).to_arrow()) == len(GUSTS)
    with pytest.raises(UpdateTimeError, match="from the upper on"):
        made.import_rows(table_source(source / "a.parquet"), time=41)


@pytest.mark.virtual_time
async def test_of_two_processes_that_import_at_once_one_appends(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", many_rows(60))
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        both = [await world.open().collection() for _ in range(2)]
        told = await asyncio.gather(*(one.import_rows(table_source(tmp_path)) for one in both))
        assert sorted(one.repeated for one in told) == [False, True]
        assert told[0].time == told[1].time
        assert await shown(gusts) == pairs_of(many_rows(60))
        assert len(world.names("/parts/")) == 1


@pytest.mark.virtual_time
@pytest.mark.parametrize("last", [Fate.LOST_CALL, Fate.LOST_REPLY, Fate.TORN])
async def test_an_import_that_dies_at_any_call_is_made_once_by_a_repeat(
    tmp_path: Path, last: Fate
) -> None:
    for number in range(3):
        write(tmp_path, f"{number}.parquet", many_rows(60, 60 * number))
    died = 0
    while await _died_and_repeated(tmp_path, died + 1, last):
        died += 1
    assert died > 4


async def _died_and_repeated(source: Path, fatal: int, last: Fate) -> bool:
    """Let a process die at a call of long-term storage, and another one repeat its import.

    Returns:
        Whether it made so many calls.
    """
    async with CollectionsWorld(seed=fatal) as world:
        gusts = await (await world.create()).collection()
        opener = world.open()
        dying = await opener.collection()
        first = len(opener.storage.calls)

        def plan(call: StorageCall) -> Fate:
            number = call.number - first
            return Fate.DONE if number < fatal else last if number == fatal else Fate.LOST_CALL

        opener.storage.plan = plan
        survived = True
        try:
            await dying.import_rows(table_source(source))
        except SiltstoneError:
            survived = False
        other = await world.open().collection()
        await other.import_rows(table_source(source))
        assert await shown(gusts) == pairs_of(many_rows(180)), f"died at call {fatal}"
        return not survived
