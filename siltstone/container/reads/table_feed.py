"""Following a table: its updates in order, from the table log on long-term storage and its tail.

Updates of other tables are passed over. The head of the table log goes with old checkpoints, so
what is older than that cannot be followed any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing

from siltstone.container.models.tables import KeyChange, RangeRemoval, TableUpdate, UpdatePage
from siltstone.container.state.replica import Replica
from siltstone.container.state.table_log import read_table_log
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    CorruptDataError,
    SegmentTruncatedError,
    TableNotFoundError,
    TableTruncatedError,
)
from siltstone.core.records.table_record import TableEntry, TableRecord, decode_table_record
from siltstone.segments.segment_storage import ChunkedSegmentStorage

PAGE_BYTES = MIB
"""About this many bytes of the table log are looked through at a time."""


class TableFeed:
    """The updates of the tables of one container, as far as they are acknowledged.

    Args:
        replica: what is acknowledged, and the tail of the table log.
        system: reads the table log on long-term storage.
    """

    def __init__(self, replica: Replica, system: ChunkedSegmentStorage) -> None:
        self._replica = replica
        self._system = system

    async def page(self, table: str, after: int) -> UpdatePage:
        """Return the next updates of ``table`` after the table version ``after``.

        Raises:
            TableNotFoundError: there is no such table.
            TableTruncatedError: the table log does not reach back to ``after``.
            ValueError: no update ends at ``after``.
        """
        replica = self._replica
        table_id = replica.rows.table_id(table)
        if table_id is None:
            raise TableNotFoundError("no such table", table=table)
        if after >= replica.tables.applied_version:
            return UpdatePage(updates=(), position=after)
        if after < replica.table_flushed:
            records = await self._stored(table, after)
        else:
            records = self._tail(after)
        if records[0].table_version - records[0].length != after:
            raise _no_version(after)
        return UpdatePage(
            updates=tuple(_updates(records, table_id)), position=records[-1].table_version
        )

    async def wait(self, after: int, timeout_s: float) -> None:
        """Wait until something is acknowledged after ``after``, or for ``timeout_s`` seconds."""
        tail = self._replica.table_tail
        if self._replica.tables.applied_version > after:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await tail.changed()
        except TimeoutError:
            pass

    def _tail(self, after: int) -> list[TableRecord]:
        where = f"tail of the table log at {after}"
        kept = self._replica.table_tail.behind(after, PAGE_BYTES)
        return [decode_table_record(record.record, where=where) for record in kept]

    async def _stored(self, table: str, after: int) -> list[TableRecord]:
        records: list[TableRecord] = []
        stored = read_table_log(
            self._system, after, self._replica.table_flushed, buffer_bytes=PAGE_BYTES
        )
        try:
            async with aclosing(stored) as source:
                async for page in source:
                    records += page
                    if records[-1].table_version - after >= PAGE_BYTES:
                        break
        except SegmentTruncatedError as error:
            raise TableTruncatedError(
                table=table, version=after, first=error.start_offset
            ) from error
        except CorruptDataError as error:
            # Blocks are verified, so what does not begin like a record is no border of records.
            if error.where != f"table log at {after}":
                raise
            raise _no_version(after) from error
        return records


def _no_version(version: int) -> ValueError:
    return ValueError(f"no update has the table version {version}")


def _updates(records: Iterable[TableRecord], table_id: int) -> Iterable[TableUpdate]:
    for record in records:
        changes = tuple(_change(e) for e in record.entries if e.table_id == table_id)
        if changes:
            yield TableUpdate(version=record.table_version, changes=changes)


def _change(entry: TableEntry) -> KeyChange | RangeRemoval:
    assert entry.splice_at is None, "tables of applications are changed by whole values"
    if entry.range_end is not None:
        return RangeRemoval(entry.key, entry.range_end or None)
    return KeyChange(entry.key, entry.value)
