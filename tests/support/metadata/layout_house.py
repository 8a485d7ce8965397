"""A store of layouts with one segment whose rows are acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from siltstone.core.environment import SystemEnvironment
from siltstone.core.layout_store import LayoutChange
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry
from siltstone.metadata import changes
from siltstone.metadata.layout_store import TableLayoutStore
from siltstone.metadata.rows import Rows
from siltstone.metadata.tables import Tables
from tests.support.metadata.acknowledging_log import AcknowledgingLog

T = TypeVar("T")


NAME = "flights/2013/january/ny"


DELAY_S = 900.0


SEGMENT = 2**20


START = 2**40
"""Numbers as they are after years, so that sizes are honest."""


class Clock(SystemEnvironment):
    """An environment whose time does not advance."""

    def time(self) -> float:
        return 1_700_000_000.0


class House:
    """A store with one segment whose rows are acknowledged."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.rows = Rows(tables)
        self.log = AcknowledgingLog(tables)
        self.store = TableLayoutStore(self.rows, self.log, 3, Clock(), DELAY_S)
        self.state = SegmentState(segment_id=SEGMENT, name=NAME, created_ms=1)
        self.put(changes.put_name(NAME, SEGMENT), changes.put_state(self.state))

    def put(self, *entries: TableEntry) -> None:
        self.tables.acknowledge([self.tables.assign(entries)], 0)

    def flush(
        self, before: Layout, length: int, *, chunk_id: int = 0, new: bool = True
    ) -> LayoutChange:
        """A flush of ``length`` bytes into a new chunk, or after what the last one holds."""
        chunk_id = chunk_id or before.last_chunk_id
        first = self.rows.floor(SEGMENT, before.storage_length)
        held = 0 if new or first is None else first.length
        start = before.storage_length - held
        blocks = range(held // (256 * 1024), -(-(held + length) // (256 * 1024)))
        return LayoutChange(
            segment_id=SEGMENT,
            before=before,
            after=replace(
                before,
                storage_length=before.storage_length + length,
                last_chunk_id=chunk_id,
                storage_start=before.storage_start or start,
            ),
            extents_put=(
                Extent(
                    segment_id=SEGMENT,
                    start=start,
                    chunk_id=chunk_id,
                    chunk_offset=0,
                    length=held + length,
                ),
            ),
            chunks_put=(
                Chunk(chunk_id=chunk_id, name=chunk_name(chunk_id), epoch=7, length=held + length),
            ),
            sums=(
                BlockSumsPatch(
                    chunk_id=chunk_id,
                    group=0,
                    first_block=blocks[0],
                    sums=tuple(block + 2**31 for block in blocks),
                ),
            ),
        )


def chunk_name(chunk_id: int) -> str:
    return f"data/c3/e{7:020d}/flights/2013/january/ny/{START:020d}-{chunk_id:016x}.chunk"


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)
