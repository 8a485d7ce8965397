"""The table log on long-term storage, record by record."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.table_record import (
    TableRecord,
    decode_table_record,
    encoded_length,
)
from siltstone.core.segment_storage import ChunkedSegmentStorage
from siltstone.core.words import BLOCK_BYTES, MIB, TABLE_LOG_ID

READ_BYTES = 8 * MIB


async def read_table_log(
    system: ChunkedSegmentStorage, start: int, end: int, *, buffer_bytes: int = READ_BYTES
) -> AsyncGenerator[TableRecord]:
    """Yield the records in ``[start, end)``, both of which are borders of records.

    Raises:
        SegmentTruncatedError: the table log begins behind ``start``.
        CorruptDataError: the bytes are damaged, are not whole records, or those of another place.
        ChunkError: long-term storage did not answer.
    """
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
        while (length := encoded_length(kept, offset)) is not None:
            if offset + length > len(kept):
                break
            where = f"table log at {position + offset}"
            record = decode_table_record(kept, offset, where=where)
            if record.table_version != position + offset + length:
                # Whole as it is, it would be taken for one that is applied already.
                raise CorruptDataError(
                    "table record of another place", where=where, version=record.table_version
                )
            yield record
            offset += length
        position += offset
        kept = kept[offset:]
