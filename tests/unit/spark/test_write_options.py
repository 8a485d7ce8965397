"""Options of a write: checked in the driver, before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from siltstone.container.models.imports import ImportMode
from siltstone.core.errors import SettingsError
from siltstone.spark.options import Mode
from siltstone.spark.sink import check_columns
from siltstone.spark.write_options import Outputs, parse_write_options

LEAST = {"store": "/s", "segment": "a"}


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def test_what_is_not_said_has_a_default() -> None:
    options = parse_write_options({"STORE": "s", "Segment": "a"}, overwrite=False)
    assert options.store == str(Path("s").absolute())
    assert (options.mode, options.outputs, options.import_mode) == (
        Mode.LINES,
        Outputs.ONE,
        ImportMode.APPEND,
    )
    options = parse_write_options(
        {**LEAST, "mode": "EVENTS", "key": "k", "checkpointLocation": "/c"}, overwrite=True
    )
    assert (options.mode, options.outputs, options.key) == (Mode.EVENTS, Outputs.KEY, "k")
    assert options.import_mode is ImportMode.REPLACE


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"segment": "a"}, "option 'store' is missing"),
        ({"store": "/s"}, "option 'segment' is missing"),
        ({**LEAST, "segments": "x"}, "unknown option: 'segments'; known for writing are store"),
        ({**LEAST, "path": "x"}, "say .option\\('store', path\\)"),
        ({**LEAST, "mode": "csv"}, "option 'mode' is one of lines, events, bytes, not 'csv'"),
        ({**LEAST, "outputs": "all"}, "option 'outputs' is one of one, partition, key"),
        ({**LEAST, "outputs": "key"}, "option 'key' names a column"),
        ({**LEAST, "outputs": "one", "key": "k"}, "goes with outputs=key alone"),
        ({**LEAST, "segment": "_system/x"}, "option 'segment': name is reserved"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse_write_options(given, overwrite=False)


@pytest.mark.parametrize(
    ("schema", "key", "message"),
    [
        (struct(value=LongType()), "", "column 'value' is STRING or BINARY, not bigint"),
        (struct(text=StringType()), "", "a write takes the columns value, not struct<text:string>"),
        (struct(value=StringType(), k=IntegerType()), "", "a write takes the columns value"),
        (struct(value=StringType()), "k", "a write takes the columns value, k"),
        (struct(value=StringType()), "value", "a write takes the columns value, value"),
    ],
)
def test_other_columns_are_refused(schema: StructType, key: str, message: str) -> None:
    options = parse_write_options({**LEAST, **({"key": key} if key else {})}, overwrite=False)
    with pytest.raises(SettingsError, match=message):
        check_columns(options, schema)


def test_a_key_column_may_have_any_type() -> None:
    options = parse_write_options({**LEAST, "key": "k"}, overwrite=False)
    check_columns(options, struct(value=BinaryType(), k=DateType()))
    check_columns(options, struct(k=IntegerType(), value=StringType()))
