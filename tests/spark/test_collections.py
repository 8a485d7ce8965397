"""Collections through Spark itself: what is read at each time, what is written, what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pytest
from py4j.protocol import Py4JError
from pyarrow import dataset, parquet
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceWriter
from pyspark.sql.types import StructType

import siltstone
from siltstone.collections.blocking import Collection, Collections, open_collections
from siltstone.core.errors import CollectionSchemaError, SettingsError
from siltstone.pipelines.compact_collection import compact_collection
from siltstone.spark import collection
from siltstone.spark.collection_options import parse_collection_write_options
from siltstone.spark.collection_types import from_spark
from siltstone.spark.collection_writer import CollectionSinkWriter, UploadedRows
from siltstone.spark.data_source import SegmentSource
from siltstone.spark.executor import SparkExecutor
from tests.support.spark.collection_world import (
    EACH_TYPE,
    GUSTS,
    each_value,
    multiset,
    some_gusts,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def read(spark: SparkSession, place: Path, name: str, /, **options: object) -> DataFrame:
    reader = spark.read.format("siltstone")
    for key, value in {"store": place, "collection": name, **options}.items():
        reader = reader.option(key, str(value))
    return reader.load()


def changed(gusts: Collection) -> None:
    """Three appends: uploaded rows, rows that come and go, and a column that was added."""
    gusts.append(some_gusts(2_000))
    gusts.append(some_gusts(3), remove=some_gusts(500, 700))
    gusts.evolve(pyarrow.schema([*GUSTS, ("note", pyarrow.string())]))
    gusts.append([{"station": "røst", "gust": float("nan"), "note": "a\0b"}] * 2)


def test_reads_at_each_time_equal_snapshots(
    spark: SparkSession, place: Path, gusts: Collection
) -> None:
    empty = read(spark, place, gusts.name)
    assert empty.collect() == []
    changed(gusts)
    for time in range(3):
        wanted = multiset(gusts.snapshot(time).to_arrow())
        assert multiset(read(spark, place, gusts.name, asOf=time).collect()) == wanted
    counted = read(spark, place, gusts.name, diffs="true", columns="note,station", asOf=2)
    wanted = multiset(gusts.snapshot(2, columns=["note", "station"], diffs=True).to_arrow())
    assert counted.columns == ["note", "station", "_diff"]
    assert multiset(counted.collect()) == wanted
    newest = read(spark, place, gusts.name)
    assert newest.where("gust < 1").count() == 7 + 3
    gusts.append(some_gusts(1))
    assert newest.where("gust < 1").count() == 7 + 3, "a frame shows one time"
    assert read(spark, place, gusts.name).where("gust < 1").count() == 7 + 4


def test_values_of_each_type_come_as_they_are(
    spark: SparkSession, place: Path, collections: Collections
) -> None:
    made = collections.create("each-type", EACH_TYPE, key=["k"])
    made.append(each_value())
    frame = read(spark, place, "each-type")
    back = [from_spark(batch, made.schema) for batch in frame.toArrow().to_batches()]
    assert multiset(pyarrow.concat_tables(back)) == multiset(each_value().select(made.schema.names))


def test_a_view_in_sql_shows_a_collection(
    spark: SparkSession, place: Path, gusts: Collection
) -> None:
    gusts.append(some_gusts(10))
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW gusts USING siltstone "
        f"OPTIONS (store '{place}', collection '{gusts.name}')"
    )
    assert spark.sql("SELECT max(station) AS last FROM gusts").collect()[0].last == "s000009"


def save(
    frame: DataFrame,
    place: Path,
    name: str,
    /,
    *,
    how: str = "append",
    source: str = "siltstone",
    **options: object,
) -> None:
    writer = frame.write.format(source).mode(how)
    for key, value in {"store": place, "collection": name, **options}.items():
        writer = writer.option(key, str(value))
    writer.save()


def frame_of(spark: SparkSession, count: int, first: int = 0) -> DataFrame:
    """The rows of ``some_gusts``, in three partitions."""
    return spark.range(first, first + count, 1, 3).selectExpr(
        "cast(id AS DOUBLE) / 7 AS gust", "'s' || lpad(id, 6, '0') AS station"
    )


def test_data_frames_are_appended_and_replace_what_was_there(
    spark: SparkSession, place: Path, gusts: Collection
) -> None:
    gusts.append(some_gusts(400))
    save(frame_of(spark, 300, 400), place, gusts.name)
    assert multiset(gusts.snapshot().to_arrow()) == multiset(some_gusts(700))
    assert gusts.info().upper == 2, "all tasks together are one append"
    for _ in range(2):
        save(frame_of(spark, 90), place, gusts.name, how="overwrite", writer="report", sequence=1)
        assert multiset(gusts.snapshot().to_arrow()) == multiset(some_gusts(90))
    assert gusts.info().upper == 3, "the second job with the sequence appended nothing"
    assert multiset(gusts.snapshot(1).to_arrow()) == multiset(some_gusts(700))


def test_values_of_each_type_go_as_they_are(
    spark: SparkSession, place: Path, collections: Collections
) -> None:
    made = collections.create("each-type-written", EACH_TYPE, key=["k"])
    source = collections.create("each-type-read", EACH_TYPE, key=["k"])
    source.append(each_value())
    save(read(spark, place, source.name), place, made.name)
    assert multiset(made.snapshot().to_arrow()) == multiset(source.snapshot().to_arrow())


class DyingWriter(CollectionSinkWriter):
    """The first attempt of a task dies when its work is done."""

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> UploadedRows:
        message = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 1 and context.attemptNumber() == 0:
            raise RuntimeError("died after its work")
        return message


class DyingSource(SegmentSource):
    @classmethod
    def name(cls) -> str:
        return "dying-collection"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = parse_collection_write_options(self.options, overwrite=overwrite)
        return DyingWriter(options, schema)


def test_an_attempt_that_dies_is_made_again_and_no_row_is_there_twice(
    spark: SparkSession, place: Path, gusts: Collection
) -> None:
    spark.dataSource.register(DyingSource)
    save(frame_of(spark, 300), place, gusts.name, source="dying-collection")
    assert multiset(gusts.snapshot().to_arrow()) == multiset(some_gusts(300))
    assert [gusts.sweep(), gusts.sweep()] == [1, 0]
    assert multiset(gusts.snapshot().to_arrow()) == multiset(some_gusts(300))


@pytest.mark.parametrize(
    ("columns", "how", "message"),
    [
        (["gust"], "append", "a column of the collection is missing.*'station'"),
        (["station", "cast(gust AS INT) AS gust"], "append", "cast it to DOUBLE.*'gust'"),
        (["station", "gust", "array(1) AS a"], "append", "to_json.*'a'"),
        (["station", "gust"], "ignore", "only append and overwrite|UNSUPPORTED_DATA_SOURCE_SAVE"),
    ],
)
def test_a_write_that_does_not_fit_is_refused_and_no_task_runs(
    spark: SparkSession, place: Path, gusts: Collection, columns: list[str], how: str, message: str
) -> None:
    never = frame_of(spark, 10).where("raise_error('a task ran') IS NULL")
    with pytest.raises(PySparkException, match=message):
        save(never.selectExpr(*columns), place, gusts.name, how=how)
    assert (gusts.info().upper, gusts.info().writers) == (0, ())


def test_a_table_of_the_catalog_is_refused(
    spark: SparkSession, place: Path, gusts: Collection
) -> None:
    writer = frame_of(spark, 10).write.format("siltstone").mode("append")
    writer = writer.option("store", str(place)).option("collection", gusts.name)
    with pytest.raises(PySparkException, match="cannot be tables of Spark's catalog"):
        writer.saveAsTable("gusts_table")
    assert gusts.info().upper == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"collection": "nowhere"}, "CollectionNotFoundError: no such collection"),
        ({"asOf": 1}, "SettingsError: option 'asOf' is 1, and that time is not complete yet"),
        ({"columns": "speed"}, "CollectionSchemaError: the collection has no such column"),
        ({"segment": "s"}, "SettingsError: options 'collection' and 'segment' exclude each other"),
        ({"fetch": "s"}, "SettingsError: unknown option: 'fetch'"),
    ],
)
def test_what_is_wrong_is_named(
    spark: SparkSession, place: Path, gusts: Collection, options: dict[str, object], message: str
) -> None:
    gusts.append(some_gusts(1))
    with pytest.raises(PySparkException, match=message):
        read(spark, place, gusts.name, **options).collect()


def test_a_native_frame_shows_the_rows_of_snapshots(
    spark: SparkSession, place: Path, gusts: Collection
) -> None:
    with collection(spark, place, gusts.name) as frame:
        assert frame.collect() == []
    changed(gusts)
    gusts.append([{"station": "oslo", "gust": gust} for gust in (-0.0, 0.0, -0.0)])
    gusts.append(
        [], remove=[{"station": "oslo", "gust": -0.0}, {"station": "s000001", "gust": 1 / 7}]
    )
    for time in (0, 1, 4):
        wanted = multiset(gusts.snapshot(time).to_arrow())
        with collection(spark, place, gusts.name, as_of=time) as frame:
            assert multiset(frame.collect()) == wanted
    wanted = multiset(gusts.snapshot(columns=["note", "gust"]).to_arrow())
    with collection(spark, place, gusts.name, columns=["note", "gust"]) as frame:
        assert frame.columns == ["note", "gust"]
        assert multiset(frame.collect()) == wanted


def test_a_native_frame_of_merged_rows_shows_each_at_its_time(
    spark: SparkSession, place: Path, gusts: Collection
) -> None:
    for first in (0, 0, 300):
        gusts.append(some_gusts(400, first))
    gusts.compact()
    (part,) = gusts.snapshot(1).files().files
    assert part.has_later
    for time in range(3):
        with collection(spark, place, gusts.name, as_of=time) as frame:
            assert multiset(frame.collect()) == multiset(gusts.snapshot(time).to_arrow())
    gusts.append([], remove=some_gusts(1))
    gusts.advance_since(3)
    gusts.compact()
    found = gusts.snapshot().files()
    assert ([file.has_counts for file in found.files], found.cancels) == ([True], False)
    with collection(spark, place, gusts.name) as frame:
        assert multiset(frame.collect()) == multiset(gusts.snapshot().to_arrow())


def test_a_native_frame_has_values_of_each_type(
    spark: SparkSession, place: Path, collections: Collections
) -> None:
    schema = pyarrow.schema([field for field in EACH_TYPE if field.name != "f16"])
    rows = each_value().select(schema.names)
    for name, appends in [
        ("native-file", [rows]),
        ("native-inline", [rows[n : n + 1] for n in range(8)]),
    ]:
        made = collections.create(name, schema, key=["k"])
        for table in appends:
            made.append(table)
        assert len(made.snapshot().files().files) == (name == "native-file")
        with collection(spark, place, name) as frame:
            back = [from_spark(batch, schema) for batch in frame.toArrow().to_batches()]
        assert multiset(pyarrow.concat_tables(back)) == multiset(pyarrow.concat_tables(appends))
        made.append([], remove=appends[0][:1])
        with collection(spark, place, name) as frame:
            back = [from_spark(batch, schema) for batch in frame.toArrow().to_batches()]
        assert multiset(pyarrow.concat_tables(back)) == multiset(
            made.snapshot().to_arrow().select(schema.names)
        )


def test_filters_and_columns_of_a_native_frame_reach_parquet(
    spark: SparkSession,
    place: Path,
    gusts: Collection,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gusts.append(some_gusts(2_000))
    with collection(spark, place, gusts.name) as frame:
        found = frame.where("station >= 's001990'").select("station")
        assert found.count() == 10
        capsys.readouterr()
        found.explain()
    plan = capsys.readouterr().out
    assert "PushedFilters: [IsNotNull(station), GreaterThanOrEqual(station,s001990)]" in plan
    assert "ReadSchema: struct<station:string>" in plan


def test_a_native_frame_holds_a_lease_in_its_block(
    spark: SparkSession, place: Path, gusts: Collection
) -> None:
    gusts.append(some_gusts(1_000))
    gusts.append(some_gusts(1_000, 1_000))
    with collection(spark, place, gusts.name) as frame:
        gusts.compact()
        gusts.collect()
        assert len(gusts.info().readers) == 1
        assert frame.count() == 2_000
    assert gusts.info().readers == ()


def test_a_native_frame_shows_no_flipped_bit(
    spark: SparkSession, place: Path, gusts: Collection
) -> None:
    gusts.append(some_gusts(2_000))
    (file,) = gusts.snapshot().files().files
    path = Path(file.uri.removeprefix("file://"))
    good = path.read_bytes()
    wanted = multiset(some_gusts(2_000))
    for where in range(200, len(good) - 2_000, 1_511):
        path.write_bytes(good[:where] + bytes([good[where] ^ 4]) + good[where + 1 :])
        with collection(spark, place, gusts.name) as frame:
            try:
                assert multiset(frame.collect()) == wanted
            except (PySparkException, Py4JError):
                continue
            pytest.fail(f"a flipped bit at {where} was not noticed")


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"as_of": 2}, SettingsError, "as_of is 2, and that time is not complete yet"),
        ({"columns": ["speed"]}, CollectionSchemaError, "no such column"),
        ({}, PySparkException, "NegativeCountError"),
    ],
)
def test_what_is_wrong_with_a_native_frame_is_named(
    spark: SparkSession,
    place: Path,
    gusts: Collection,
    given: dict[str, Any],
    kind: type[Exception],
    message: str,
) -> None:
    gusts.append([], remove=some_gusts(400))
    gusts.append(some_gusts(399))
    with (
        pytest.raises(kind, match=message),
        collection(spark, place, gusts.name, **given) as frame,
    ):
        frame.collect()


def test_a_native_frame_leaves_out_what_parquet_readers_of_spark_lack(
    spark: SparkSession, place: Path, collections: Collections
) -> None:
    columns = ["k", "half", "at", "text"]
    types = [pyarrow.int64(), pyarrow.float16(), pyarrow.timestamp("ns"), pyarrow.string()]
    schema = pyarrow.schema(list(zip(columns, types, strict=True)))
    made = collections.create("halves", schema, key=["k"])
    made.append(pyarrow.table({"k": range(400), "text": [f"{n:020}" for n in range(400)]}))
    made.append([], remove=[{"k": 7, "text": f"{7:020}"}])
    for shown, lack in [(["k", "half"], "halves"), (["k", "at"], "nanoseconds")]:
        with (
            pytest.raises(CollectionSchemaError, match=f"{lack}.*column="),
            collection(spark, place, "halves", columns=shown),
        ):
            pass
    with collection(spark, place, "halves", columns=["text", "k"]) as frame:
        assert frame.count() == 399


def test_tasks_of_spark_merge_ranges_of_keys_into_one_batch(
    spark: SparkSession, place: Path, gusts: Collection
) -> None:
    changed(gusts)
    gusts.append(some_gusts(3_000, 1_000))
    wanted = {time: multiset(gusts.snapshot(time).to_arrow()) for time in range(4)}
    executor = SparkExecutor(spark)
    *ranges, whole = compact_collection(place, gusts.name, executor, range_bytes=5_000)
    assert len(ranges) > 1
    assert {outcome.status for outcome in [*ranges, whole]} == {"ok"}
    assert gusts.info().batches == 1
    assert {time: multiset(gusts.snapshot(time).to_arrow()) for time in range(4)} == wanted


def test_a_path_with_odd_characters_is_no_pattern(spark: SparkSession, tmp_path: Path) -> None:
    odd = tmp_path / "a {b} [c] d*e? %20 é"
    siltstone.init(odd, containers=1)
    with open_collections(odd) as opened:
        opened.create("gusts", GUSTS, key=["station"]).append(some_gusts(400))
    with collection(spark, odd, "gusts") as frame:
        assert frame.count() == 400


def rows_scanned(frame: DataFrame) -> int:
    """How many rows the reader of files gave, in all that was asked of the frame."""
    (leaf,) = iterated(frame._jdf.queryExecution().executedPlan().collectLeaves())
    return int(leaf.metrics().apply("numOutputRows").value())


def iterated(found: Any) -> list[Any]:
    """What a sequence of Scala has."""
    return [found.apply(index) for index in range(found.size())]


def test_a_file_that_was_taken_as_it_is_comes_by_the_reader_of_spark_with_its_filter(
    spark: SparkSession,
    place: Path,
    collections: Collections,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    count = 400_000
    noise = numpy.random.default_rng(7).random(count)
    rows = pyarrow.table({"hour": range(count), "gust": noise, "calm": noise[::-1].copy()})
    groups = 8
    path = tmp_path / "hours.parquet"
    parquet.write_table(rows, path, row_group_size=count // groups, compression="snappy")
    told = collections.import_new("hours", siltstone.table_source(path), key=["hour"])
    assert told.taken == 1
    found = (dataset.field("hour") >= 390_000) & (dataset.field("gust") < 0.5)
    wanted = parquet.read_table(path, columns=["calm", "hour"], filters=found)
    with collection(spark, place, "hours") as frame:
        shown = frame.where("hour >= 390000 AND gust < 0.5").select("calm", "hour")
        assert multiset(shown.toArrow()) == multiset(wanted)
        assert rows_scanned(shown) == count // groups, "all row groups but one are passed over"
        assert frame.count() == count
        capsys.readouterr()
        shown.explain()
    plan = capsys.readouterr().out
    assert "GreaterThanOrEqual(hour,390000), LessThan(gust,0.5)]" in plan
    assert "ReadSchema: struct<hour:bigint,gust:double,calm:double>" in plan
