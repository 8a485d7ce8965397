"""The table log on long-term storage, record by record."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from siltstone.core.constants import BLOCK_BYTES, KIB, MIB, TABLE_LOG_ID
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.table_record import (
    TableRecord,
    decode_table_record,
    encoded_length,
)
from siltstone.segments.segment_storage import ChunkedSegmentStorage

READ_BYTES = 4 * MIB
DECODED_BYTES = 256 * KIB
"""Of records that are decoded at a time: decoded they take several times as much memory."""


async def read_table_log(
    system: ChunkedSegmentStorage, start: int, end: int, *, buffer_bytes: int = READ_BYTES
) -> AsyncGenerator[list[TableRecord]]:
    """Yield the records in ``[start, end)``, both of which are borders of records.

    Each list has records of about ``DECODED_BYTES``; what is whole before damage comes first.

    Raises:
        SegmentTruncatedError: the table log begins beyond ``start``.
        CorruptDataError: the bytes are damaged, are not whole records, or those of another place.
        ChunkError: long-term storage did not answer.
    """
    async for data, position in _whole_records(system, start, end, buffer_bytes):
        offset = 0
        while offset < len(data):
            records: list[TableRecord] = []
            until = offset + DECODED_BYTES
            try:
                while offset < min(until, len(data)):
                    record = _decode(data, offset, position)
                    records.append(record)
                    offset += record.length
            except (CorruptDataError, FormatError):
                if records:
                    yield records
                raise
            yield records


async def crc_at(system: ChunkedSegmentStorage, start: int, end: int, version: int) -> int | None:
    """Running CRC32C of the table log at ``version``, above ``start``; ``None`` if none ends there.

    Only the record that ends there is decoded. Raises as ``read_table_log``.
    """
    async for data, position in _whole_records(system, start, end, READ_BYTES):
        if version > position + len(data):
            continue
        offset = 0
        while (length := encoded_length(data, offset)) and position + offset + length < version:
            offset += length
        record = _decode(data, offset, position)
        return record.crc_after if record.table_version == version else None
    return None


async def _whole_records(
    system: ChunkedSegmentStorage, start: int, end: int, buffer_bytes: int
) -> AsyncGenerator[tuple[bytes, int]]:
    """Yield whole records of ``[start, end)``, many at a time, and where the first one begins."""
    kept = b""
    position = start
    read_bytes = buffer_bytes
    while position < end:
        begin = position + len(kept)
        if begin >= end:
            raise CorruptDataError("table log ends inside a record", where=f"table log at {begin}")
        buffer = bytearray(min(read_bytes, end - begin))
        try:
            count = await system.read_into(TABLE_LOG_ID, begin, memoryview(buffer))
        except CorruptDataError:
            if len(buffer) <= BLOCK_BYTES:
                raise
            # What is whole before the damage may be all that is needed.
            read_bytes = BLOCK_BYTES
            continue
        if count != len(buffer):
            raise CorruptDataError("table log is cut", where=f"table log at {begin}")
        kept += buffer
        offset = 0
        while (length := encoded_length(kept, offset)) is not None and offset + length <= len(kept):
            offset += length
        whole, kept = kept[:offset], kept[offset:]
        del buffer  # while the records are looked at, one copy of them is enough
        if whole:
            yield whole, position
        position += offset


def _decode(data: bytes, offset: int, position: int) -> TableRecord:
    """Decode the record at ``offset`` of ``data``, whose place in the table log is ``position``."""
    where = f"table log at {position + offset}"
    record = decode_table_record(data, offset, where=where)
    if record.table_version != position + offset + record.length:
        # Whole as it is, it would be taken for one that is applied already.
        raise CorruptDataError(
            "table record of another place", where=where, version=record.table_version
        )
    return record
