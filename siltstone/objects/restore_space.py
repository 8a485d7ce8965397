"""A restore: value segments come from a backup, and the ledger is rebuilt from them.

The keyspace is there from the first commit on, and refuses all verbs until the last one. Each value
segment is imported whole or not at all, so a restore that was interrupted goes on when it is
repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.container.models.imports import ImportOutput
from siltstone.container.models.segments import Operation, Put, VersionIs
from siltstone.core.bounded_calls import off_loop
from siltstone.core.environment import Pool
from siltstone.core.errors import (
    ConditionFailedError,
    CorruptDataError,
    ReadOnlyError,
    SegmentExistsError,
    SiltstoneError,
    StoreError,
)
from siltstone.objects.errors import KeyspaceExistsError
from siltstone.objects.ledger_rebuild import LedgerRebuild
from siltstone.objects.open_spaces import space_closed
from siltstone.objects.rebuild_plan import Recalc, check_recalc, state_after
from siltstone.objects.rebuild_report import RebuildReport
from siltstone.objects.records.keys import SPACE, STATE, manifest_key
from siltstone.objects.records.rebuild_rows import (
    Rebuild,
    RebuildPhase,
    decode_rebuild,
    encode_rebuild,
    is_rebuild,
)
from siltstone.objects.records.space_backup import (
    AbsentBytes,
    CopiedSegment,
    LargeCopy,
    SpaceBackup,
)
from siltstone.objects.records.space_rows import (
    ManifestRow,
    Space,
    encode_manifest_row,
    encode_space,
)
from siltstone.objects.space_names import FATE_ATTRIBUTE, SegmentFate
from siltstone.objects.space_place import (
    Progress,
    SpacePlace,
    no_progress,
    one_space,
    spaces_in,
)
from siltstone.objects.value_segments import active_row
from siltstone.store.handles.import_writer import ImportWriter
from siltstone.store.own_target import own_target
from siltstone.store.system_table import for_keyspaces

if TYPE_CHECKING:
    from siltstone.container.models.imports import ImportTicket
    from siltstone.core.records.backup import BackupObject
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore
    from siltstone.store.handles.import_writer import ImportTarget

_POOL: Final = Pool(name="siltstone-keyspace-restore", threads=1)


async def restore_space(
    store: AsyncStore,
    names: SpaceNames,
    place: Path | str,
    *,
    keyspace: str | None,
    of: str | None,
    generation: int | None,
    recalc: Mapping[str, Recalc],
    allow_missing: bool = False,
    progress: Progress = no_progress,
) -> RebuildReport:
    """Make a keyspace of a backup. See ``restore_async``."""
    if store.read_only:
        raise ReadOnlyError("the store was opened read-only", keyspace=names.name)
    store = for_keyspaces(store)
    run = partial(store.environment.run_blocking, _POOL)
    stack = ExitStack()

    def found() -> tuple[SpacePlace, SpaceBackup]:
        spaces = stack.enter_context(spaces_in(place))
        space = one_space(spaces, keyspace, of, place=place)
        return space, space.generation(generation)

    try:
        opened, backup = await run(found)
        if backup.missing and not allow_missing:
            raise StoreError(
                "the backup was made without bytes that were damaged then; allow_missing restores "
                f"what there is; the first: {backup.missing[0]}",
                count=len(backup.missing),
                generation=backup.generation,
            )
        space = Space(tags=dict(backup.tags))
        check_recalc(space, recalc)
        restoring = _Restoring(
            store, names, opened, backup, allow_missing=allow_missing, progress=progress
        )
        await restoring.check()  # before handles are closed
        async with space_closed(store, names):
            await restoring.begin(space)
        await restoring.bring()
    finally:
        await run(stack.close)
    rebuild = LedgerRebuild(store, names, space, recalc, accept_loss=allow_missing)
    return replace(await rebuild.run(), missing=(*backup.missing, *restoring.missing))


class _Restoring:
    """One restore, up to the rebuild of the ledger."""

    def __init__(
        self,
        store: AsyncStore,
        names: SpaceNames,
        place: SpacePlace,
        backup: SpaceBackup,
        *,
        allow_missing: bool,
        progress: Progress,
    ) -> None:
        self._allow_missing = allow_missing
        self._progress = progress
        self._done = 0
        self.missing: list[AbsentBytes] = []
        self._store = store
        self._names = names
        self._place = place
        self._backup = backup
        self._source = (
            f"{backup.store_id.hex()}/{backup.keyspace}/{backup.generation}/{backup.made_ms}"
        )
        rows = [each.row for each in backup.segments]
        state = state_after(rows, max((row.number for row in rows), default=0))
        self._state = replace(state, next_sqn=backup.next_sqn, first_sqn=backup.next_sqn)

    async def check(self) -> bool:
        """Whether the keyspace comes from this backup already; else there is none of the name.

        Raises:
            KeyspaceExistsError: there is a keyspace of this name, or something is left of one.
        """
        ledger = self._names.ledger
        await self._store.create_table(ledger, exist_ok=True)
        table = self._store.table(ledger)
        found, state = await table.get(SPACE), await table.get(STATE)
        if state is not None and is_rebuild(state.value):
            now = decode_rebuild(state.value, where=self._names.name)
            if now.source == self._source:
                return True
        values = [info async for info in self._store.list(self._names.prefix)]
        if found is not None or state is not None or values:
            raise KeyspaceExistsError(
                "there is such a keyspace, or values of one", keyspace=self._names.name
            )
        return False

    async def begin(self, space: Space) -> None:
        """Say that the keyspace comes from this backup, unless that was said before.

        Raises:
            KeyspaceExistsError: there is a keyspace of this name, or something is left of one.
        """
        ledger = self._names.ledger
        if await self.check():
            return
        begun = Rebuild(phase=RebuildPhase.VALUES, state=self._state, source=self._source)
        operations: list[Operation] = [
            Put(ledger, SPACE, encode_space(space)),
            Put(ledger, STATE, encode_rebuild(begun)),
        ]
        conditions = [VersionIs(ledger, SPACE, None), VersionIs(ledger, STATE, None)]
        try:
            await self._store.commit(operations, conditions)
        except ConditionFailedError as error:
            raise KeyspaceExistsError(
                "there is such a keyspace", keyspace=self._names.name
            ) from error

    async def bring(self) -> None:
        """Import the value segments that are not here, and then let the manifest name all."""
        found = await self._store.table(self._names.ledger).get(STATE)
        assert found is not None, "the restore was begun"
        now = decode_rebuild(found.value, where=self._names.name)
        wanted = self._wanted()
        if now.phase is not RebuildPhase.VALUES:
            for _, each in wanted:
                await self._pass(each)
            return
        here = {info.name async for info in self._store.list(self._names.prefix)}
        target = await own_target(self._store)
        try:
            for name, each in wanted:
                if name in here:
                    await self._pass(each)
                else:
                    await self._import(target, each, name)
        finally:
            await off_loop(target.close)
        await self._store.create(self._names.value_segment(now.state.number), exist_ok=True)
        rows: list[ManifestRow] = [each.row for each in self._backup.segments]
        rows.append(active_row(now.state))
        ledger = self._names.ledger
        records = replace(now, phase=RebuildPhase.RECORDS)
        operations: list[Operation] = [
            Put(ledger, manifest_key(row.first_sqn), encode_manifest_row(row)) for row in rows
        ]
        operations.append(Put(ledger, STATE, encode_rebuild(records)))
        await self._store.commit(operations, [VersionIs(ledger, STATE, found.version)])

    def _wanted(self) -> list[tuple[str, CopiedSegment | LargeCopy]]:
        """The segments of the backup, by the names that they get."""
        wanted: list[tuple[str, CopiedSegment | LargeCopy]] = [
            (self._names.value_segment(each.row.number), each) for each in self._backup.segments
        ]
        wanted += [
            (self._names.large_segment(each.number), each)
            for each in self._backup.large
            if each.length  # else it was gone
        ]
        return wanted

    async def _pass(self, copy: CopiedSegment | LargeCopy) -> None:
        """Pass over a segment that an earlier try brought, maybe without all of its bytes."""
        run = partial(self._store.environment.run_blocking, _POOL)
        start = 0
        for each in copy.objects:
            if self._allow_missing:  # only such a try takes damage, and the report has to name it
                await run(partial(self._read, copy, each, start))
            start += each.length
            self._told(each.length)

    async def _import(
        self, target: ImportTarget, copy: CopiedSegment | LargeCopy, name: str
    ) -> None:
        """Import a segment, its bytes compared with their sums."""
        run = partial(self._store.environment.run_blocking, _POOL)
        session = f"{name} {self._store.environment.uuid().hex()}"
        ticket = await self._store.open_import(session, name)
        try:
            writer = ImportWriter(target, ticket, partition=0, attempt=0)
            start = 0
            for each in copy.objects:
                data = await run(partial(self._read, copy, each, start))
                await run(partial(writer.write, data))
                start += each.length
                self._told(each.length)
            chunks = await run(writer.finish)
            is_compacted = isinstance(copy, CopiedSegment) and copy.row.as_of
            attributes = {FATE_ATTRIBUTE: SegmentFate.NAMED.value} if is_compacted else {}
            # One that damage left without a footer may get it, as in the store that it came from.
            is_rolling = isinstance(copy, CopiedSegment) and not copy.row.footer_end
            output = ImportOutput(
                segment=name,
                chunks=chunks,
                sealed=False if is_rolling else None,
                attributes=attributes,
            )
            await self._store.commit_import(ticket, [output])
        except SegmentExistsError:
            await self._abort(ticket)  # a try before without an answer brought the same
        except BaseException:
            await asyncio.shield(self._abort(ticket))
            raise

    def _read(self, copy: CopiedSegment | LargeCopy, found: BackupObject, start: int) -> bytes:
        """The bytes of an object; with ``allow_missing`` those that are there."""
        try:
            return self._place.read(found)
        except CorruptDataError as error:
            if not self._allow_missing:
                raise
            is_large = isinstance(copy, LargeCopy)
            number = copy.number if isinstance(copy, LargeCopy) else copy.row.number
            lack = AbsentBytes(
                is_large=is_large,
                number=number,
                start=start,
                stop=start + found.length,
                reason=str(error),
            )
            self.missing.append(lack)
            return self._place.read_what_is_there(found)

    def _told(self, size: int) -> None:
        self._done += size
        self._progress(self._done, self._backup.size)

    async def _abort(self, ticket: ImportTicket) -> None:
        try:
            await self._store.abort_import(ticket)
        except SiltstoneError:
            return  # it expires by itself
