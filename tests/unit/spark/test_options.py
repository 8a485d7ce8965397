"""Options of a read, and the schemas that it can obey."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from siltstone.core.errors import SettingsError
from siltstone.spark.data_source import arrow_schema
from siltstone.spark.options import ReadOptions, parse_options

NEEDED = {"store": "/data/store", "segment": "flights/2013"}


def test_what_is_needed() -> None:
    assert parse_options(NEEDED) == ReadOptions(store="/data/store", segment="flights/2013")


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
    assert (found.start, found.stop) == (0, 12)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"store": None}, "option 'store' is missing"),
        ({"store": ""}, "option 'store' is missing"),
        ({"segment": None}, "option 'segment' is missing"),
        ({"segment": "_system/tables"}, "option 'segment': name is reserved"),
        ({"segments": "x"}, "unknown option: 'segments'; known are store, segment, range_bytes"),
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


@pytest.mark.parametrize("nullable", [True, False])
def test_a_schema_may_choose_between_text_and_bytes(*, nullable: bool) -> None:
    for kind, arrow in ((StringType(), pyarrow.string()), (BinaryType(), pyarrow.binary())):
        found = arrow_schema(StructType([StructField("value", kind, nullable)]))
        assert found == pyarrow.schema([pyarrow.field("value", arrow, nullable=nullable)])


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [StructField("line", StringType())],
        [StructField("value", LongType())],
        [StructField("value", StringType("UNICODE_CI"))],
        [StructField("value", StringType()), StructField("offset", LongType())],
    ],
)
def test_any_other_schema_is_refused(fields: list[StructField]) -> None:
    with pytest.raises(SettingsError, match="a segment has one column, 'value STRING' or"):
        arrow_schema(StructType(fields))
