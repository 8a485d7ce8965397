"""Whether a keyspace is whole: its rows, its value segments, and on request every record.

It reads the ledger of one moment and opens nothing, so it also tells what is wrong with a keyspace
that does not open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from typing import TYPE_CHECKING

from siltstone.container.models.segments import Finding
from siltstone.core.errors import CorruptDataError, SegmentNotFoundError, SegmentTruncatedError
from siltstone.objects.errors import KeyspaceNotFoundError
from siltstone.objects.large_check import LargeCheck, SeenLarge
from siltstone.objects.ledger import Ledger, manifest_of
from siltstone.objects.manifest import Manifest
from siltstone.objects.object_views import NoteLoss, forget_loss
from siltstone.objects.record_check import RecordCheck
from siltstone.objects.records.keys import SPACE, STATE, TASK, after_prefix, number_of_task
from siltstone.objects.records.rebuild_rows import is_rebuild
from siltstone.objects.records.space_rows import (
    ManifestRow,
    SpaceState,
    Strategy,
    ValueStatus,
    decode_space,
    decode_state,
    decode_task,
)
from siltstone.objects.row_check import RowCheck, damage, manifest_findings
from siltstone.objects.space_names import FATE_ATTRIBUTE, SegmentFate

if TYPE_CHECKING:
    from siltstone.container.models.segments import SegmentInfo
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore
    from siltstone.store.handles.async_table import AsyncTableSnapshot


class SpaceCheck:
    """One check of a keyspace.

    Args:
        store: of the keyspace.
        names: of the keyspace.
        ledger: at the moment of which it is told.
        progress: called with how much is done, from 0 to 1.
        whole: value segments whose records need not be read; see ``RecordCheck``.
        note: told the objects whose values are lost.
    """

    def __init__(
        self,
        store: AsyncStore,
        names: SpaceNames,
        ledger: AsyncTableSnapshot,
        progress: Callable[[float], None],
        whole: Collection[int] = (),
        note: NoteLoss = forget_loss,
    ) -> None:
        self._note = note
        self._whole = whole
        self._store = store
        self._names = names
        self._ledger = ledger
        self._progress = progress
        self._total = self._done = 0

    async def findings(self, *, deep: bool) -> AsyncIterator[Finding]:
        """Yield what is wrong. See ``AsyncKeyspace.check``.

        Raises:
            KeyspaceNotFoundError: it does not exist.
            FormatError: it was made by a newer version.
        """
        found = await self._ledger.get(SPACE)
        if found is None:
            raise KeyspaceNotFoundError("no such keyspace", keyspace=self._names.name)
        begun = await self._ledger.get(STATE)
        if begun is not None and is_rebuild(begun.value):
            yield damage(self._names.name, "a rebuild of its ledger was begun: end it, then check")
            return
        try:
            space = decode_space(found.value, where=self._names.name)
            state = await self._state()
            rows = await manifest_of(self._ledger.scan, where=self._names.name)
            tasks = await self._tasks()
        except CorruptDataError as error:
            yield damage(self._names.name, f"a row about the keyspace itself is damaged: {error}")
            return
        for finding in manifest_findings(self._names, state, rows, tasks):
            yield finding
        here = []
        for row in rows:
            length = state.length if row.status is ValueStatus.ACTIVE else row.length
            problem = await self._segment(row, length)
            if problem is None:
                here.append((row, length))
                problem = await self._fate(row)
            if problem is not None:
                yield problem
        async for finding in self._unnamed(state, rows, tasks):
            yield finding
        check = RowCheck(self._names, self._ledger, state, Manifest(rows))
        async for finding in check.findings():
            yield finding
        async for finding in self._large(check, state, deep=deep):
            yield finding
        if deep and space.head_only is None:
            recalc = {tag.encode() for tag, each in space.tags.items() if each is Strategy.RECALC}
            async for finding in self._records(rows, here, check.heads, recalc):
                yield finding
        self._progress(1)

    async def _state(self) -> SpaceState:
        found = await self._ledger.get(STATE)
        if found is None:
            raise CorruptDataError("keyspace has no state", where=self._names.name)
        return decode_state(found.value, where=self._names.name)

    async def _tasks(self) -> set[int]:
        found = set()
        async for row_key, row in self._ledger.scan(TASK, after_prefix(TASK)):
            decode_task(row.value, where=row_key.hex())
            found.add(number_of_task(row_key))
        return found

    # --- value segments ---------------------------------------------------------------------------

    async def _segment(self, row: ManifestRow, length: int) -> Finding | None:
        """What is wrong with the length of a value segment, if anything is."""
        where = self._names.value_segment(row.number)
        try:
            info = await self._store.segment(where).info()
        except SegmentNotFoundError:
            return await self._gone(row)
        if info.start_offset:
            return damage(where, "its beginning was truncated", start=info.start_offset)
        if info.length < length:
            return damage(where, "it ends before its records", length=info.length, records=length)
        if row.status is ValueStatus.SEALED:
            if not info.sealed or info.length != row.footer_end:
                return damage(
                    where, "it does not end with its footer", length=info.length, end=row.footer_end
                )
        elif row.status is ValueStatus.ACTIVE and info.length > length:
            return await self._grown(row, info)
        return None

    async def _fate(self, row: ManifestRow) -> Finding | None:
        """What is wrong with what a segment says of itself, for the next rebuild."""
        where = self._names.value_segment(row.number)
        try:
            info = await self._store.segment(where).info()
        except SegmentNotFoundError:
            return await self._gone(row)
        fate = info.attributes.get(FATE_ATTRIBUTE, "")
        is_unsaid = row.as_of and fate == SegmentFate.NONE.value
        if is_unsaid or (fate == SegmentFate.REPLACED.value and await self._is_named(row)):
            text = f"a rebuild would leave it out: its attribute {FATE_ATTRIBUTE} is wrong"
            return Finding(severity="warning", where=where, message=text)
        return None

    async def _is_named(self, row: ManifestRow) -> bool:
        """Whether the manifest names a segment now, too."""
        manifest = await Ledger(self._store, self._names).manifest()
        return row.number in {each.number for each in manifest}

    async def _gone(self, row: ManifestRow) -> Finding:
        """What to say of a segment that is not there: it may have been compacted meanwhile."""
        where = self._names.value_segment(row.number)
        if await self._is_named(row):
            return damage(where, "it is gone", records=row.records)
        text = "it was compacted while it was checked; check again to look at what it has become"
        return Finding(severity="warning", where=where, message=text)

    async def _grown(self, row: ManifestRow, info: SegmentInfo) -> Finding | None:
        """What to say of bytes after the records: changes of meanwhile, or of something else."""
        found = await Ledger(self._store, self._names).state()
        if found is None or found.state.number != row.number or found.state.length >= info.length:
            return None
        text = "something else appended to it; the keyspace takes no changes"
        return damage(info.name, text, length=info.length, records=found.state.length)

    async def _unnamed(
        self, state: SpaceState, rows: list[ManifestRow], tasks: set[int]
    ) -> AsyncIterator[Finding]:
        """Segments that are there and that nothing names."""
        known = {*tasks, *(row.number for row in rows)}
        async for info in self._store.list(self._names.values):
            number = self._names.number_of(info.name)
            if number is None:
                text = "it is no value segment, and not of the keyspace"
                yield Finding(severity="warning", where=info.name, message=text)
            elif number not in known and number < state.next_number:
                text = (
                    f"nothing names it, {info.length} bytes; the next opening deletes it, unless a "
                    "value compaction is making it"
                )
                yield Finding(severity="garbage", where=info.name, message=text)

    async def _large(
        self, rows: RowCheck, state: SpaceState, *, deep: bool
    ) -> AsyncIterator[Finding]:
        """What is wrong with large values."""
        check = LargeCheck(self._store, self._names, state.next_number, self._note)
        for status, number, row in rows.large_rows:
            check.note_row(status, number, row)
        for key, head in rows.large:
            assert head.large is not None, "only such heads are noted"
            for finding in check.note_head(SeenLarge(key, head, head.large)):
                yield finding
        async for finding in check.findings(deep=deep):
            yield finding

    # --- records ----------------------------------------------------------------------------------

    async def _records(
        self,
        rows: list[ManifestRow],
        here: list[tuple[ManifestRow, int]],
        heads: dict[int, int],
        recalc: Collection[bytes],
    ) -> AsyncIterator[Finding]:
        """Read the records of the segments that are there."""
        self._total = sum(length for _, length in here)
        check = RecordCheck(
            self._store,
            self._names,
            self._ledger,
            self._advance,
            self._whole,
            recalc,
            self._note,
        )
        if len(here) < len(rows):
            check.miss()
        for row, length in here:
            try:
                async for finding in check.segment(row, length, heads[row.number]):
                    yield finding
            except (SegmentNotFoundError, SegmentTruncatedError):
                check.miss()
                yield await self._gone(row)
        async for finding in check.end():
            yield finding

    def _advance(self, size: int) -> None:
        self._done += size
        self._progress(min(1.0, self._done / max(1, self._total)))
