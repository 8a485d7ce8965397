"""Spark's own readers over ``silt://`` give what plain Python reads from the same bytes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import siltstone
from siltstone.spark import files
from siltstone.store.blocking.segment import Segment
from tests.spark.conftest import CHUNK_BYTES, Sizes
from tests.support.spark.layouts import expected_lines

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("silt"),
]

LINE = b"x" * (CHUNK_BYTES - 1) + b"\n"

TEXTS = {
    "at borders": LINE * 4,
    "a byte before": LINE[1:] * 5,
    "a byte after": (b"x" + LINE) * 5,
    "carriage returns": b"a\r\nbc\r\n\r\n" * 30,
    "empty lines": b"\n" * 150,
    "no newline at the end": b"abc\n" * 40 + b"de",
    "no newline at all": b"abc" * 50,
    "many bytes a character": "žluťoučký kůň 🐎\n".encode() * 20,
    "a giant line": b"a\n" + b"x" * 3_000 + b"\nb\n",
    "nothing": b"",
}


def fill(segment: Segment, data: bytes) -> Segment:
    """Append and flush; chunks end wherever they are full."""
    if data:
        segment.append(data)
    segment.flush()
    return segment


def spark_lines(data: bytes) -> list[str]:
    """The lines as Spark's text source cuts them: a carriage return ends a line as well."""
    return [line.decode().removesuffix("\r") for line in expected_lines(data)]


@pytest.mark.parametrize("verify", [True, False], ids=["verified", "plain"])
def test_lines_of_any_layout_and_split(
    spark: SparkSession, store: siltstone.Store, sizes: Sizes, verify: bool
) -> None:
    """One load of all layouts, in ranges that cut chunks and characters, against plain Python."""
    prefix = f"layouts-{verify}/"
    for name, data in TEXTS.items():
        fill(store.create(prefix + name), data)
    names = [prefix + name for name in TEXTS]
    paths = dict(zip(sorted(names), files(spark, store, names, verify=verify), strict=True))
    for size in (251,) if verify else (61, 1 << 20):
        sizes(size)
        frame = spark.read.text(list(paths.values())).selectExpr("value", "_metadata.file_path f")
        found: dict[str, list[str]] = {path: [] for path in paths.values()}
        for row in frame.collect():
            found[row.f].append(row.value)
        for name, path in paths.items():
            wanted = spark_lines(TEXTS[name.removeprefix(prefix)])
            assert sorted(found[path]) == sorted(wanted), (name, size)


def test_a_whole_segment_is_one_binary_file(
    spark: SparkSession, store: siltstone.Store, segment: Segment
) -> None:
    data = bytes(range(256)) * 20
    fill(segment, data)
    (path,) = files(spark, store, segment.name)
    (row,) = spark.read.format("binaryFile").load(path).collect()
    assert bytes(row.content) == data
    assert (row.path, row.length) == (path, len(data))
    assert spark.sparkContext.binaryFiles(path).map(lambda pair: len(pair[1])).collect() == [
        len(data)
    ]


def test_parquet_csv_and_json_that_were_appended_come_back(
    spark: SparkSession, sizes: Sizes, tmp_path: Path
) -> None:
    settings = siltstone.init(tmp_path)
    with settings.open("a", encoding="utf-8") as file:
        file.write("\nsegments:\n  chunk_size: 10KiB\n")
    count = 4_000
    table = pyarrow.table(
        {
            "number": pyarrow.array(range(count), pyarrow.int64()),
            "text": pyarrow.array([f"řádek {n % 97}" for n in range(count)]),
            "share": pyarrow.array([n / 7 for n in range(count)]),
        }
    )
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer, row_group_size=500, data_page_size=512)
    rows = table.to_pylist()
    csv = "number,text,share\n" + "".join(
        f'{row["number"]},"{row["text"]}",{row["share"]!r}\n' for row in rows
    )
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    written = {"parquet": buffer.getvalue(), "csv": csv.encode(), "json": lines.encode()}
    with siltstone.open(tmp_path) as store:
        for kind, data in written.items():
            segment = store.create(kind)
            for begin in range(0, len(data), 7_777):
                segment.append(data[begin : begin + 7_777])
        store.flush()
    schema = "number BIGINT, text STRING, share DOUBLE"
    wanted = [tuple(row.values()) for row in rows]
    sizes(50_000)
    for kind in written:
        (path,) = files(spark, tmp_path, kind)
        found = spark.read.schema(schema).option("header", "true").format(kind).load(path)
        assert sorted(map(tuple, found.collect())) == wanted, kind
    few = spark.read.parquet(*files(spark, tmp_path, "parquet", verify=False))
    few = few.where("number BETWEEN 1234 AND 1240").selectExpr("sum(number)", "max(text)")
    assert few.collect() == [(sum(range(1_234, 1_241)), "řádek 76")]


def test_folders_and_patterns_over_names(
    spark: SparkSession, store: siltstone.Store, folder: Path
) -> None:
    names = ["tree/a", "tree/a/1", "tree/a/2", "tree/b/1", "tree/_c/.d", "tree/x y{*}"]
    for name in names:
        fill(store.create(name), name.encode())
    paths = files(spark, folder, "tree/", match="prefix")
    assert [row.value for row in spark.read.text(paths).orderBy("value").collect()] == sorted(names)
    root = paths[0][: paths[0].index(".silt") + len(".silt")]

    def read(path: str) -> list[str]:
        return sorted(row.value for row in spark.read.text(f"{root}/{path}").collect())

    assert read("tree/a") == ["tree/a/1", "tree/a/2"]
    assert read("tree/*/1") == ["tree/a/1", "tree/b/1"]
    assert read("tree/{a,b}/*") == ["tree/a/1", "tree/a/2", "tree/b/1"]
    (only,) = files(spark, folder, "tree/?/2", match="glob")
    assert only.endswith(".silt/tree/a/2")


def test_files_hold_all_that_was_acknowledged_unless_less_was_asked_for(
    spark: SparkSession, store: siltstone.Store, folder: Path, segment: Segment
) -> None:
    fill(segment, b"a\n")
    segment.append(b"b\nc\n")
    with pytest.raises(siltstone.NotFlushedError, match="flushed_only=True"):
        files(spark, folder, segment.name)
    for place in (folder, store):
        few = files(spark, place, segment.name, flushed_only=True)
        assert spark.read.text(few).count() == 1
    assert spark.read.text(files(spark, folder, segment.name, at=2)).count() == 1
    assert spark.read.text(files(spark, store, segment.name)).count() == 3
    assert spark.read.text(files(spark, folder, segment.name)).count() == 3


def test_a_frame_shows_one_length_next_to_a_writer(
    spark: SparkSession, store: siltstone.Store, segment: Segment
) -> None:
    fill(segment, b"a\nb\n")
    frame = spark.read.text(files(spark, store, segment.name))
    assert frame.count() == 2
    fill(segment, b"c\n" * 100)
    assert frame.count() == 2
    assert spark.read.text(files(spark, store, segment.name)).count() == 102
