"""Rows of events and of bytes, of several segments at once, with their places; and SQL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import siltstone
from siltstone import events
from siltstone.events import append_events
from tests.spark.conftest import Load

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PAYLOADS = [b"%d" % number * (number % 30) for number in range(200)]


def written(segment: siltstone.Segment, payloads: list[bytes]) -> None:
    """Append events, some at a time; the last ones are only in tier 1."""
    for begin in range(0, len(payloads), 20):
        append_events(segment, payloads[begin : begin + 20])
        if begin < len(payloads) - 40:
            segment.flush()


def test_events_are_rows(segment: siltstone.Segment, load: Load) -> None:
    written(segment, PAYLOADS)
    wanted = [(event.offset, event.payload) for event in events.read_events(segment)]
    assert [payload for _, payload in wanted] == PAYLOADS
    frame = load(mode="events", columns="offset,value", range_bytes=700)
    assert frame.rdd.getNumPartitions() > 2
    assert [(row.offset, bytes(row.value)) for row in frame.collect()] == wanted
    assert load(mode="events", split="none", range_bytes=700).rdd.getNumPartitions() == 1


def test_events_are_strings_where_the_schema_says_so(
    spark: SparkSession, folder: Path, segment: siltstone.Segment, load: Load
) -> None:
    """Also in SQL. As with lines, that they are UTF-8 is not checked: the bytes are the same."""
    payloads = [b'{"carrier": "UA"}', "žluťoučký".encode(), b"", b"\xff\xfe is no text"]
    append_events(segment, payloads)
    frame = load(mode="events", schema="value STRING", badRecords="skip")
    assert frame.dtypes == [("value", "string")]
    found = frame.selectExpr("cast(value AS BINARY) AS raw").collect()
    assert [bytes(row.raw) for row in found] == payloads
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW bookings (value STRING) USING siltstone "
        f"OPTIONS (store '{folder}', segment '{segment.name}', mode 'events')"
    )
    try:
        query = "SELECT get_json_object(value, '$.carrier') AS carrier FROM bookings LIMIT 1"
        assert [row.carrier for row in spark.sql(query).collect()] == ["UA"]
    finally:
        spark.catalog.dropTempView("bookings")


def test_malformed_events(segment: siltstone.Segment, load: Load) -> None:
    written(segment, PAYLOADS[:40])
    place = segment.append(b"no event at all")
    written(segment, PAYLOADS[40:60])
    with pytest.raises(PySparkException) as caught:
        load(mode="events").count()
    assert f"no event begins here where=segment {segment.name} offset={place}" in str(caught.value)
    rows = load(mode="events", badRecords="column").collect()
    (bad,) = [row for row in rows if row.error is not None]
    assert bad.value is None
    assert f"offset {place}, 15 bytes passed over" in bad.error
    assert len(rows) == 61


def test_bytes_are_rows_of_one_size(segment: siltstone.Segment, load: Load) -> None:
    data = bytes(range(256)) * 5
    segment.append(data[:700])
    segment.flush()
    segment.append(data[700:])
    frame = load(mode="bytes", block_bytes=100, columns="offset,value", range_bytes=300)
    assert [(row.offset, bytes(row.value)) for row in frame.collect()] == [
        (at, data[at : at + 100]) for at in range(0, len(data), 100)
    ]


def test_several_segments_share_tasks(
    spark: SparkSession, store: siltstone.Store, folder: Path, segment: siltstone.Segment
) -> None:
    names = [f"{segment.name}/{number:02}" for number in range(30)]
    for number, name in enumerate(names):
        made = store.create(name)
        made.append(b"%d\nlast" % number)
        if number % 2:
            made.flush()
    reader = spark.read.format("siltstone").option("store", str(folder))
    frame = reader.option("prefix", f"{segment.name}/").option("columns", "segment,value").load()
    assert frame.rdd.getNumPartitions() == 1
    assert [tuple(row) for row in frame.collect()] == [
        (name, value) for number, name in enumerate(names) for value in (str(number), "last")
    ]
    chosen = [names[3], names[1]]
    offsets = json.dumps({names[3]: 1})
    reader = spark.read.format("siltstone").option("store", str(folder))
    frame = reader.options(segments=json.dumps(chosen), at_length=offsets).load(
        schema="value STRING"
    )
    assert [row.value for row in frame.collect()] == ["3", "1", "last"]


def test_a_view_in_sql(spark: SparkSession, folder: Path, segment: siltstone.Segment) -> None:
    segment.append(b"UA 1\nAA 2\nUA 3\n")
    name = segment.name.replace("'", "")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW flights USING siltstone "
        f"OPTIONS (store '{folder}', segment '{name}', columns 'offset,value')"
    )
    try:
        found = spark.sql("SELECT offset FROM flights WHERE value LIKE 'UA%' ORDER BY offset")
        assert [row.offset for row in found.collect()] == [0, 10]
    finally:
        spark.catalog.dropTempView("flights")


def test_tasks_outlive_rewrites_of_their_chunks(store: siltstone.Store, load: Load) -> None:
    """Planned, then everything moves: a concat, and bytes from tier 1 are flushed."""
    segment, source = store.create("{moves}target"), store.create("{moves}source")
    written(segment, PAYLOADS)
    frame = load(segment=segment.name, mode="events", range_bytes=1000)
    count = frame.rdd.getNumPartitions()
    append_events(source, [b"later"])
    source.seal()
    segment.concat(source)
    segment.seal()
    store.flush()
    assert count > 1
    assert [bytes(row.value) for row in frame.collect()] == PAYLOADS
    assert load(segment=segment.name, mode="events").count() == len(PAYLOADS) + 1


def test_a_schema_chooses_columns_and_their_order(segment: siltstone.Segment, load: Load) -> None:
    segment.append(b"ab\nc\n")
    frame = load(schema="offset BIGINT NOT NULL, value BINARY", range_bytes=2)
    assert [tuple(row) for row in frame.collect()] == [(0, b"ab"), (3, b"c")]
