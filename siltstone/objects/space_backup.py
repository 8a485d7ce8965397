"""A backup of an open keyspace: the value segments that a place lacks are copied, then stated.

The ledger is not copied: it follows from the values. So nothing holds the application back but a
roll, and a compaction in the source touches nothing in the place.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from siltstone.core.checksums import crc32c_of
from siltstone.core.constants import MIB
from siltstone.core.environment import Pool, SystemEnvironment
from siltstone.core.errors import CorruptDataError, ReadOnlyError, StoreInUseError
from siltstone.core.records.backup import BackupObject
from siltstone.objects.ledger import manifest_of
from siltstone.objects.moment import Moment
from siltstone.objects.records.keys import (
    STATE,
    LargeStatus,
    after_prefix,
    decode_large_key,
    large_prefix,
)
from siltstone.objects.records.large_row import decode_large_row
from siltstone.objects.records.space_backup import CopiedSegment, LargeCopy, SpaceBackup
from siltstone.objects.records.space_rows import ManifestRow, ValueStatus, decode_state
from siltstone.objects.space_place import VALUES, SpacePlace, folder_of
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

READ_BYTES: Final = 4 * MIB

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
    """

    generation: int
    sqn: int
    segments: int
    large: int
    size: int
    copied: int
    copied_bytes: int


async def back_up(
    space: OpenSpace, place: Path | str, *, rate: int | None, takeover: bool
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
        before, moment = await space.sealed()
        try:
            return await _Copying(space, opened, taken, moment, before).run()
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
        self, space: OpenSpace, place: SpacePlace, taken: Lease, moment: Moment, before: Moment
    ) -> None:
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
        segments = [await self._segment(row, known) for row in rows]
        numbers = await self._large_numbers(next_sqn)
        large = [await self._large(number, known) for number in numbers]
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
            if row.status is not ValueStatus.SEALED:
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

    async def _segment(self, row: ManifestRow, known: Known) -> CopiedSegment:
        name = self._parts.names.value_segment(row.number)
        segment_id, objects = await self._copied_segment(name, row.footer_end, known)
        return CopiedSegment(segment_id=segment_id, row=row, objects=objects)

    async def _large(self, number: int, known: Known) -> LargeCopy:
        name = self._parts.names.large_segment(number)
        length = (await self._parts.store.segment(name).info()).length
        segment_id, objects = await self._copied_segment(name, length, known)
        return LargeCopy(segment_id=segment_id, number=number, length=length, objects=objects)

    async def _copied_segment(
        self, name: str, length: int, known: Known
    ) -> tuple[int, tuple[BackupObject, ...]]:
        """The id of a segment that never changes, and its bytes in the place."""
        self._moment.check()
        info = await self._parts.store.segment(name).info()
        found = known.get(info.segment_id)
        if found is not None and sum(each.length for each in found) == length:
            return info.segment_id, found
        objects = []
        for start in range(0, length, OBJECT_BYTES):
            stop = min(start + OBJECT_BYTES, length)
            buffers = await self._read(name, start, stop)
            made = BackupObject(
                name=f"{VALUES}{info.segment_id:016x}.{start}-{stop}",
                length=stop - start,
                crc=crc32c_of(buffers),
            )
            await self._run(partial(self._put, made, buffers))
            objects.append(made)
        self._copied += 1
        self._copied_bytes += length
        return info.segment_id, tuple(objects)

    async def _read(self, name: str, start: int, stop: int) -> list[bytes]:
        """Bytes of a value segment, which the store compares with their sums."""
        self._moment.check()
        segment = self._parts.store.segment(name)
        buffers = [
            await segment.read(begin, min(READ_BYTES, stop - begin))
            for begin in range(start, stop, READ_BYTES)
        ]
        if sum(map(len, buffers)) != stop - start:
            raise CorruptDataError("value segment ends before its footer", where=name)
        return buffers

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
