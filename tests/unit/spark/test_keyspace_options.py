"""Options of a read of a keyspace."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from siltstone.core.constants import MIB
from siltstone.core.errors import SettingsError
from siltstone.objects import UnsupportedError
from siltstone.spark.data_source import SegmentSource
from siltstone.spark.keyspace_options import Fold, KeyspaceReadOptions, parse_keyspace_options

NEEDED = {"store": "/data/store", "keyspace": "photos"}
INDEX = {"fold": "index", "bucket": "b", "field": "city"}


def test_what_is_needed() -> None:
    found = parse_keyspace_options(NEEDED)
    assert found == KeyspaceReadOptions(store="/data/store", keyspace="photos")
    assert parse_keyspace_options({**NEEDED, "store": "here"}).store == str(Path.cwd() / "here")


def test_all_options_and_their_names_without_case() -> None:
    objects = {"FOLD": "Objects", "Bucket": "b", "START": "k", "end": "", "tag": "log"}
    more = {"since": "7.5", "Until": "8", "Range_Bytes": "1MiB", "TTL": "2h", "columns": "key, sqn"}
    assert parse_keyspace_options({**NEEDED, **objects, **more}) == KeyspaceReadOptions(
        store="/data/store",
        keyspace="photos",
        fold=Fold.OBJECTS,
        columns=("key", "sqn"),
        tag="log",
        bucket="b",
        start="k",
        end="",
        since=7.5,
        until=8.0,
        range_bytes=MIB,
        ttl_s=7_200.0,
    )
    found = parse_keyspace_options({**NEEDED, **INDEX, "pattern": "^o"})
    assert (found.fold, found.field, found.pattern) == (Fold.INDEX, "city", "^o")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"store": None}, "option 'store' is missing"),
        ({"keyspace": ""}, "option 'keyspace' is missing"),
        ({"keyspace": "a/b"}, "option 'keyspace': a keyspace's name is printable"),
        ({"collection": "c"}, "'keyspace' and 'collection' exclude each other"),
        ({"segment": "s"}, "'keyspace' and 'segment' exclude each other"),
        ({"fold": "keys"}, "option 'fold' is one of heads, objects, index, not 'keys'"),
        ({"from": "3"}, "unknown option: 'from'; known for the heads of a keyspace are store"),
        ({"path": "x"}, "load.. takes no path: say .option"),
        ({"bucket": ""}, "option 'bucket': a name has 1 to 8192 bytes"),
        ({"start": "k"}, "option 'start' is a key of a bucket, so it needs 'bucket'"),
        ({"end": "k"}, "option 'end' is a key of a bucket, so it needs 'bucket'"),
        ({"bucket": "b", "end": "k" * 9_000}, "option 'end': a name has 0 to 8192 bytes"),
        ({"since": "yesterday"}, "option 'since' is seconds since 1970"),
        ({"until": "-1"}, "option 'until' is seconds since 1970"),
        ({"field": "city"}, "option 'field' is for fold 'index', not 'heads'"),
        ({"ttl": "1h"}, "option 'ttl' is for fold 'objects', not 'heads'"),
        ({**INDEX, "since": "1"}, "option 'since' is for fold 'heads' or 'objects', not 'index'"),
        ({**INDEX, "bucket": None}, "option 'bucket' is missing: an index has one"),
        ({**INDEX, "field": None}, "option 'field' is missing: an index has one"),
        ({**INDEX, "field": "f" * 256}, "option 'field': a name has 1 to 255 bytes"),
        ({**INDEX, "pattern": "("}, "option 'pattern': missing"),
        ({"fold": "objects", "ttl": "soon"}, "option 'ttl': not a time"),
        ({"fold": "objects", "ttl": "0s"}, "option 'ttl' is above 0 and at most 30d, not '0s'"),
        ({"fold": "objects", "ttl": "31d"}, "option 'ttl' is above 0 and at most 30d"),
        ({"fold": "objects", "range_bytes": "2GiB"}, "option 'range_bytes' must be between 1 and"),
        ({"columns": ""}, "option 'columns' is one name or several"),
        ({"columns": "key, key"}, "option 'columns' names a column twice"),
        ({"owner": "me"}, "cannot be tables"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_opened(
    options: dict[str, str | None], message: str
) -> None:
    given = {name: value for name, value in {**NEEDED, **options}.items() if value is not None}
    with pytest.raises(SettingsError, match=message):
        parse_keyspace_options(given)


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({}, "bucket key tag subkey sqn size metadata modified expires value_hash index"),
        ({"fold": "index", "bucket": "b", "field": "f"}, "bucket field term tag key"),
        ({"fold": "objects", "columns": "value, key"}, "value key"),
    ],
)
def test_a_schema_is_known_without_the_store(options: dict[str, str], columns: str) -> None:
    assert SegmentSource({**NEEDED, **options}).schema().names == columns.split()


def column(name: str, kind: DataType, *, nullable: bool = True) -> StructType:
    return StructType([StructField(name, kind, nullable)])


def test_columns_that_there_are_not_are_named() -> None:
    with pytest.raises(SettingsError, match="'heads' has no column 'value'; there are bucket"):
        SegmentSource({**NEEDED, "columns": "value"}).schema()
    source = SegmentSource(NEEDED)
    for wrong in (
        column("value", BinaryType()),
        column("sqn", IntegerType()),
        column("expires", TimestampType(), nullable=False),
    ):
        with pytest.raises(SettingsError, match="fold 'heads' of a keyspace has the columns"):
            source.reader(wrong)
    chosen = SegmentSource({**NEEDED, "columns": "key"})
    with pytest.raises(SettingsError, match="option 'columns' says key, the schema sqn"):
        chosen.reader(column("sqn", LongType()))


def test_streams_and_writes_are_refused() -> None:
    source, schema = SegmentSource(NEEDED), column("key", StringType())
    with pytest.raises(UnsupportedError, match="no streams in Spark"):
        source.streamReader(schema)
    with pytest.raises(UnsupportedError, match="no writes in Spark"):
        source.writer(schema, overwrite=False)
    with pytest.raises(UnsupportedError, match="no streams in Spark"):
        source.streamWriter(schema, overwrite=False)
