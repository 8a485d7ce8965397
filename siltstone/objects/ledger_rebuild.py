"""A rebuild: the ledger of a keyspace is made again from its value log.

The headers of all records are gone through in the order of their SQNs, and each commit says how far
that is. So one that was killed goes on, and until the end the keyspace refuses all verbs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from siltstone.container.models.segments import Operation, Put, VersionIs
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import ConditionFailedError, LostDataError
from siltstone.objects.changes import check_index, index_entries, name_text
from siltstone.objects.errors import RebuildingError, UnsupportedError
from siltstone.objects.evaluation import LedgerRow, rows_between
from siltstone.objects.ledger import Ledger
from siltstone.objects.manifest import Manifest
from siltstone.objects.object_views import ObjectHead
from siltstone.objects.rebuild_plan import Recalc, head_of, with_number
from siltstone.objects.rebuild_report import RebuildReport, doubtful_objects
from siltstone.objects.rebuild_step import RebuildStep
from siltstone.objects.records.footer import key_hash
from siltstone.objects.records.head import Head, decode_head
from siltstone.objects.records.keys import (
    DOUBTFUL,
    EXPIRY,
    HEAD,
    LARGE_VALUE,
    STATE,
    LargeStatus,
    ObjectKey,
    after_prefix,
    decode_doubtful_key,
    decode_expiry_key,
    decode_head_key,
    doubtful_key,
    encode_entries,
    expired_until,
    heads_prefix,
    large_key,
)
from siltstone.objects.records.large_row import LargeRow, encode_large_row
from siltstone.objects.records.rebuild_rows import (
    Doubt,
    Rebuild,
    RebuildPhase,
    decode_doubt,
    decode_rebuild,
    encode_doubt,
)
from siltstone.objects.records.space_rows import (
    ManifestRow,
    Space,
    Strategy,
    ValueStatus,
    encode_state,
)
from siltstone.objects.sure_headers import HeaderGap, bare_headers, footer_headers
from siltstone.objects.value_log import FoundHeader, ValueLog

if TYPE_CHECKING:
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore

COMMIT_COUNT: Final = 1_000
"""Records of one commit, which are looked at again when a rebuild is killed."""

COMMIT_BYTES: Final = MIB
"""Most bytes of rows of one commit, unless a frame of tier 1 has less."""

FRAME_MARGIN: Final = 8 * KIB
TURN_COUNT: Final = 64
"""After so many records the loop has a turn."""


class LedgerRebuild:
    """One rebuild of a keyspace that ``begin_rebuild`` began.

    Args:
        store: of the keyspace.
        names: of the keyspace.
        space: what it is.
        recalc: by tag how the index is made, for each tag whose strategy is ``recalc``.
        accept_loss: whether older records count where damage hides which objects were changed.
    """

    def __init__(
        self,
        store: AsyncStore,
        names: SpaceNames,
        space: Space,
        recalc: Mapping[str, Recalc],
        *,
        accept_loss: bool,
        progress: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._names = names
        self._recalc = recalc
        self._accept_loss = accept_loss
        self._progress = progress
        self._tags = {tag.encode(): strategy for tag, strategy in space.tags.items()}
        self._table = store.table(names.ledger)
        self._ledger = Ledger(store, names)
        self._values = ValueLog(store, names)
        room = store.segment(names.value_segment(1)).append_bytes_max - FRAME_MARGIN
        self._commit_bytes = min(COMMIT_BYTES, room)
        self._doubts: dict[int, Doubt] = {}
        self._records = 0

    async def run(self) -> RebuildReport:
        """Rebuild the ledger, from where a rebuild before was.

        Raises:
            RebuildingError: something else rebuilds it.
            UnsupportedError: a record has a tag that the keyspace has not.
            LostDataError: damage hides which objects were changed, and that is not accepted.
            LostObjectError: a value is damaged or gone that a function of ``recalc`` asks for.
            ObjectLimitError: such a function gave too many terms, or too long ones.
            ChunkError: long-term storage refused, or did not answer.
            BackPressureError, SafeModeError, StorageFullError, OutcomeUnknownError: the log failed.

        A repeat goes on after all of them.
        """
        found = await self._table.get(STATE)
        assert found is not None, "the rebuild was begun"
        now = decode_rebuild(found.value, where=self._names.name)
        version = found.version
        async for row_key, row in self._table.scan(DOUBTFUL, after_prefix(DOUBTFUL)):
            self._doubts[decode_doubtful_key(row_key)[0]] = decode_doubt(
                row.value, where=row_key.hex()
            )
        manifest = await self._ledger.manifest()
        if now.phase is RebuildPhase.RECORDS:
            now, version = await self._read_records(now, version, manifest)
            now, version = await self._remove_expired(now, version)
        if now.phase is RebuildPhase.DOUBTFUL:
            version = await self._remove_doubtful(now, version)
            version = await self._end_large(now, version)
            now = replace(now, phase=RebuildPhase.INDEX)
        if self._recalc:
            now, version = await self._index(now, version, Manifest(manifest))
        await self._commit([Put(self._names.ledger, STATE, encode_state(now.state))], version)
        self._progress(1.0)
        return await self._report(now)

    # --- records ----------------------------------------------------------------------------------

    async def _read_records(
        self, now: Rebuild, version: int, manifest: list[ManifestRow]
    ) -> tuple[Rebuild, int]:
        """Make heads of the records that are left; return how far that is."""
        # By records, as SQNs tell nothing of how many there are.
        counts = [
            now.state.records if row.status is ValueStatus.ACTIVE else row.records
            for row in manifest
        ]
        passed, total = 0, max(1, sum(counts))
        for row, count in zip(manifest, counts, strict=True):
            is_active = row.status is ValueStatus.ACTIVE
            before, passed = passed, passed + count
            if now.sqn >= (now.state.next_sqn - 1 if is_active else row.last_sqn):
                continue
            async for found in self._headers(row, now):
                if isinstance(found, HeaderGap):
                    step = self._gap(row, found, now)
                    now, version = step.now, await self._commit(step.operations(), version)
                    continue
                start = 0
                while start < len(found):
                    begun = start
                    step, start = await self._step(row, found, start, now)
                    now, version = step.now, await self._commit(step.operations(), version)
                    before = min(passed, before + start - begun)
                    self._progress(before / total)
        return now, version

    def _headers(
        self, row: ManifestRow, now: Rebuild
    ) -> AsyncIterator[list[FoundHeader] | HeaderGap]:
        segment = self._store.segment(self._names.value_segment(row.number))
        if row.status is ValueStatus.SEALED:
            return footer_headers(
                segment,
                footer_end=row.footer_end,
                length=row.length,
                after_sqn=now.sqn,
                last_sqn=row.last_sqn,
            )
        is_active = row.status is ValueStatus.ACTIVE
        return bare_headers(
            segment,
            length=now.state.length if is_active else row.length,
            after_sqn=now.sqn,
            last_sqn=now.state.next_sqn - 1 if is_active else row.last_sqn,
        )

    async def _step(
        self, row: ManifestRow, found: list[FoundHeader], start: int, now: Rebuild
    ) -> tuple[RebuildStep, int]:
        """What one commit makes of headers from ``start`` on, and where the next one begins."""
        step = RebuildStep(self._names.ledger, now)
        heads: dict[ObjectKey, Head | None] = {}
        clock_s = self._store.environment.time()
        seen_ms = now.seen_ms
        number, last = start, (now.sqn, now.seen_ms)
        for number in range(start, min(start + COMMIT_COUNT, len(found))):
            offset, raw, header = found[number]
            key = header.key
            strategy = self._tags.get(key.tag)
            if strategy is None:
                raise UnsupportedError(
                    f"a record has the tag {name_text(key.tag)!r}, which the keyspace has not",
                    keyspace=self._names.name,
                )
            old = heads[key] if key in heads else await self._ledger.head(key)
            # What expired by the time of any record stays so, whatever the clock says by now.
            seen_ms = max(seen_ms, header.modified_ms)
            place = (row.number, offset, header.length_after(len(raw)))
            new = head_of(header, place, max(clock_s, seen_ms / 1000))
            if new is not None and strategy is Strategy.RECALC:
                new = new._replace(entries=())
            rows, size = rows_between(key, old, new) if old or new else ([], 0)
            if step.size + size > self._commit_bytes and number > start:
                break
            heads[key] = new
            step.put(rows, size)
            if self._doubts and (hashed := key_hash(key)) in self._doubts:
                del self._doubts[hashed]
                step.remove(doubtful_key(hashed))
            last = (header.sqn, seen_ms)
            if header.large is not None:
                # A number that was deleted long ago is still not free: rows below say it is dead.
                step.now = with_number(step.now, header.large.number)
            self._records += 1
            if number % TURN_COUNT == 0:
                await asyncio.sleep(0)
        else:
            number += 1
        step.now = replace(step.now, sqn=last[0], seen_ms=last[1])
        return step, number

    def _gap(self, row: ManifestRow, gap: HeaderGap, now: Rebuild) -> RebuildStep:
        """What one commit makes of records that cannot be read."""
        segment = self._names.value_segment(row.number)
        step = RebuildStep(self._names.ledger, replace(now, sqn=gap.last_sqn))
        if gap.hashes is None:
            if not self._accept_loss:
                raise LostDataError(
                    "damage hides which objects were changed: older records cannot be trusted",
                    where=segment,
                    after_sqn=gap.after_sqn,
                    last_sqn=gap.last_sqn,
                    reason=gap.reason,
                )
            step.now = replace(step.now, unknown=(*now.unknown, row.number))
            return step
        doubt = Doubt(number=row.number, last_sqn=gap.last_sqn)
        for hashed in gap.hashes:
            self._doubts[hashed] = doubt
            step.add(doubtful_key(hashed), encode_doubt(doubt))
        return step

    # --- doubtful objects, and the index ----------------------------------------------------------

    async def _remove_expired(self, now: Rebuild, version: int) -> tuple[Rebuild, int]:
        """Remove what had expired when the newest record was made, whatever the clock says now.

        The last commit of it ends the phase, so one that was killed is begun again.
        """
        step = RebuildStep(self._names.ledger, now)
        end = expired_until(now.seen_ms // 1000)
        async for row_key, _ in self._table.scan(EXPIRY, end):
            key = decode_expiry_key(row_key)[1]
            head = await self._ledger.head(key)
            rows, size = rows_between(key, head, None)
            if step.size + size > self._commit_bytes:
                version = await self._commit(step.operations(), version)
                step = RebuildStep(self._names.ledger, now)
            step.put(rows, size)
        step.now = replace(now, phase=RebuildPhase.DOUBTFUL)
        return step.now, await self._commit(step.operations(), version)

    async def _remove_doubtful(self, now: Rebuild, version: int) -> int:
        """Remove the heads that a record which cannot be read may have replaced."""
        if not self._doubts:
            return version
        step = RebuildStep(self._names.ledger, now)
        async for row_key, found in self._table.scan(HEAD, after_prefix(HEAD)):
            key = decode_head_key(row_key)
            hashed = key_hash(key)
            doubt = self._doubts.get(hashed)
            if doubt is None:
                continue
            rows, size = rows_between(key, decode_head(found.value, where=row_key.hex()), None)
            if step.size + size > self._commit_bytes:
                version = await self._commit(step.operations(), version)
                step = RebuildStep(self._names.ledger, now)
            step.put(rows, size)
            step.add(doubtful_key(hashed, key), encode_doubt(doubt))
        return await self._commit(step.operations(), version)

    async def _end_large(self, now: Rebuild, version: int) -> int:
        """Let large values that no head shows be dead, unless one may be that of a lost record."""
        if self._doubts or now.unknown:
            return version
        step = RebuildStep(self._names.ledger, now)
        async for info in self._store.list(self._names.large_values):
            number = self._names.number_of_large(info.name)
            if number is None:
                continue
            live, dead = large_key(LargeStatus.LIVE, number), large_key(LargeStatus.DEAD, number)
            if await self._table.get(live) is None:
                step.add(dead, encode_large_row(LargeRow()))
            if step.size > self._commit_bytes // 2:
                version = await self._commit(step.operations(), version)
                step = RebuildStep(self._names.ledger, now)
        return await self._commit(step.operations(), version)

    async def _index(self, now: Rebuild, version: int, manifest: Manifest) -> tuple[Rebuild, int]:
        """Let functions make the index of their tags."""
        for tag in sorted(self._recalc, key=str.encode):
            prefix = heads_prefix(tag.encode(), None)
            start, end = max(prefix, now.position), after_prefix(prefix)
            if start >= end:
                continue
            step = RebuildStep(self._names.ledger, now)
            async for row_key, found in self._table.scan(start, end):
                key = decode_head_key(row_key)
                head = decode_head(found.value, where=row_key.hex())
                rows, size = await self._indexed(self._recalc[tag], key, head, manifest)
                if step.count == COMMIT_COUNT or step.size + size > self._commit_bytes:
                    step.now = now = replace(now, position=row_key)
                    version = await self._commit(step.operations(), version)
                    step = RebuildStep(self._names.ledger, now)
                step.put(rows, size)
            step.now = now = replace(now, position=end)
            version = await self._commit(step.operations(), version)
        return now, version

    async def _indexed(
        self, recalc: Recalc, key: ObjectKey, head: Head, manifest: Manifest
    ) -> tuple[list[LedgerRow], int]:
        bare = head._replace(entries=())
        value = await self._values.value(key, head, manifest) if recalc.reads_value else None
        entries = index_entries(recalc.index(ObjectHead(key, bare), value))
        check_index(key, entries, len(encode_entries(entries)))
        rows, size = rows_between(key, head, bare._replace(entries=entries))
        # The large value stays as it is: it is no other one that takes its place.
        return [row for row in rows if not row[0].startswith(LARGE_VALUE)], size

    # --- commits ----------------------------------------------------------------------------------

    async def _commit(self, operations: list[Operation], version: int) -> int:
        """Commit what a step does; return the version of the state afterwards."""
        ledger = self._names.ledger
        try:
            result = await self._store.commit(operations, [VersionIs(ledger, STATE, version)])
        except ConditionFailedError as error:
            raise RebuildingError(
                "something else rebuilds the keyspace", keyspace=self._names.name
            ) from error
        return result.version

    async def _report(self, now: Rebuild) -> RebuildReport:
        named = [each async for each in doubtful_objects(self._store, self._names)]
        hashes = set()
        async for row_key, _ in self._table.scan(DOUBTFUL, after_prefix(DOUBTFUL)):
            hashed, key = decode_doubtful_key(row_key)
            hashes.add((hashed, key is not None))
        unnamed = {hashed for hashed, _ in hashes} - {hashed for hashed, known in hashes if known}
        return RebuildReport(
            records=self._records,
            doubtful=tuple(named),
            unnamed=len(unnamed),
            unknown=tuple(map(self._names.value_segment, now.unknown)),
        )
