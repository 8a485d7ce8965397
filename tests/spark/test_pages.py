"""Code of docs/spark*.md: each block is run on stores in a folder of the test."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import siltstone
from siltstone.events import append_events
from tests.support.docs.pages import follow

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with the store that the pages call ``/data``."""
    siltstone.init(tmp_path / "data")
    with siltstone.open(tmp_path / "data") as store:
        store.create("flights/2013").append(b"carrier,delay\nUA,2\nAA,-1\n")
    return tmp_path


@pytest.fixture
def owned(here: Path) -> Iterator[siltstone.Store]:
    with siltstone.open(here / "data") as store:
        yield store


def read(here: Path, segment: str) -> bytes:
    with siltstone.open(here / "data", read_only=True) as store:
        return store.segment(segment).read(0, 1_000)


def test_reading(spark: SparkSession, here: Path) -> None:
    with siltstone.open(here / "data") as store:
        append_events(store.create("bookings"), [b"one", b"two"])
    reader = spark.read.format("siltstone").option("store", str(here / "data"))
    found = follow(here, "spark.md", reader=reader.option("segment", "bookings"))
    assert found["lines"].count() == 3
    assert [row.value for row in found["events"].collect()] == ["one", "two"]


@pytest.mark.usefixtures("silt")
def test_segments_as_files(spark: SparkSession, here: Path, owned: siltstone.Store) -> None:
    table = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), table)
    owned.create("tables/2013/a.parquet").append(table.getvalue())
    owned.create("logs/a").append(b"line\n")
    owned.flush()
    assert follow(here, "spark-files.md", store=owned)["spark"] is spark


def test_writing(spark: SparkSession, here: Path) -> None:
    arriving = here / "arriving"
    arriving.mkdir()
    (arriving / "a.txt").write_text("live\n")
    given = {"flights": spark.range(1), "lines": spark.readStream.text(str(arriving))}
    query = follow(here, "spark-writing.md", **given)["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert read(here, "flights/2013").endswith(b'\n{"id":0}\n')
    assert read(here, "flights/live") == b"live\n"


def test_streams(spark: SparkSession, here: Path) -> None:
    others = {query.id for query in spark.streams.active}
    follow(here, "spark-streams.md", spark=spark)
    (query,) = (query for query in spark.streams.active if query.id not in others)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    rows = spark.read.parquet(str(here / "data" / "out")).collect()
    assert sorted(row.value for row in rows) == ["AA,-1", "UA,2", "carrier,delay"]


def test_collections(spark: SparkSession, here: Path) -> None:
    schema = pyarrow.schema([("station", pyarrow.string()), ("gust", pyarrow.float64())])
    with siltstone.open_collections(here / "data") as collections:
        gusts = collections.create("gusts", schema, key=["station"])
        gusts.append([{"station": "oslo", "gust": 1.5}])
        frame = spark.sql("SELECT 'bergen' AS station, 2.5D AS gust")
        folder = here / "arriving"
        folder.mkdir()
        (folder / "1.json").write_text('{"station": "turku", "gust": 3.5}', encoding="utf-8")
        arriving = spark.readStream.schema("station STRING, gust DOUBLE").json(str(folder))
        found = follow(here, "spark-collections.md", frame=frame, arriving=arriving)
        assert found["spark"] is spark
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()
        rows = gusts.snapshot().to_arrow().to_pylist()
        assert sorted(row["station"] for row in rows) == ["bergen", "oslo", "turku"]
