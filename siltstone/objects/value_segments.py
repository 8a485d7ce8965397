"""Value segments: the next one begins when one is full, and a full one gets its footer.

A roll is one commit. The footer follows from the records, so one that a crash cut is finished by
the next owner, from where it ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from siltstone.container.models.segments import Append, LengthIs, Put, VersionIs
from siltstone.core.constants import MIB
from siltstone.core.environment import Pool
from siltstone.core.errors import CorruptDataError, FencedError, SiltstoneError
from siltstone.objects.ledger import Versioned
from siltstone.objects.records.footer import (
    TRAILER_BYTES,
    HeaderNote,
    PlainNote,
    encode_footer,
    note_of,
)
from siltstone.objects.records.keys import STATE, manifest_key
from siltstone.objects.records.limits import VALUE_BYTES_MAX
from siltstone.objects.records.space_rows import (
    ManifestRow,
    SpaceState,
    ValueStatus,
    encode_manifest_row,
    encode_state,
)
from siltstone.objects.value_log import scan

if TYPE_CHECKING:
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore

_log = logging.getLogger(__name__)

PIECE_BYTES: Final = 4 * MIB
"""Appended at a time."""

DELAY_S: Final = 1.0
DELAY_MAX_S: Final = 60.0

_POOL: Final = Pool(name="siltstone-footers", threads=1)


Begin = Callable[[Coroutine[Any, Any, None]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RollLimits:
    """When a value segment takes no more records, and which values are segments of their own.

    Attributes:
        length: it has so many bytes.
        records: it has so many records.
        value: most bytes of a value in it; it is less where frames of tier 1 are small.
        piece: bytes of each piece of a larger one that has a sum, at least 1.
    """

    length: int = 256 * MIB
    records: int = 65_536
    value: int = VALUE_BYTES_MAX
    piece: int = MIB


class ValueSegments:
    """Begins and ends the value segments of a keyspace. See ``batches.Rolling``.

    Args:
        store: of the keyspace.
        names: of the keyspace.
        limits: when a segment is full.
        begin: begins work that goes on next to the batches.
    """

    def __init__(
        self, store: AsyncStore, names: SpaceNames, limits: RollLimits, begin: Begin
    ) -> None:
        self._store = store
        self._names = names
        self._limits = limits
        self._begin = begin
        self._unsure: ManifestRow | None = None
        """What a roll whose outcome is unknown makes of the segment that was active."""
        self._notes: list[PlainNote] = []
        self._due = 0
        """The segment of this number takes no more records, although it has room."""
        self._footers: dict[int, asyncio.Future[None]] = {}
        """By number what is told when a footer is whole, or the next try of it failed."""
        self._number = self._since = self._end = 0
        """Between two offsets of the segment of this number there are notes of all records."""

    def is_full(self, number: int, length: int, records: int) -> bool:
        """See ``batches.Rolling``."""
        if number == self._due and records:
            return True
        return length >= self._limits.length or records >= self._limits.records

    def end(self, number: int) -> None:
        """Let the active segment of this number take no more records, once it has any."""
        self._due = number

    async def has_footer(self, number: int) -> bool:
        """Wait up to a second until a segment that was rolled has its footer; return whether.

        Raises:
            SiltstoneError: a try to write it failed; there will be others.
        """
        future = self._footers.get(number)
        if future is None:
            return True
        done, _ = await asyncio.wait([future], timeout=1)
        for each in done:
            each.result()
        return bool(done)

    def acknowledged(self, batch: SpaceState, notes: list[PlainNote]) -> None:
        """See ``batches.Rolling``."""
        if (batch.number, batch.length) != (self._number, self._end):
            # What is between was never acknowledged, and is there.
            self._notes, self._number, self._since = [], batch.number, batch.length
        self._notes += notes
        self._end = batch.length + sum([note[3] for note in notes])

    def found(self, state: SpaceState) -> None:
        """See ``batches.Rolling``."""
        if self._unsure is not None and self._unsure.number != state.number:
            self._rolled(self._unsure)
        self._unsure = None

    async def roll(self, found: Versioned) -> Versioned:
        """See ``batches.Rolling``.

        Raises:
            ConditionFailedError: something else wrote to the ledger.
            SiltstoneError: the store refused; nothing changed, or that is unknown.
        """
        state, ledger = found.state, self._names.ledger
        full, following = full_row(state), following_state(state, state.next_sqn)
        await self._store.create(self._names.value_segment(following.number), exist_ok=True)
        self._unsure = full
        result = await self._store.commit(
            [
                _put(ledger, full),
                _put(ledger, active_row(following)),
                Put(ledger, STATE, encode_state(following)),
            ],
            [VersionIs(ledger, STATE, found.version)],
        )
        self._unsure = None
        self._rolled(full)
        return Versioned(following, result.version)

    def _rolled(self, full: ManifestRow) -> None:
        """Begin the footer of the segment that was active."""
        known = (self._number, self._end) == (full.number, full.length)
        notes = [HeaderNote(*each) for each in self._notes] if known else []
        since = self._since if known else full.length
        self._notes, self._number, self._end = [], 0, 0
        self._footers[full.number] = asyncio.get_running_loop().create_future()
        self._begin(self._finish(full, notes, since))

    def finish(self, row: ManifestRow) -> None:
        """Write the footer of a segment that an owner before left without one."""
        self._footers[row.number] = asyncio.get_running_loop().create_future()
        self._begin(self._finish(row, [], row.length))

    async def _finish(self, row: ManifestRow, notes: list[HeaderNote], since: int) -> None:
        """Write the footer, however often that needs to be tried, until cancelled."""
        delay_s = DELAY_S
        while True:
            try:
                await self._write_footer(row, notes, since)
            except FencedError as error:
                future = self._footers[row.number]
                future.set_exception(error)
                future.exception()  # mostly nothing waits
                return
            except SiltstoneError as error:  # a container that is closed may be open again soon
                self._tell(row.number, error)
                segment = self._names.value_segment(row.number)
                _log.warning("footer of %s: %s", segment, error)
                await self._store.environment.sleep(delay_s)
                delay_s = min(2 * delay_s, DELAY_MAX_S)
            else:
                self._footers.pop(row.number).set_result(None)
                return

    def _tell(self, number: int, error: SiltstoneError) -> None:
        """Tell who waits for a footer that a try of it failed."""
        future = self._footers[number]
        self._footers[number] = asyncio.get_running_loop().create_future()
        future.set_exception(error)
        future.exception()  # mostly nothing waits

    async def _write_footer(self, row: ManifestRow, notes: list[HeaderNote], since: int) -> None:
        segment = self._store.segment(self._names.value_segment(row.number))
        before = [note_of(each.raw, each.header) async for each in scan(segment, 0, since)]
        call = partial(
            encode_footer, [*before, *notes], start=row.length, as_of=row.as_of, where=segment.name
        )
        footer = await self._store.environment.run_blocking(_POOL, call)
        info = await segment.info()
        end = row.length + len(footer)
        if not row.length <= info.length <= end:
            raise CorruptDataError(
                "value segment has another length than its records and footer",
                where=segment.name,
                length=info.length,
                records=row.length,
            )
        trailer = end - TRAILER_BYTES
        piece_bytes = min(PIECE_BYTES, segment.append_bytes_max)
        for position in range(info.length, trailer, piece_bytes):
            start, after = position - row.length, min(position + piece_bytes, trailer)
            await segment.append(footer[start : after - row.length], expected_offset=position)
        if info.length < end:
            # By a commit with a row, after which no later row goes ahead of the footer's bytes.
            position = max(trailer, info.length)
            await self._store.commit(
                [
                    Append(segment.name, footer[position - row.length :]),
                    _put(self._names.ledger, row),
                ],
                [LengthIs(segment.name, position)],
            )
        await segment.seal()
        sealed = replace(row, status=ValueStatus.SEALED, footer_end=end)
        await self._store.commit([_put(self._names.ledger, sealed)])


def active_row(state: SpaceState) -> ManifestRow:
    """The row of the segment that takes records."""
    return ManifestRow(number=state.number, status=ValueStatus.ACTIVE, first_sqn=state.first_sqn)


def full_row(state: SpaceState) -> ManifestRow:
    """The row of the segment that took records, once it takes no more."""
    return ManifestRow(
        number=state.number,
        status=ValueStatus.ROLLING,
        first_sqn=state.first_sqn,
        last_sqn=state.next_sqn - 1,
        length=state.length,
        records=state.records,
    )


def following_state(state: SpaceState, next_sqn: int) -> SpaceState:
    """The state in which the next segment takes the next records, from an SQN on."""
    return SpaceState(
        next_sqn=next_sqn,
        number=state.next_number,
        first_sqn=next_sqn,
        length=0,
        records=0,
        next_number=state.next_number + 1,
    )


def _put(ledger: str, row: ManifestRow) -> Put:
    return Put(ledger, manifest_key(row.first_sqn), encode_manifest_row(row))
