"""A backup of an open keyspace: the value segments that a place lacks are copied, then stated.

The ledger is not copied: it follows from the values. So nothing holds the application back but a
roll, and a compaction in the source touches nothing in the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from siltstone.core.checksums import crc32c_of
from siltstone.core.constants import MIB
from siltstone.core.environment import Pool, SystemEnvironment
from siltstone.core.errors import (
    CorruptDataError,
    ReadOnlyError,
    SegmentNotFoundError,
    SiltstoneError,
    StoreInUseError,
)
from siltstone.core.records.backup import BackupObject
from siltstone.core.text import counted
from siltstone.objects.ledger import manifest_of
from siltstone.objects.moment import Moment
from siltstone.objects.readable_bytes import readable
from siltstone.objects.records.keys import (
    STATE,
    LargeStatus,
    after_prefix,
    decode_large_key,
    large_prefix,
)
from siltstone.objects.records.large_row import decode_large_row
from siltstone.objects.records.space_backup import (
    AbsentBytes,
    CopiedSegment,
    LargeCopy,
    SpaceBackup,
    bytes_of,
)
from siltstone.objects.records.space_rows import ManifestRow, ValueStatus, decode_state
from siltstone.objects.space_place import VALUES, Progress, SpacePlace, folder_of, no_progress
from siltstone.store.admin.place_objects import check_no_store, put
from siltstone.store.admin.place_settings import find_place, open_place
from siltstone.store.admin.place_turns import Lease, turn

if TYPE_CHECKING:
    from siltstone.core.environment import Environment
    from siltstone.objects.open_space import OpenSpace

T = TypeVar("T")
Known = dict[int, tuple[BackupObject, ...]]
"""What the place has of segments, by their ids in the store."""

OBJECT_BYTES: Final = 32 * MIB
"""Most bytes of an object of a value segment; so many are in memory."""

NAMED_MAX: Final = 10
"""Damaged segments that an error names."""

_POOL: Final = Pool(name="siltstone-keyspace-backup", threads=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyspaceBackupReport:
    """What one backup of a keyspace did.

    Attributes:
        generation: its number; later ones are higher.
        sqn: SQN of the newest change that it has; 0 for none.
        segments: value segments that it has.
        large: large values that it has.
        size: bytes of both.
        copied: how many segments and large values this call copied; the place had the others.
        copied_bytes: bytes of these.
        missing: what could not be read; empty unless that was allowed.
    """

    generation: int
    sqn: int
    segments: int
    large: int
    size: int
    copied: int
    copied_bytes: int
    missing: tuple[AbsentBytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What is to be copied of a segment.

    Attributes:
        name: of the segment.
        number: of the value segment, or of the large value.
        is_large: which of the two it is.
        segment_id: of the segment in its store; 0 for one that is not there.
        length: bytes that it has, or had.
        known: the objects that the place has of it; ``None`` when it is to be copied.
    """

    name: str
    number: int
    is_large: bool
    segment_id: int
    length: int
    known: tuple[BackupObject, ...] | None = None


def _lack(plan: _Plan, at: int, reason: str) -> AbsentBytes:
    """What a segment lacks at an offset, though no bytes are there that could be read."""
    return AbsentBytes(is_large=plan.is_large, number=plan.number, start=at, stop=at, reason=reason)


async def back_up(
    space: OpenSpace,
    place: Path | str,
    *,
    rate: int | None,
    takeover: bool,
    allow_missing: bool = False,
    progress: Progress = no_progress,
) -> KeyspaceBackupReport:
    """Make a backup of an open keyspace. See ``AsyncKeyspace.backup``."""
    space.parts.check_values("a backup")
    if space.parts.store.read_only:  # before the place is made
        raise ReadOnlyError("the store was opened read-only", keyspace=space.parts.names.name)
    environment = space.parts.store.environment
    run = partial(environment.run_blocking, _POOL)
    opening = _PlaceOpening(space, place, rate=rate, takeover=takeover)
    try:
        opened, taken = await run(opening.open)
        before, moment, damaged = await space.sealed()
        try:
            copying = _Copying(
                space,
                opened,
                taken,
                moment,
                before,
                damaged,
                allow_missing=allow_missing,
                progress=progress,
            )
            return await copying.run()
        finally:
            moment.release()
            before.release()
    finally:
        await run(opening.close)


class _PlaceOpening:
    """A place, opened, and the turn in it."""

    def __init__(
        self, space: OpenSpace, place: Path | str, *, rate: int | None, takeover: bool
    ) -> None:
        self._folder = folder_of(space_store_id(space), space.parts.names.name)
        self._place = place
        self._rate = rate
        self._takeover = takeover
        self._stack = ExitStack()

    def open(self) -> tuple[SpacePlace, Lease]:
        """Open it, and take the turn."""
        found = find_place(self._place)
        environment: Environment = SystemEnvironment()
        self._stack.callback(environment.close)
        storage = open_place(found, environment, rate=self._rate, make=True)
        self._stack.callback(storage.close)
        check_no_store(storage, found.path)
        opened = SpacePlace(storage, environment, self._folder)
        return opened, self._stack.enter_context(turn(opened, takeover=self._takeover))

    def close(self) -> None:
        """Give the turn back, and close it."""
        self._stack.close()


def space_store_id(space: OpenSpace) -> bytes:
    """The id of the store of a keyspace, 16 bytes."""
    return bytes.fromhex(space.parts.store.uuid.replace("-", ""))


class _Copying:
    """One backup: what the place lacks is copied, and then the record is written."""

    def __init__(
        self,
        space: OpenSpace,
        place: SpacePlace,
        taken: Lease,
        moment: Moment,
        before: Moment,
        damaged: Mapping[int, SiltstoneError],
        *,
        allow_missing: bool,
        progress: Progress,
    ) -> None:
        self._damaged = damaged
        self._allow_missing = allow_missing
        self._progress = progress
        self._missing: list[AbsentBytes] = []
        self._total = 0
        self._space = space
        self._parts = space.parts
        self._place = place
        self._turn = taken
        self._moment = moment
        self._before = before
        self._copied = 0
        self._copied_bytes = 0

    async def run(self) -> KeyspaceBackupReport:
        made_ms = max(0, int(self._parts.store.environment.time() * 1000))
        rows, next_sqn = await self._rows()
        begun = await self._before.ledger.get(STATE)
        if begun is not None:
            least = decode_state(begun.value, where=self._parts.names.name).next_sqn
            assert next_sqn >= least, "all that was acknowledged is in segments with footers"
        known = await self._run(self._place.known)
        plans = [await self._plan(row.number, bytes_of(row), known, is_large=False) for row in rows]
        numbers = await self._large_numbers(next_sqn)
        large_plans = [await self._plan(number, 0, known, is_large=True) for number in numbers]
        every = [*plans, *large_plans]
        self._total = sum(plan.length for plan in every if plan.known is None)
        self._missing += [
            _lack(plan, plan.length, "it is gone") for plan in large_plans if not plan.segment_id
        ]
        self._missing += [
            _lack(plan, plan.length, f"it has no footer: {self._damaged[plan.number]}")
            for plan in plans
            if plan.number in self._damaged
        ]
        segments = [
            CopiedSegment(segment_id=plan.segment_id, row=row, objects=await self._objects(plan))
            for plan, row in zip(plans, rows, strict=True)
        ]
        large = [
            LargeCopy(
                segment_id=plan.segment_id,
                number=plan.number,
                length=plan.length,
                objects=await self._objects(plan),
            )
            for plan in large_plans
        ]
        self._refuse()
        backup = SpaceBackup(
            store_id=space_store_id(self._space),
            generation=self._turn.number,
            made_ms=made_ms,
            owner=self._turn.owner,
            keyspace=self._parts.names.name,
            next_sqn=next_sqn,
            tags=dict(self._parts.space.tags),
            segments=tuple(segments),
            large=tuple(large),
            missing=tuple(self._missing),
        )
        await self._run(partial(self._state, backup))
        return KeyspaceBackupReport(
            generation=backup.generation,
            sqn=next_sqn - 1,
            segments=len(segments),
            large=len(large),
            size=backup.size,
            copied=self._copied,
            copied_bytes=self._copied_bytes,
            missing=backup.missing,
        )

    async def _run(self, call: Callable[[], T]) -> T:
        return await self._parts.store.environment.run_blocking(_POOL, call)

    async def _rows(self) -> tuple[list[ManifestRow], int]:
        """The value segments that are whole, and the SQN after them."""
        where = self._parts.names.name
        ledger = self._moment.ledger
        state = await ledger.get(STATE)
        if state is None:
            raise CorruptDataError("keyspace has no state", where=where)
        rows: list[ManifestRow] = []
        for row in await manifest_of(ledger.scan, where=where):
            if row.status is not ValueStatus.SEALED and row.number not in self._damaged:
                return rows, row.first_sqn  # later changes came after the roll
            rows.append(row)
        return rows, decode_state(state.value, where=where).next_sqn

    async def _large_numbers(self, next_sqn: int) -> list[int]:
        """The large values of changes below an SQN, also those that were replaced just now."""
        found = []
        for status in (LargeStatus.LIVE, LargeStatus.DEAD):
            prefix = large_prefix(status)
            async for row_key, row in self._moment.ledger.scan(prefix, after_prefix(prefix)):
                is_kept = status is LargeStatus.LIVE or row.version > self._before.version
                if is_kept and 0 < decode_large_row(row.value, where=row_key.hex()).sqn < next_sqn:
                    found.append(decode_large_key(row_key)[1])
        return sorted(found)

    async def _plan(self, number: int, length: int, known: Known, *, is_large: bool) -> _Plan:
        """What is to be copied of a segment that never changes.

        Args:
            number: of the value segment, or of the large value.
            length: of the segment, if it is not there.
            known: what the place has.
            is_large: which of the two it is.
        """
        names = self._parts.names
        name = names.large_segment(number) if is_large else names.value_segment(number)
        try:
            info = await self._parts.store.segment(name).info()
        except SegmentNotFoundError:
            return _Plan(name=name, number=number, is_large=is_large, segment_id=0, length=length)
        length = info.length if is_large else length
        found = known.get(info.segment_id)
        if found is not None and sum(each.length for each in found) != length:
            found = None
        return _Plan(
            name=name,
            number=number,
            is_large=is_large,
            segment_id=info.segment_id,
            length=length,
            known=found,
        )

    async def _objects(self, plan: _Plan) -> tuple[BackupObject, ...]:
        """The bytes of a segment in the place, copied unless they are there."""
        if plan.known is not None:
            return plan.known
        segment = self._parts.store.segment(plan.name)
        stem = f"{plan.segment_id:016x}" if plan.segment_id else f"gone-{plan.number}"
        objects = []
        for start in range(0, plan.length, OBJECT_BYTES):
            self._moment.check()
            stop = min(start + OBJECT_BYTES, plan.length)
            buffers, gaps = await readable(segment, start, stop)
            self._missing += [
                AbsentBytes(is_large=plan.is_large, number=plan.number, **gap._asdict())
                for gap in gaps
            ]
            # Another backup may have the same bytes whole, now or later: not under this name.
            made = BackupObject(
                name=f"{VALUES}{stem}.{start}-{stop}{f'.{self._turn.number}' if gaps else ''}",
                length=stop - start,
                crc=crc32c_of(buffers),
            )
            if self._allow_missing or not self._missing:  # else the rest is read to name what lacks
                await self._run(partial(self._put, made, buffers))
            objects.append(made)
            self._copied_bytes += stop - start
            self._progress(self._copied_bytes, self._total)
        self._copied += 1
        return tuple(objects)

    def _refuse(self) -> None:
        """Raise ``CorruptDataError`` if bytes are missing and that is not allowed."""
        if self._missing and not self._allow_missing:
            segments = dict.fromkeys(each.segment for each in self._missing)
            raise CorruptDataError(
                f"{counted(len(segments), 'segment')} of the keyspace cannot be read as a whole, "
                "so there is no backup; allow_missing makes one that says what it lacks; the "
                f"first: {self._missing[0].reason}",
                where=self._parts.names.name,
                segments=",".join(list(segments)[:NAMED_MAX]),
            )

    def _put(self, made: BackupObject, buffers: list[bytes]) -> None:
        self._turn.check()
        put(self._place.storage, self._place.folder + made.name, buffers)

    def _state(self, backup: SpaceBackup) -> None:
        self._turn.check()
        self._place.state(backup)
        try:
            self._turn.check()
        except StoreInUseError:
            # A call that took the turn before the record was there may delete what it names.
            self._place.forget(backup.generation)
            raise
