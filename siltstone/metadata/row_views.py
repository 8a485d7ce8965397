"""Rows of the metadata as a person reads them. Nothing depends on these forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.adoption_row import decode_adoption_row
from siltstone.core.records.attributes import decode_attributes
from siltstone.core.records.block_sums import decode_block_sums
from siltstone.core.records.chunk import decode_chunk
from siltstone.core.records.epoch_row import decode_epoch_row
from siltstone.core.records.extent import decode_extent
from siltstone.core.records.import_batch_row import decode_import_batch_row
from siltstone.core.records.import_row import decode_import_row
from siltstone.core.records.keys import (
    CounterKind,
    ImportRowPart,
    RowKind,
    adoption_of,
    extent_of,
    import_of,
    legacy_of,
    name_of,
    retention_of,
    task_of,
    time_of,
    writer_of,
)
from siltstone.core.records.layout import decode_layout
from siltstone.core.records.legacy_row import decode_legacy_row
from siltstone.core.records.number import decode_number
from siltstone.core.records.retention_row import decode_retention_row
from siltstone.core.records.segment_state import decode_segment_state
from siltstone.core.records.task import decode_task
from siltstone.core.records.time_row import decode_time_row
from siltstone.core.records.tombstone import decode_tombstone
from siltstone.core.records.writer_row import decode_writer_row

_ID_BYTES = 8

Fields = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRow:
    """One row.

    Attributes:
        container: index of the container that holds it.
        kind: what it is; ``unknown`` when a newer version wrote it.
        version: table version of its last change.
        fields: what key and value hold; ``error`` says why they could not be decoded.
    """

    container: int
    kind: str
    version: int
    fields: Mapping[str, object]


def _id(key: bytes) -> int:
    if len(key) < 1 + _ID_BYTES:
        raise CorruptDataError("impossible key", where=f"key {key.hex()}")
    return int.from_bytes(key[1 : 1 + _ID_BYTES])


def _group(key: bytes) -> int:
    return int.from_bytes(key[1 + _ID_BYTES :])


def _counter(key: bytes) -> str:
    known = {kind.value: kind.name.lower() for kind in CounterKind}
    return known.get(key[-1], str(key[-1]))


def _import_name(key: bytes) -> Fields:
    part, name = import_of(key)
    return {"chunk" if part == ImportRowPart.CHUNK else "name": name}


def _writer_name(key: bytes) -> Fields:
    return {"segment_id": _id(key), "name": name_of(key[_ID_BYTES:])}


_KEYS: dict[RowKind, Callable[[bytes], Fields]] = {
    RowKind.NAME: lambda key: {"name": name_of(key)},
    RowKind.STATE: lambda key: {"segment_id": _id(key)},
    RowKind.LAYOUT: lambda key: {"segment_id": _id(key)},
    RowKind.EXTENT: lambda key: dict(zip(("segment_id", "start"), extent_of(key), strict=True)),
    RowKind.CHUNK: lambda key: {"chunk_id": _id(key)},
    RowKind.BLOCK_SUMS: lambda key: {"chunk_id": _id(key), "group": _group(key)},
    RowKind.WRITER: lambda key: dict(zip(("segment_id", "number"), writer_of(key), strict=True)),
    RowKind.WRITER_NAME: _writer_name,
    RowKind.TASK: lambda key: dict(zip(("due_ms", "task", "subject"), task_of(key), strict=True)),
    RowKind.TABLE: lambda key: {"name": name_of(key)},
    RowKind.TOMBSTONE: lambda key: {"name": name_of(key)},
    RowKind.COUNTER: lambda key: {"counter": _counter(key)},
    RowKind.ATTRIBUTES: lambda key: {"segment_id": _id(key)},
    RowKind.TIME: lambda key: dict(zip(("segment_id", "offset"), time_of(key), strict=True)),
    RowKind.RETENTION: lambda key: dict(zip(("scope", "name"), retention_of(key), strict=True)),
    RowKind.IMPORT: _import_name,
    RowKind.EPOCH: lambda key: {"epoch": _id(key)},
    RowKind.IMPORT_BATCH: lambda key: {"query": name_of(key)},
    RowKind.ADOPTION: lambda key: {"session_id": adoption_of(key)},
    RowKind.LEGACY: lambda key: {"segment_id": legacy_of(key)},
}

_NUMBERS = {
    RowKind.NAME: "segment_id",
    RowKind.WRITER_NAME: "number",
    RowKind.TABLE: "table_id",
    RowKind.COUNTER: "next",
}

_VALUES: dict[RowKind, Callable[[bytes, bytes], object]] = {
    RowKind.STATE: lambda key, value: decode_segment_state(_id(key), value),
    RowKind.LAYOUT: lambda key, value: decode_layout(_id(key), value),
    RowKind.EXTENT: lambda key, value: decode_extent(*extent_of(key), value),
    RowKind.CHUNK: lambda key, value: decode_chunk(_id(key), value),
    RowKind.WRITER: lambda key, value: decode_writer_row(*writer_of(key), value),
    RowKind.TASK: lambda key, value: decode_task(*task_of(key), value),
    RowKind.TOMBSTONE: lambda key, value: decode_tombstone(name_of(key), value),
    RowKind.TIME: lambda key, value: decode_time_row(*time_of(key), value),
    RowKind.RETENTION: lambda key, value: decode_retention_row(*retention_of(key), value),
    RowKind.IMPORT: lambda key, value: decode_import_row(import_of(key)[1], value),
    RowKind.EPOCH: lambda key, value: decode_epoch_row(_id(key), value),
    RowKind.IMPORT_BATCH: lambda key, value: decode_import_batch_row(name_of(key), value),
    RowKind.ADOPTION: lambda key, value: decode_adoption_row(adoption_of(key), value),
    RowKind.LEGACY: lambda key, value: decode_legacy_row(legacy_of(key), value),
}

UNKNOWN = "unknown"


def key_view(key: bytes) -> tuple[str, Fields]:
    """The kind of a row and what its key says; damage is told in the fields."""
    try:
        kind = RowKind(key[0])
    except (ValueError, IndexError):
        return UNKNOWN, {"key": key.hex()}
    try:
        return kind.name.lower(), _KEYS[kind](key)
    except CorruptDataError as error:
        return kind.name.lower(), {"key": key.hex(), "error": str(error)}


def row_view(key: bytes, value: bytes) -> tuple[str, Fields]:
    """The kind of a row and all that key and value say; damage is told in the fields."""
    name, fields = key_view(key)
    if name == UNKNOWN:
        return name, {**fields, "value": value.hex()}
    kind = RowKind(key[0])
    try:
        return name, {**fields, **_value_fields(kind, key, value)}
    except (CorruptDataError, FormatError) as error:
        return name, {**fields, "value": value.hex(), "error": str(error)}


def _value_fields(kind: RowKind, key: bytes, value: bytes) -> Fields:
    if kind in _NUMBERS:
        return {_NUMBERS[kind]: decode_number(kind, value)}
    if kind is RowKind.IMPORT and import_of(key)[0] == ImportRowPart.CHUNK:
        return {"chunk_id": decode_number(kind, value)}
    if kind is RowKind.BLOCK_SUMS:
        return {"sums": [f"{crc:08x}" for crc in decode_block_sums(_id(key), _group(key), value)]}
    if kind is RowKind.ATTRIBUTES:
        return {"attributes": dict(decode_attributes(_id(key), value))}
    decoded = asdict(_VALUES[kind](key, value))  # type: ignore[call-overload]
    return {
        name: found.name.lower() if isinstance(found, IntEnum) else found
        for name, found in decoded.items()
    }
