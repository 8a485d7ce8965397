"""Streams of collections by the classes that Spark calls: each change once, even if repeated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from siltstone.collections.blocking import Collection, Collections
from siltstone.core.errors import (
    BookmarkFencedError,
    CollectionDroppedError,
    CollectionNotFoundError,
    CollectionSchemaError,
    CorruptDataError,
    FormatError,
    SettingsError,
    SinceError,
    SinceHeldError,
    StoreNotFoundError,
)
from siltstone.spark.collection_stream import CollectionStreamReader
from siltstone.spark.data_source import SegmentSource
from tests.support.spark.collection_fixtures import collections, folder, gusts
from tests.support.spark.collection_stream import CollectionStreamByHand, rows_of, sums
from tests.support.spark.collection_world import GUSTS, NAME, multiset, some_gusts
from tests.support.spark.sink_world import sent

__all__ = ["collections", "folder", "gusts"]


def rows_at(gusts: Collection, as_of: int | None = None) -> object:
    return sums(gusts.snapshot(as_of, diffs=True).to_arrow())


def times(table: pyarrow.Table) -> list[int]:
    return sorted(set(table["_time"].to_pylist()))


def changed(gusts: Collection) -> None:
    """Five appends: uploaded and inline ones, and rows that go."""
    gusts.append(some_gusts(500))
    gusts.append(some_gusts(2, 900), remove=some_gusts(3))
    gusts.append(some_gusts(400, 1_000), remove=some_gusts(1, 900))
    gusts.append([])
    gusts.append(some_gusts(1, 2_000))


def test_the_rows_at_a_time_and_the_changes_after_it_are_the_rows_now(
    folder: Path, gusts: Collection
) -> None:
    gusts.append(some_gusts(500))
    gusts.append(some_gusts(2, 900), remove=some_gusts(3))
    with CollectionStreamByHand(folder) as stream:
        first = stream.batch()
        assert (times(first), len(first)) == ([1], 499)
        assert stream.batch() == stream.none()
        gusts.append(some_gusts(400, 1_000), remove=some_gusts(1, 900))
        second = stream.batch()
        gusts.append([])
        gusts.append(some_gusts(1, 2_000))
        third = stream.batch()
    assert (times(second), times(third)) == ([2], [4])
    assert first.column_names == ["station", "gust", "_time", "_diff"]
    assert rows_of(first, second, third) == rows_at(gusts)


def test_a_stream_may_begin_before_the_first_append(folder: Path, gusts: Collection) -> None:
    with CollectionStreamByHand(folder) as stream:
        assert stream.batch() == stream.none()
        gusts.append(some_gusts(3))
        assert rows_of(stream.batch()) == rows_at(gusts)


@pytest.mark.parametrize(("start", "wanted"), [(0, [0, 1, 2, 4]), (2, [2, 4]), (5, []), (9, [])])
def test_changes_from_a_time_on(
    folder: Path, gusts: Collection, start: int, wanted: list[int]
) -> None:
    changed(gusts)
    with CollectionStreamByHand(folder, startingTime=start) as stream:
        found = stream.batch()
        gusts.append(some_gusts(1, 3_000))
        more = stream.batch()
    assert (times(found), times(more)) == (wanted, [5] if start < 9 else [])


def test_only_what_comes_from_now_on(folder: Path, gusts: Collection) -> None:
    changed(gusts)
    with CollectionStreamByHand(folder, startingTime="latest") as stream:
        assert stream.batch() == stream.none()
        gusts.append(some_gusts(2))
        assert times(stream.batch()) == [5]


def test_a_batch_is_the_same_when_it_is_planned_again_after_merges(
    folder: Path, gusts: Collection
) -> None:
    changed(gusts)
    options = {"startingTime": 1, "maxRowsPerTrigger": 5}
    with CollectionStreamByHand(folder, **options) as stream:
        start, end = stream.offset, stream.end()
        before = sums(stream.rows(end))
    gusts.advance_since(0)
    with pytest.raises(SinceHeldError, match="holder=bookmark query"):
        gusts.advance_since(2)
    gusts.compact()
    gusts.collect()
    with CollectionStreamByHand(folder, **options) as again:
        assert sums(again.rows(end, start)) == before
        # Spark notes no start of the first batch: it asks where a query would begin.
        assert sums(again.rows(end, again.offset)) == before
    with CollectionStreamByHand(folder, startingTime="latest") as again:
        assert sums(again.rows(end, again.offset)) == before
        assert gusts.info().bookmarks[0].since == 0, "a start does not move it"
        again.offset = end
        rest = again.drain()
    assert times(pyarrow.concat_tables(rest)) == [2, 4]


def test_the_first_batch_is_all_rows_of_one_time_whenever_it_is_planned(
    folder: Path, gusts: Collection
) -> None:
    changed(gusts)
    with CollectionStreamByHand(folder) as stream:
        end = stream.end()
    gusts.append(some_gusts(10, 5_000))
    gusts.compact()
    with CollectionStreamByHand(folder, startingTime="latest") as again:
        assert rows_of(again.rows(end)) == rows_at(gusts, 4)
        again.offset = end
        assert times(again.batch()) == [5]


def test_what_was_done_is_let_go_and_what_was_not_stays(folder: Path, gusts: Collection) -> None:
    changed(gusts)
    with CollectionStreamByHand(folder, startingTime=0, maxRowsPerTrigger=500) as stream:
        (mark,) = gusts.info().bookmarks
        assert (mark.name, mark.since) == ("query", 0)
        stream.batch()
        stream.offset = stream.end()
        assert gusts.info().bookmarks[0].since == 0, "the batch was not done"
        stream.reader.commit(stream.offset)
        stream.reader.commit(stream.offset)
        assert gusts.info().bookmarks[0].since == 4
        assert len(gusts.info().readers) == 1, "it holds parts while it runs"
    assert gusts.info().readers == ()
    gusts.advance_since(4)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("limit", [{"maxRowsPerTrigger": 7}, {"maxBytesPerTrigger": 300}])
def test_limits_cut_between_times(
    folder: Path, gusts: Collection, merged: bool, limit: dict[str, int]
) -> None:
    chance = Random(7)
    for number in range(30):
        gusts.append(some_gusts(chance.randrange(1, 6), 10 * number))
    gusts.append(some_gusts(20, 1_000))
    if merged:
        gusts.compact()
    with CollectionStreamByHand(folder, startingTime=0, **limit) as stream:
        found = stream.drain()
    assert all(
        len(table) <= 7 or len(times(table)) == 1 for table in found if "maxRows" in str(limit)
    )
    assert len(found) > 10
    seen = [time for table in found for time in times(table)]
    assert seen == list(range(31)), "each time is in one batch"
    assert rows_of(*found) == rows_at(gusts)


def test_a_run_of_what_is_available_ends_where_it_began_to_read(
    folder: Path, gusts: Collection
) -> None:
    gusts.append(some_gusts(4))
    with CollectionStreamByHand(folder) as stream:
        stream.reader.prepareForTriggerAvailableNow()
        gusts.append(some_gusts(5, 100))
        assert rows_of(*stream.drain()) == rows_at(gusts, 0)
        stream.reader.prepareForTriggerAvailableNow()
        gusts.append(some_gusts(5, 200))
        assert times(pyarrow.concat_tables(stream.drain())) == [1]


def test_a_run_of_what_is_available_has_the_bookmark_where_its_checkpoint_is(
    folder: Path, collections: Collections, gusts: Collection
) -> None:
    """Spark tells first that the run ends with what there is, and later where it begins."""
    changed(gusts)
    with CollectionStreamByHand(folder, startingTime=0, maxRowsPerTrigger=500) as stream:
        stream.batch()
        gusts.bookmark("query").remove()
    with CollectionStreamByHand(folder, None, stream.offset) as again:
        again.reader.prepareForTriggerAvailableNow()
        assert gusts.info().bookmarks == ()
        end = again.end()
        assert gusts.info().bookmarks[0].since == 0
        assert times(again.rows(end)) == [1, 2, 4]
    collections.rename(NAME, "old")
    other = collections.create(NAME, GUSTS, key=["station"])
    other.append(some_gusts(1))
    mine = other.bookmark("query")
    with CollectionStreamByHand(folder, None, end) as foreign:
        foreign.reader.prepareForTriggerAvailableNow()
        with pytest.raises(CollectionNotFoundError, match="checkpoint is one of another"):
            foreign.end()
        mine.advance(mine.since)


def test_a_finished_collection_ends_a_stream(folder: Path, gusts: Collection) -> None:
    changed(gusts)
    gusts.finish()
    for start in ("snapshot", 0):
        with CollectionStreamByHand(folder, bookmark=f"of {start}", startingTime=start) as stream:
            assert rows_of(*stream.drain()) == rows_at(gusts)
            assert stream.offset["time"] == 2**64 - 1


def test_columns_are_those_that_were_chosen(folder: Path, gusts: Collection) -> None:
    changed(gusts)
    gusts.evolve(pyarrow.schema([*GUSTS, ("note", pyarrow.string())]))
    gusts.append([{"station": "røst", "gust": 1.5, "note": "a"}])
    chosen = StructType([StructField("_diff", LongType()), StructField("note", StringType())])
    for start in ("snapshot", 0):
        with CollectionStreamByHand(folder, chosen, bookmark=str(start), startingTime=start) as one:
            found = pyarrow.concat_tables(one.drain())
        assert found.column_names == ["_diff", "note"]
        assert found.filter(pyarrow.compute.is_valid(found["note"])).to_pylist() == [
            {"_diff": 1, "note": "a"}
        ]
    with CollectionStreamByHand(folder, columns="note,gust", startingTime=5) as stream:
        assert stream.batch().to_pylist() == [{"note": "a", "gust": 1.5, "_time": 5, "_diff": 1}]
    bare = StructType([StructField("_diff", LongType())])
    with CollectionStreamByHand(folder, bare, bookmark="bare") as stream:
        assert (
            sum(stream.batch()["_diff"].to_pylist())
            == multiset(gusts.snapshot().to_arrow()).total()
        )


def test_columns_that_are_added_end_a_stream_that_shows_all(
    folder: Path, gusts: Collection
) -> None:
    gusts.append(some_gusts(3))
    with (
        CollectionStreamByHand(folder) as stream,
        CollectionStreamByHand(folder, columns="gust", bookmark="other") as narrow,
    ):
        stream.batch()
        narrow.batch()
        gusts.evolve(pyarrow.schema([*GUSTS, ("note", pyarrow.string())]))
        gusts.append([{"station": "røst", "gust": 1.5, "note": "a"}])
        with pytest.raises(CollectionSchemaError, match="restart the query"):
            stream.end()
        assert narrow.batch()["gust"].to_pylist() == [1.5]
    with CollectionStreamByHand(folder, None, stream.offset) as again:
        assert again.batch()["note"].to_pylist() == ["a"]


def test_each_attempt_of_a_task_reads_the_same_rows(folder: Path, gusts: Collection) -> None:
    changed(gusts)
    with CollectionStreamByHand(folder, startingTime=0) as stream:
        end = stream.end()
        first = stream.rows(end)
        (task,) = stream.reader.partitions(stream.offset, end)
        gusts.compact()
        gusts.collect()
        again = [batch for _ in range(2) for batch in sent(stream.reader).read(sent(task))]
        assert sums(pyarrow.Table.from_batches(again)) == sums(first, first)
        assert stream.reader.partitions(end, end) == []


def test_tasks_that_cannot_reach_the_storage_fail_and_the_batch_can_be_repeated(
    folder: Path, gusts: Collection, tmp_path: Path
) -> None:
    changed(gusts)
    with CollectionStreamByHand(folder, startingTime=0) as stream:
        end = stream.end()
        (task,) = stream.reader.partitions(stream.offset, end)
        elsewhere = replace(stream.reader.__getstate__()["options"], store=str(tmp_path / "gone"))
        with pytest.raises(StoreNotFoundError, match="gone"):
            list(CollectionStreamReader(elsewhere, stream.schema).read(task))
        assert rows_of(stream.rows(end)) == rows_at(gusts)
        assert rows_of(*stream.drain()) == rows_at(gusts)


def test_the_last_start_of_a_query_has_the_bookmark(folder: Path, gusts: Collection) -> None:
    changed(gusts)
    with CollectionStreamByHand(folder, startingTime=0) as old:
        end = old.end()
        with CollectionStreamByHand(folder, startingTime=0) as new:
            for act in (old.end, lambda: old.rows(end), lambda: old.reader.commit(end)):
                with pytest.raises(BookmarkFencedError) as caught:
                    act()
                assert "needs a bookmark of its own" in caught.value.__notes__[0]
            assert rows_of(new.batch()) == rows_at(gusts)
            gusts.bookmark("query").remove()
            with pytest.raises(BookmarkFencedError, match="actual=none"):
                new.end()


def test_a_bookmark_that_was_removed_is_made_again_where_the_checkpoint_is(
    folder: Path, gusts: Collection
) -> None:
    changed(gusts)
    with CollectionStreamByHand(folder, startingTime=0, maxRowsPerTrigger=500) as stream:
        stream.batch()
        gusts.bookmark("query").remove()
    with CollectionStreamByHand(folder, None, stream.offset) as again:
        end = again.end()
        assert gusts.info().bookmarks[0].since == 0
        assert times(again.rows(end)) == [1, 2, 4]
    gusts.bookmark("query").remove()
    with CollectionStreamByHand(folder) as stream_of_all:
        gusts.bookmark("query").remove()
    with CollectionStreamByHand(folder, None, stream_of_all.offset) as again:
        end = again.end()
        assert gusts.info().bookmarks[0].since == 4
        assert rows_of(again.rows(end)) == rows_at(gusts)
    gusts.bookmark("query").remove()
    gusts.advance_since(2)
    with (
        CollectionStreamByHand(folder, None, stream.offset) as gone,
        pytest.raises(SinceError) as caught,
    ):
        gone.end()
    assert "startingTime=snapshot" in caught.value.__notes__[0]


def test_a_time_that_is_gone_is_told(folder: Path, gusts: Collection) -> None:
    changed(gusts)
    gusts.advance_since(3)
    with pytest.raises(SinceError, match=r"history is gone .*as_of=2 since=3") as caught:
        CollectionStreamByHand(folder, startingTime=3)
    assert "startingTime=snapshot" in caught.value.__notes__[0]
    assert gusts.info().bookmarks == ()
    with CollectionStreamByHand(folder, startingTime=4) as stream:
        assert times(stream.batch()) == [4]


def test_a_dropped_collection_and_another_one_of_its_name(
    folder: Path, collections: Collections, gusts: Collection
) -> None:
    changed(gusts)
    with CollectionStreamByHand(folder, startingTime=0) as stream:
        end = stream.end()
        collections.drop(NAME)
        for act in (stream.end, lambda: stream.rows(end), lambda: stream.reader.commit(end)):
            with pytest.raises(CollectionDroppedError):
                act()
        with pytest.raises(CollectionNotFoundError, match="no such collection"):
            CollectionStreamByHand(folder)
        collections.create(NAME, GUSTS, key=["station"]).append(some_gusts(1))
        with CollectionStreamByHand(folder, None, end) as again:
            with pytest.raises(CollectionNotFoundError, match="checkpoint is one of another"):
                again.end()
            assert collections.collection(NAME).info().bookmarks == (), "it was not touched"
    with CollectionStreamByHand(folder) as fresh, pytest.raises(CollectionNotFoundError):
        fresh.reader.latestOffset(end, fresh.reader.getDefaultReadLimit())


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"version": 2}, FormatError),
        ({"version": 1, "lineages": {}, "segments": {}}, CorruptDataError),
        ({"version": 1, "collection": "xy", "time": 0, "first": 0}, CorruptDataError),
        ({"version": 1, "collection": "00", "time": -1, "first": 0}, CorruptDataError),
        ({"version": 1, "collection": "00", "time": 0, "first": None}, CorruptDataError),
        ([], CorruptDataError),
    ],
)
def test_an_offset_that_is_none_is_refused(
    folder: Path, gusts: Collection, fields: dict[str, Any], kind: type[Exception]
) -> None:
    with CollectionStreamByHand(folder, None, fields) as stream, pytest.raises(kind):
        stream.end()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bookmark": ""}, "option 'bookmark' is missing"),
        ({"bookmark": "b" * 2_000}, "option 'bookmark': a name has 1 to"),
        ({"startingTime": "now"}, "'startingTime' is snapshot, latest, or a whole number.*'now'"),
        ({"startingTime": 2**63}, "option 'startingTime' is snapshot, latest"),
        ({"maxRowsPerTrigger": 0}, "option 'maxRowsPerTrigger' must be between 1"),
        ({"maxBytesPerTrigger": "much"}, "option 'maxBytesPerTrigger' is a whole number of bytes"),
        ({"asOf": 3}, "option 'asOf' is for batches; a stream has 'startingTime'"),
        ({"diffs": "true"}, "option 'diffs' is for batches"),
        ({"startingOffsets": "latest"}, "unknown option: 'startingoffsets'"),
        ({"columns": "speed"}, "no such column"),
    ],
)
def test_options_that_are_wrong_are_named(
    folder: Path, gusts: Collection, options: dict[str, object], message: str
) -> None:
    with pytest.raises((SettingsError, CollectionSchemaError), match=message):
        CollectionStreamByHand(folder, **options)


def test_options_of_streams_are_refused_in_batches_and_a_stream_needs_a_bookmark(
    folder: Path, gusts: Collection
) -> None:
    needed = {"store": str(folder), "collection": NAME}
    schema = StructType([StructField("gust", DoubleType())])
    with pytest.raises(SettingsError, match="maxBytesPerTrigger are for streams"):
        SegmentSource({**needed, "bookmark": "b"}).reader(schema)
    with pytest.raises(SettingsError, match="option 'bookmark' is missing"):
        SegmentSource(needed).streamReader(schema)
    wrong = CollectionStreamByHand.__new__(CollectionStreamByHand)
    wrong.reader = SegmentSource({**needed, "bookmark": "b"}).streamReader(schema)  # type: ignore[assignment]
    with wrong, pytest.raises(SettingsError, match="_diff always"):
        wrong.reader.initialOffset()
