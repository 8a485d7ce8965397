"""How much of each value segment is needed, and what its headers are where something is damaged."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from siltstone.core.errors import SegmentNotFoundError
from siltstone.objects.compaction_plan import UNREADABLE, CompactionView, UnreadableSegmentError
from siltstone.objects.records.head import head_fields
from siltstone.objects.records.keys import HEAD, after_prefix
from siltstone.objects.records.space_rows import ManifestRow, ValueStatus
from siltstone.objects.records.value_record import ValueKind
from siltstone.objects.scores import ValueUse
from siltstone.objects.value_log import FoundHeader, scan
from siltstone.store.handles.async_table import value_pages

if TYPE_CHECKING:
    from siltstone.objects.space_parts import SpaceParts
    from siltstone.store.handles.async_table import AsyncTableSnapshot


class ValueUses:
    """Counts what is needed at one moment.

    Args:
        space: the keyspace.
        ledger: as it was then.
    """

    def __init__(self, space: SpaceParts, ledger: AsyncTableSnapshot) -> None:
        self._space = space
        self._ledger = ledger

    async def of(self, manifest: Sequence[ManifestRow]) -> list[list[ValueUse]]:
        """How much of each segment is needed, in groups of neighbours that may be compacted."""
        firsts = [row.first_sqn for row in manifest]
        live = [0] * len(manifest)
        async for page in value_pages(self._ledger, HEAD, after_prefix(HEAD)):
            for row_key, value in page:
                fields = head_fields(value, row_key)
                live[bisect_right(firsts, fields[0]) - 1] += fields[4]
            await asyncio.sleep(0)
        groups: list[list[ValueUse]] = [[]]
        for row, size in zip(manifest, live, strict=True):
            if row.status is ValueStatus.SEALED and await self._is_flushed(row):
                needed = min(row.length, size + await self._kept(row, manifest))
                groups[-1].append(ValueUse(row.number, row.length, needed))
            else:
                groups.append([])
        needed = sum(each.needed for group in groups for each in group)
        self._space.meter.looked(needed, sum(each.length for group in groups for each in group))
        return [group for group in groups if group]

    async def _kept(self, row: ManifestRow, manifest: Sequence[ManifestRow]) -> int:
        """Bytes of the records without a value that compaction would keep again."""
        view = self.view(manifest, [row])
        if not view.may_free(row):
            return row.kept
        size = 0
        try:
            headers = [each.header async for page in self.headers(row) for each in page]
        except UnreadableSegmentError:
            return row.kept
        for header in headers:
            if header.kind is not ValueKind.STANDARD and view.fate(header, None) is not None:
                size += header.record_length
        return size

    async def _is_flushed(self, row: ManifestRow) -> bool:
        segment = self._space.store.segment(self._space.names.value_segment(row.number))
        try:
            info = await segment.info()
        except SegmentNotFoundError:
            return True  # it is found to be unreadable when its turn comes
        return info.flushed_length >= row.footer_end

    def view(self, manifest: Sequence[ManifestRow], run: Sequence[ManifestRow]) -> CompactionView:
        """What is known when a run of the manifest is compacted."""
        others = tuple(row for row in manifest if row not in run)
        return CompactionView(tags=self._space.space.tags, others=others)

    async def headers(self, row: ManifestRow) -> AsyncIterator[list[FoundHeader]]:
        """The headers of a segment, in order; what its footer does not tell, its records do.

        Raises:
            UnreadableSegmentError: they do not either.
        """
        end = 0
        try:
            async for page in self._space.values.headers(row, row.length):
                yield page
                if page:
                    end = page[-1].offset + page[-1].header.record_length
        except UNREADABLE:
            segment = self._space.store.segment(self._space.names.value_segment(row.number))
            try:
                yield [each async for each in scan(segment, end, row.length)]
            except UNREADABLE as error:
                raise UnreadableSegmentError(row.number, error) from error
