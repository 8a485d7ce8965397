"""The changes of a collection's state: what the diffs of entries are made of.

Each kind has a body, little-endian::

    1 since, 4 floor, 5 collected: u64
    2 life: u8
    3 format: u16
    6 put schema, 8 put reader, 10 put writer, 12 put bookmark, 14 put rollup: the row
    7 drop schema: u32
    9 drop reader, 15 drop rollup: u64
    11 drop writer, 13 drop bookmark: name: text
    16 put batch: the batch, after all others
    17 replace batches: lower: u64, upper: u64, batches: u32, and each batch

The batches that make ``[lower, upper)`` are replaced. The layouts of rows and batches are those of
``siltstone.core.records.collection_state``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from siltstone.core.constants import Buffer
from siltstone.core.errors import FormatError
from siltstone.core.records.collection_batch import CollectionBatch, put_batch, take_batch
from siltstone.core.records.collection_entry import Change, put_rollup, take_rollup
from siltstone.core.records.collection_frontier import is_frontier
from siltstone.core.records.collection_rows import (
    put_bookmark,
    put_reader,
    put_schema,
    put_writer,
    take_bookmark,
    take_reader,
    take_schema,
    take_writer,
)
from siltstone.core.records.collection_state import check_format, life_of
from siltstone.core.records.fields import FieldReader, FieldWriter

_U8 = struct.Struct("<B")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_REPLACED = struct.Struct("<QQI")


class ChangeKind(IntEnum):
    """What a change changes. Numbers are persisted and never change."""

    SINCE = 1
    LIFE = 2
    FORMAT = 3
    FLOOR = 4
    COLLECTED = 5
    PUT_SCHEMA = 6
    DROP_SCHEMA = 7
    PUT_READER = 8
    DROP_READER = 9
    PUT_WRITER = 10
    DROP_WRITER = 11
    PUT_BOOKMARK = 12
    DROP_BOOKMARK = 13
    PUT_ROLLUP = 14
    DROP_ROLLUP = 15
    PUT_BATCH = 16
    REPLACE_BATCHES = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedBatches:
    """What a change puts in the place of batches.

    Attributes:
        lower: where the first one of them begins.
        upper: where the last one of them ends.
        batches: what is there instead. They begin at ``lower``.
    """

    lower: int
    upper: int
    batches: tuple[CollectionBatch, ...]


def encode_change(kind: ChangeKind, value: Any) -> Change:
    """Encode one change: a number, a name, a row, a batch, or ``ReplacedBatches``."""
    fields = FieldWriter()
    _CODECS[kind][0](fields, value)
    return Change(kind=kind, body=fields.to_bytes())


def decode_change(kind: int, body: Buffer, *, where: str) -> Any:
    """Decode the body of one change: what ``encode_change`` took.

    Raises:
        CorruptDataError: damaged; ``where`` is named.
        FormatError: a kind of a newer version.
    """
    if kind not in _CODECS:
        raise FormatError("change of an unknown kind", where=where, kind=kind)
    fields = FieldReader(body, where=where)
    value = _CODECS[kind][1](fields)
    fields.finish()
    return value


def _put(layout: struct.Struct) -> Callable[[FieldWriter, int], None]:
    return lambda fields, value: fields.put(layout, value)


def _take(layout: struct.Struct) -> Callable[[FieldReader], int]:
    return lambda fields: fields.take(layout)[0]


def _take_since(fields: FieldReader) -> int:
    (since,) = fields.take(_U64)
    if not is_frontier(since):
        raise fields.damage("no frontier")
    return since


def _take_format(fields: FieldReader) -> int:
    (number,) = fields.take(_U16)
    check_format(number, where=fields.where)
    return number


def _put_replaced(fields: FieldWriter, value: ReplacedBatches) -> None:
    fields.put(_REPLACED, value.lower, value.upper, len(value.batches))
    for batch in value.batches:
        put_batch(fields, batch)


def _take_replaced(fields: FieldReader) -> ReplacedBatches:
    lower, upper, count = fields.take(_REPLACED)
    batches = tuple(take_batch(fields) for _ in range(count))
    return ReplacedBatches(lower=lower, upper=upper, batches=batches)


_NUMBER = _put(_U64), _take(_U64)
_NAME = FieldWriter.put_text, FieldReader.take_text
_CODECS: Final[Mapping[int, tuple[Callable[[FieldWriter, Any], None], Callable[..., Any]]]] = {
    ChangeKind.SINCE: (_put(_U64), _take_since),
    ChangeKind.LIFE: (_put(_U8), lambda fields: life_of(fields, fields.take(_U8)[0])),
    ChangeKind.FORMAT: (_put(_U16), _take_format),
    ChangeKind.FLOOR: _NUMBER,
    ChangeKind.COLLECTED: _NUMBER,
    ChangeKind.PUT_SCHEMA: (put_schema, take_schema),
    ChangeKind.DROP_SCHEMA: (_put(_U32), _take(_U32)),
    ChangeKind.PUT_READER: (put_reader, take_reader),
    ChangeKind.DROP_READER: _NUMBER,
    ChangeKind.PUT_WRITER: (put_writer, take_writer),
    ChangeKind.DROP_WRITER: _NAME,
    ChangeKind.PUT_BOOKMARK: (put_bookmark, take_bookmark),
    ChangeKind.DROP_BOOKMARK: _NAME,
    ChangeKind.PUT_ROLLUP: (put_rollup, take_rollup),
    ChangeKind.DROP_ROLLUP: _NUMBER,
    ChangeKind.PUT_BATCH: (put_batch, take_batch),
    ChangeKind.REPLACE_BATCHES: (_put_replaced, _take_replaced),
}
