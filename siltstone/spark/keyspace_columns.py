"""The columns of a keyspace in Spark, and how they are made of heads, values and terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy
import pyarrow
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from siltstone.core.errors import SettingsError
from siltstone.objects.records.head import Head
from siltstone.objects.records.keys import ObjectKey, Pair
from siltstone.spark.keyspace_options import Fold, KeyspaceReadOptions

VALUE: Final = "value"

_TEXT: Final[tuple[DataType, ...]] = (StringType(), BinaryType())
_RAW: Final[tuple[DataType, ...]] = (BinaryType(),)
_NUMBER: Final[tuple[DataType, ...]] = (LongType(),)
_TIME: Final[tuple[DataType, ...]] = (TimestampType(),)
_TERMS: Final[tuple[DataType, ...]] = (MapType(StringType(), ArrayType(StringType())),)
_OF_HEADS: Final[Mapping[str, tuple[DataType, ...]]] = {
    "bucket": _TEXT,
    "key": _TEXT,
    "tag": _TEXT,
    "subkey": _TEXT,
    "sqn": _NUMBER,
    "size": _NUMBER,
    "metadata": _RAW,
    "modified": _TIME,
    "expires": _TIME,
    "value_hash": _RAW,
    "index": _TERMS,
}
_KNOWN: Final[Mapping[Fold, Mapping[str, tuple[DataType, ...]]]] = {
    Fold.HEADS: _OF_HEADS,
    Fold.OBJECTS: {**_OF_HEADS, VALUE: _RAW},
    Fold.INDEX: {"bucket": _TEXT, "field": _TEXT, "term": _TEXT, "tag": _TEXT, "key": _TEXT},
}
"""By fold its columns, each with the types it may have, the usual one first."""

Decoded = tuple[ObjectKey, Head]


def keyspace_schema(options: KeyspaceReadOptions) -> StructType:
    """Return the columns of a read whose user gives no schema.

    Raises:
        SettingsError: an option names a column that there is not.
    """
    known = _KNOWN[options.fold]
    for name in options.columns or ():
        if name not in known:
            raise SettingsError(
                f"option 'columns': the fold {str(options.fold)!r} has no column {name!r}; "
                f"there are {', '.join(known)}"
            )
    fields = [
        StructField(name, known[name][0], nullable=name == "expires")
        for name in options.columns or known
    ]
    return StructType(fields)


def keyspace_form(options: KeyspaceReadOptions, schema: StructType) -> pyarrow.Schema:
    """Return the Arrow form of the schema that Spark wants, which a user may have chosen.

    Raises:
        SettingsError: it has other columns than the fold, or other types.
    """
    known = _KNOWN[options.fold]
    names = [field.name for field in schema]
    fits = names and len(set(names)) == len(names)
    if not fits or any(not _fits(known, field) for field in schema):
        columns = [
            " or ".join(f"'{name} {kind.simpleString().upper()}'" for kind in kinds)
            for name, kinds in known.items()
        ]
        raise SettingsError(
            f"the fold {str(options.fold)!r} of a keyspace has the columns {'; '.join(columns)}, "
            f"not {schema.simpleString()}"
        )
    if options.columns is not None and set(options.columns) != set(names):
        raise SettingsError(
            f"option 'columns' says {', '.join(options.columns)}, the schema {', '.join(names)}"
        )
    return to_arrow_schema(schema, timezone="UTC")


def _fits(known: Mapping[str, tuple[DataType, ...]], field: StructField) -> bool:
    may_be_null = field.nullable or field.name != "expires"
    return field.name in known and field.dataType in known[field.name] and may_be_null


def head_batch(
    form: pyarrow.Schema, found: Sequence[Decoded], values: Sequence[bytes] = ()
) -> pyarrow.RecordBatch:
    """Return rows of heads, or of objects.

    Args:
        form: by ``keyspace_form``.
        found: the heads.
        values: one of each, where ``form`` has them.
    """
    columns = [
        _cast(pyarrow.array(values, pyarrow.binary()), field)
        if field.name == VALUE
        else _cast(_HEAD_COLUMNS[field.name](found), field)
        for field in form
    ]
    return pyarrow.RecordBatch.from_arrays(columns, schema=form)


def index_batch(
    form: pyarrow.Schema, options: KeyspaceReadOptions, tag: str, rows: pyarrow.RecordBatch
) -> pyarrow.RecordBatch:
    """Return rows of an index.

    Args:
        form: by ``keyspace_form``.
        options: of the read.
        tag: of the objects.
        rows: their terms and keys, as bytes.
    """
    same = {"bucket": options.bucket, "field": options.field, "tag": tag}
    columns = []
    for field in form:
        if field.name in same:
            one = pyarrow.scalar((same[field.name] or "").encode(), pyarrow.binary())
            columns.append(_cast(pyarrow.repeat(one, rows.num_rows), field))
        else:
            columns.append(_cast(rows.column(field.name), field))
    return pyarrow.RecordBatch.from_arrays(columns, schema=form)


def _cast(column: pyarrow.Array, field: pyarrow.Field) -> pyarrow.Array:
    if column.type == field.type:
        return column
    if pyarrow.types.is_binary(column.type):
        return column.view(field.type)  # bytes that are no UTF-8 stay as they are
    return column.cast(field.type)


def _names(part: Callable[[ObjectKey], bytes]) -> Callable[[Sequence[Decoded]], pyarrow.Array]:
    return lambda found: pyarrow.array([part(key) for key, _ in found], pyarrow.binary())


def _heads(
    part: Callable[[Head], object], kind: pyarrow.DataType
) -> Callable[[Sequence[Decoded]], pyarrow.Array]:
    return lambda found: pyarrow.array([part(head) for _, head in found], kind)


def _expires_us(head: Head) -> int | None:
    return head.expires_s * 1_000_000 or None


def _terms(found: Sequence[Decoded]) -> pyarrow.Array:
    """By field its terms, which are in order in each head."""
    by_field = [_by_field(head.entries) for _, head in found]
    groups = list(chain.from_iterable(each.values() for each in by_field))
    fields = list(chain.from_iterable(by_field))
    terms = pyarrow.array(list(chain.from_iterable(groups)), pyarrow.binary())
    lists = pyarrow.ListArray.from_arrays(_places(map(len, groups)), terms.view(pyarrow.string()))
    names = pyarrow.array(fields, pyarrow.binary()).view(pyarrow.string())
    return pyarrow.MapArray.from_arrays(_places(map(len, by_field)), names, lists)


def _by_field(entries: Iterable[Pair]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for field, term in entries:
        found.setdefault(field, []).append(term)
    return found


def _places(lengths: Iterable[int]) -> pyarrow.Array:
    return pyarrow.array(numpy.cumsum([0, *lengths], dtype=numpy.int32))


_INSTANT: Final = pyarrow.timestamp("us", tz="UTC")
_HEAD_COLUMNS: Final[Mapping[str, Callable[[Sequence[Decoded]], pyarrow.Array]]] = {
    "bucket": _names(lambda key: key.bucket),
    "key": _names(lambda key: key.key),
    "tag": _names(lambda key: key.tag),
    "subkey": _names(lambda key: key.subkey),
    "sqn": _heads(lambda head: head.sqn, pyarrow.int64()),
    "size": _heads(lambda head: head.size, pyarrow.int64()),
    "metadata": _heads(lambda head: head.metadata, pyarrow.binary()),
    "modified": _heads(lambda head: head.modified_ms * 1_000, _INSTANT),
    "expires": _heads(_expires_us, _INSTANT),
    "value_hash": _heads(lambda head: head.value_hash, pyarrow.binary()),
    "index": _terms,
}
