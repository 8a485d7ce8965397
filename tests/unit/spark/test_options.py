"""Options of a read, and the schemas that it can obey."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from siltstone.core.errors import SettingsError
from siltstone.spark.columns import arrow_schema, default_schema
from siltstone.spark.options import ANY, BadRecords, Mode, ReadOptions, Split, parse_options

NEEDED = {"store": "/data/store", "segment": "flights/2013"}


def test_what_is_needed() -> None:
    assert parse_options(NEEDED) == ReadOptions(store="/data/store", segments=("flights/2013",))


def test_names_are_compared_without_case() -> None:
    assert parse_options({**NEEDED, "Range_Bytes": "5"}).range_bytes == 5


def test_a_relative_store_is_made_absolute_in_the_driver() -> None:
    found = parse_options({**NEEDED, "store": "somewhere"})
    assert found.store == str(Path.cwd() / "somewhere")


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("64MiB", 64 << 20), ("2 kib", 2048), ("1GIB", 1 << 30)]
)
def test_sizes(text: str, value: int) -> None:
    assert parse_options({**NEEDED, "range_bytes": text}).range_bytes == value


def test_offsets() -> None:
    found = parse_options({**NEEDED, "from": "0", "to": "12"})
    assert (found.start, found.stop) == ({ANY: 0}, {ANY: 12})


def test_several_segments() -> None:
    given = {"store": "/s", "segments": '["a", "b,c"]', "from": '{"a": 3}'}
    found = parse_options(given)
    assert (found.segments, found.start) == (("a", "b,c"), {"a": 3})
    found = parse_options({"store": "/s", "prefix": "a/", "at_length": '{"a/b": 3}'})
    assert (found.segments, found.prefix, found.at_length) == ((), "a/", {"a/b": 3})
    assert parse_options({"store": "/s", "prefix": ""}).segments == ()


def test_modes() -> None:
    found = parse_options({**NEEDED, "mode": "Events", "badRecords": "skip", "split": "none"})
    assert (found.mode, found.bad_records, found.split) == (
        Mode.EVENTS,
        BadRecords.SKIP,
        Split.NONE,
    )
    assert parse_options({**NEEDED, "mode": "bytes", "block_bytes": "64KiB"}).block_bytes == 65_536


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"store": None}, "option 'store' is missing"),
        ({"store": ""}, "option 'store' is missing"),
        ({"segment": None}, "'segment', 'segments', 'prefix' is needed and is missing"),
        ({"segment": ""}, "'segment', 'segments', 'prefix' is needed"),
        ({"prefix": "x"}, "is needed, not 'segment' and 'prefix'"),
        ({"segment": "_system/tables"}, "option 'segment': name is reserved"),
        ({"segment": None, "segments": "x"}, "option 'segments' is a list of names in JSON"),
        ({"segment": None, "segments": "[]"}, "option 'segments' is a list of names in JSON"),
        ({"segment": None, "segments": "[1]"}, "option 'segments': a segment name is a str"),
        ({"segment": None, "segments": '["a", "a"]'}, "names a segment twice"),
        ({"segment": None, "prefix": "x", "from": "1"}, "option 'from' is an object in JSON"),
        ({"from": '{"x": 1}'}, "option 'from' names 'x', which is not read"),
        ({"from": '{"": 1}'}, "option 'from' names '', which is not read"),
        ({"from": '{"x": -1}'}, "option 'from' is an object in JSON"),
        ({"to": '{"x": true}'}, "option 'to' is an object in JSON"),
        ({"to": "{"}, "option 'to' is offsets by segment name, an object in JSON: "),
        ({"mode": "text"}, "option 'mode' is one of lines, events, bytes, not 'text'"),
        ({"badRecords": "drop"}, "option 'badRecords' is one of fail, skip, column"),
        ({"badRecords": "skip"}, "option 'badRecords' is for mode 'events'"),
        ({"split": "yes"}, "option 'split' is one of auto, none"),
        ({"block_bytes": "1"}, "option 'block_bytes' is for mode 'bytes', not 'lines'"),
        ({"mode": "bytes", "block_bytes": "1GiB"}, "'block_bytes' must be between 1 and 268435456"),
        ({"startingOffsets": "latest"}, "unknown option: 'startingoffsets'; known are store"),
        ({"path": "/x"}, r"unknown option: 'path'.*say \.option\('store', path\)"),
        ({"range_bytes": "0"}, "'range_bytes' must be between 1 and 1073741824 bytes, not 0"),
        ({"range_bytes": "2GiB"}, "'range_bytes' must be between 1 and 1073741824 bytes"),
        ({"range_bytes": "many"}, "'range_bytes' is a whole number of bytes"),
        ({"range_bytes": "1.5MiB"}, "'range_bytes' is a whole number of bytes"),
        ({"from": "-1"}, "'from' is a whole number of bytes"),
        ({"to": "18446744073709551616"}, "'to' must be between 0 and 18446744073709551615"),
        ({"from": "5", "to": "4"}, "'to' is 4, which lies below 'from' 5"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str | None], message: str) -> None:
    merged = {**NEEDED, **given}
    with pytest.raises(SettingsError, match=message):
        parse_options({name: value for name, value in merged.items() if value is not None})


def read(**others: str) -> ReadOptions:
    return parse_options({**NEEDED, **others})


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("mode", ["lines", "events"])
def test_a_schema_may_choose_between_text_and_bytes(mode: str, *, nullable: bool) -> None:
    for kind, arrow in ((StringType(), pyarrow.string()), (BinaryType(), pyarrow.binary())):
        found = arrow_schema(read(mode=mode), StructType([StructField("value", kind, nullable)]))
        assert found == pyarrow.schema([pyarrow.field("value", arrow, nullable=nullable)])


def names_and_types(options: ReadOptions) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in default_schema(options)]


def test_columns_without_a_schema() -> None:
    assert names_and_types(read()) == [("value", "string")]
    assert names_and_types(read(mode="events")) == [("value", "binary")]
    assert names_and_types(read(mode="bytes", columns="offset,value")) == [
        ("offset", "bigint"),
        ("value", "binary"),
    ]
    assert names_and_types(read(columns="segment, offset")) == [
        ("segment", "string"),
        ("offset", "bigint"),
    ]
    tolerant = read(mode="events", badRecords="column")
    assert names_and_types(tolerant) == [("value", "binary"), ("error", "string")]
    assert arrow_schema(tolerant, default_schema(tolerant)).names == ["value", "error"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"columns": "value,line"}, "no column 'line' in mode 'lines'; there are value, segment,"),
        ({"columns": "append_index"}, "appends are joined when they are stored, so no number"),
        ({"columns": "value,value"}, "names a column twice"),
        ({"columns": "error"}, "there is no column 'error' in mode 'lines'"),
        (
            {"mode": "events", "badRecords": "column", "columns": "value"},
            "needs the column 'error'",
        ),
    ],
)
def test_columns_that_there_are_not(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        default_schema(read(**given))


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [StructField("line", StringType())],
        [StructField("value", LongType())],
        [StructField("value", StringType("UNICODE_CI"))],
        [StructField("value", StringType()), StructField("offset", StringType())],
        [StructField("value", StringType()), StructField("value", StringType())],
        [StructField("value", StringType()), StructField("error", StringType())],
    ],
)
def test_any_other_schema_is_refused(fields: list[StructField]) -> None:
    message = (
        "in mode 'lines' a segment has the columns 'value STRING' or 'value BINARY'; "
        "'segment STRING'; 'offset BIGINT', not struct<"
    )
    with pytest.raises(SettingsError, match=message):
        arrow_schema(read(), StructType(fields))


def test_a_schema_has_to_agree_with_the_options() -> None:
    value, error = StructField("value", BinaryType()), StructField("error", StringType())
    with pytest.raises(SettingsError, match="option 'columns' says offset, the schema value"):
        arrow_schema(read(columns="offset"), StructType([value]))
    tolerant = read(mode="events", badRecords="column")
    with pytest.raises(SettingsError, match="needs the column 'error STRING' in the schema"):
        arrow_schema(tolerant, StructType([value]))
    for wrong in (
        [StructField("value", BinaryType(), False), error],
        [value, StructField("error", StringType(), False)],
    ):
        with pytest.raises(SettingsError, match="may be null"):
            arrow_schema(tolerant, StructType(wrong))
