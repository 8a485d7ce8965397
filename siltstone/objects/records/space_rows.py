"""The few rows of a ledger that are about the keyspace itself: what it is, how far it has come.

Layouts, with the shapes of ``core/records/wire.py``; an index entry's value is below::

    space:     kind: u8 = 2, version: u8 = 1
               partitions: uvarint = 1
               flags: u8                       0 = values | 1 = heads only, with look-up
                                               | 2 = heads only, without
               tags: uvarint, then for each: text, strategy: u8
    state:     kind: u8 = 3, version: u8 = 1
               next_sqn, number, first_sqn, length, records, next_number: uvarint
    manifest:  kind: u8 = 4, version: u8 = 1
               number: uvarint
               status: u8                      1 = active | 2 = rolling | 3 = sealed
               last_sqn, length, records, footer_end, as_of, kept: uvarint
    task:      kind: u8 = 6, version: u8 = 1
               not_before_s: uvarint           seconds since 1970
    index entry: expires_s: uvarint, the rest of a row with kind: u8 = 5, version: u8 = 1
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.wire import Reader, head, text, uvarint

_SPACE: Final = 2
_STATE: Final = 3
_MANIFEST: Final = 4
_ENTRY: Final = 5
_TASK: Final = 6
_VERSION: Final = 1

NUMBER_MAX: Final = 2**32 - 1
"""The highest number of a value segment, in four bytes of a head."""


class Strategy(IntEnum):
    """What value compaction keeps of changes that were replaced. Numbers are persisted."""

    RECOVR = 1
    """Nothing."""
    RETAIN = 2
    """The header of each."""
    RECALC = 3
    """Nothing; a rebuild makes the index by a function of the application."""


class HeadOnly(IntEnum):
    """What a keyspace without values can do. Numbers are persisted."""

    WITH_LOOKUP = 1
    """A change looks at the heads before it, and callers at single heads."""
    NO_LOOKUP = 2
    """A change reads nothing, and callers only fold."""


ENTRY_TAG: Final = "h"
"""The one tag of keyspaces that have heads only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What a keyspace is; written once.

    Attributes:
        tags: strategy of each tag.
        head_only: what it can do if it has heads only; ``None`` when objects have values.
    """

    tags: dict[str, Strategy]
    head_only: HeadOnly | None = None


def encode_space(space: Space) -> bytes:
    """Encode the value of the row."""
    flags = bytes((space.head_only or 0,))
    parts = [head(_SPACE, _VERSION), uvarint(1), flags, uvarint(len(space.tags))]
    for tag, strategy in sorted(space.tags.items()):
        parts += (text(tag), bytes((strategy,)))
    return b"".join(parts)


def decode_space(value: bytes, *, where: str) -> Space:
    """Decode the value of the row. Raises ``CorruptDataError`` and ``FormatError``."""
    reader = Reader(value, kind=_SPACE, version=_VERSION, where=where)
    partitions, flags = reader.uvarint(), reader.u8()
    if partitions != 1 or flags not in (0, *HeadOnly):
        raise FormatError("keyspace of an unknown shape", keyspace=where)
    tags: dict[str, Strategy] = {}
    for _ in range(reader.uvarint()):
        tag, strategy = reader.text(), reader.u8()
        if tag in tags:
            raise reader.damaged("keyspace has a tag twice")
        if strategy not in Strategy.__members__.values():
            raise FormatError("unknown strategy of a tag", keyspace=where, strategy=strategy)
        tags[tag] = Strategy(strategy)
    reader.end()
    if flags and list(tags) != [ENTRY_TAG]:
        raise FormatError("keyspace of an unknown shape", keyspace=where)
    return Space(tags=tags, head_only=HeadOnly(flags) if flags else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceState:
    """What the next batch begins with; a part of every batch.

    Attributes:
        next_sqn: number of the next change, at least 1.
        number: of the active value segment.
        first_sqn: the SQN that it begins with.
        length: its bytes.
        records: how many it has.
        next_number: of the next value segment or large value; no number is used twice.
    """

    next_sqn: int
    number: int
    first_sqn: int
    length: int
    records: int
    next_number: int


def encode_state(state: SpaceState) -> bytes:
    """Encode the value of the row."""
    return head(_STATE, _VERSION) + state_fields(state)


def decode_state(value: bytes, *, where: str) -> SpaceState:
    """Decode the value of the row. Raises ``CorruptDataError`` and ``FormatError``."""
    reader = Reader(value, kind=_STATE, version=_VERSION, where=where)
    state = read_state(reader)
    reader.end()
    return state


def state_fields(state: SpaceState) -> bytes:
    """Encode a state as a part of a row."""
    numbers = (
        state.next_sqn,
        state.number,
        state.first_sqn,
        state.length,
        state.records,
        state.next_number,
    )
    return b"".join(map(uvarint, numbers))


def read_state(reader: Reader) -> SpaceState:
    """Decode what ``state_fields`` encodes. Raises ``CorruptDataError`` if it cannot be."""
    state = SpaceState(
        next_sqn=reader.uvarint(),
        number=reader.uvarint(),
        first_sqn=reader.uvarint(),
        length=reader.uvarint(),
        records=reader.uvarint(),
        next_number=reader.uvarint(),
    )
    if not (
        1 <= state.first_sqn <= state.next_sqn
        and state.records <= state.next_sqn - state.first_sqn
        and state.number < state.next_number <= NUMBER_MAX
    ):
        raise reader.damaged("state of a keyspace contradicts itself")
    return state


class ValueStatus(IntEnum):
    """How far a value segment is. Numbers are persisted and never change."""

    ACTIVE = 1
    """It takes records."""
    ROLLING = 2
    """It takes its footer."""
    SEALED = 3
    """It is whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRow:
    """A value segment; its first SQN is in the key of the row.

    Attributes:
        number: of the segment.
        status: how far it is.
        first_sqn: of its first record.
        last_sqn: of its last record; 0 while it is active.
        length: bytes of its records; 0 while it is active.
        records: how many it has; 0 while it is active.
        footer_end: where its footer ends; 0 until it is sealed.
        as_of: newest SQN that was looked at when it was compacted; 0 if it never was.
        kept: bytes of records without a value that compaction kept then.
    """

    number: int
    status: ValueStatus
    first_sqn: int
    last_sqn: int = 0
    length: int = 0
    records: int = 0
    footer_end: int = 0
    as_of: int = 0
    kept: int = 0


def encode_manifest_row(row: ManifestRow) -> bytes:
    """Encode the value of the row."""
    numbers = (row.last_sqn, row.length, row.records, row.footer_end, row.as_of, row.kept)
    parts = [head(_MANIFEST, _VERSION), uvarint(row.number), bytes((row.status,))]
    return b"".join([*parts, *map(uvarint, numbers)])


def decode_manifest_row(first_sqn: int, value: bytes, *, where: str) -> ManifestRow:
    """Decode the value of the row. Raises ``CorruptDataError`` and ``FormatError``."""
    reader = Reader(value, kind=_MANIFEST, version=_VERSION, where=where)
    number, status = reader.uvarint(), reader.u8()
    if number > NUMBER_MAX:
        raise reader.damaged("value segment has an impossible number")
    if status not in ValueStatus.__members__.values():
        raise CorruptDataError("value segment in an unknown status", where=where, status=status)
    row = ManifestRow(
        number=number,
        status=ValueStatus(status),
        first_sqn=first_sqn,
        last_sqn=reader.uvarint(),
        length=reader.uvarint(),
        records=reader.uvarint(),
        footer_end=reader.uvarint(),
        as_of=reader.uvarint(),
        kept=reader.uvarint(),
    )
    reader.end()
    return row


@lru_cache(maxsize=1_024)
def encode_index_entry(expires_s: int) -> bytes:
    """Encode the value of the row of an index entry: when its object expires, 0 for never."""
    return head(_ENTRY, _VERSION) + uvarint(expires_s)


def decode_index_entry(value: bytes, *, where: str) -> int:
    """When the object of an index entry expires, 0 for never; raises like the others."""
    reader = Reader(value, kind=_ENTRY, version=_VERSION, where=where)
    expires_s = reader.uvarint()
    reader.end()
    return expires_s


def encode_task(not_before_s: int) -> bytes:
    """Encode the value of the row of a task: when it may be done first, seconds since 1970."""
    return head(_TASK, _VERSION) + uvarint(not_before_s)


def decode_task(value: bytes, *, where: str) -> int:
    """When a task may be done first, seconds since 1970; raises like the others."""
    reader = Reader(value, kind=_TASK, version=_VERSION, where=where)
    not_before_s = reader.uvarint()
    reader.end()
    return not_before_s
