"""Rows of a ledger that is being rebuilt, and of what a rebuild cannot know.

Layouts, with the shapes of ``core/records/wire.py``::

    rebuild:   kind: u8 = 16, version: u8 = 1, in the place of the state
               phase: u8                 1 = values come | 2 = records | 3 = doubtful | 4 = index
               next_sqn, number, first_sqn, length, records, next_number: uvarint    of the state
               sqn: uvarint              all records up to this SQN are in the ledger
               seen_ms: uvarint          when the newest of them was made
               position: uvarint, bytes  the next head of phase 4
               source: text              which backup it comes from; empty for the own segments
               unknown: uvarint, and so many uvarints: segments with damage that hides its objects
    doubtful:  kind: u8 = 17, version: u8 = 1
               number: uvarint           of the value segment that is damaged
               last_sqn: uvarint         the newest SQN that the object may have there
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.wire import Reader, head, text, uvarint
from siltstone.objects.records.space_rows import SpaceState, read_state, state_fields

_REBUILD: Final = 16
_DOUBTFUL: Final = 17
_VERSION: Final = 1


class RebuildPhase(IntEnum):
    """How far a rebuild is. Numbers are persisted and never change."""

    VALUES = 1
    """Value segments come from a backup."""
    RECORDS = 2
    """Heads, index and expiry rows are made of records."""
    DOUBTFUL = 3
    """Heads go that a damaged record may have replaced."""
    INDEX = 4
    """Functions of the application make the index of tags whose strategy is ``recalc``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """A rebuild that is going on, or that a death ended.

    Attributes:
        phase: how far it is.
        state: what the next batch begins with when it is done.
        sqn: all records up to this SQN are in the ledger.
        seen_ms: when the newest of them was made, milliseconds since 1970.
        position: key of the row of the next head of the last phase.
        source: which backup the value segments come from; empty when they were here.
        unknown: numbers of value segments with damage that nothing tells the objects of.
    """

    phase: RebuildPhase
    state: SpaceState
    sqn: int = 0
    seen_ms: int = 0
    position: bytes = b""
    source: str = ""
    unknown: tuple[int, ...] = ()


def is_rebuild(value: bytes) -> bool:
    """Whether the row in the place of the state says that a rebuild is going on."""
    return value[:1] == bytes((_REBUILD,))


def encode_rebuild(rebuild: Rebuild) -> bytes:
    """Encode the value of the row."""
    numbers = (rebuild.sqn, rebuild.seen_ms, len(rebuild.position))
    parts = [head(_REBUILD, _VERSION), bytes((rebuild.phase,)), state_fields(rebuild.state)]
    parts += [*map(uvarint, numbers), rebuild.position, text(rebuild.source)]
    return b"".join([*parts, *map(uvarint, (len(rebuild.unknown), *rebuild.unknown))])


def decode_rebuild(value: bytes, *, where: str) -> Rebuild:
    """Decode the value of the row. Raises ``CorruptDataError`` and ``FormatError``."""
    reader = Reader(value, kind=_REBUILD, version=_VERSION, where=where)
    phase = reader.u8()
    if phase not in RebuildPhase.__members__.values():
        raise CorruptDataError("rebuild in an unknown phase", where=where, phase=phase)
    rebuild = Rebuild(
        phase=RebuildPhase(phase),
        state=read_state(reader),
        sqn=reader.uvarint(),
        seen_ms=reader.uvarint(),
        position=reader.raw(reader.uvarint()),
        source=reader.text(),
        unknown=tuple(reader.uvarint() for _ in range(reader.uvarint())),
    )
    reader.end()
    return rebuild


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why an object is doubtful.

    Attributes:
        number: of the value segment that is damaged.
        last_sqn: the newest SQN that the object may have there.
    """

    number: int
    last_sqn: int


def encode_doubt(doubt: Doubt) -> bytes:
    """Encode the value of the row."""
    return head(_DOUBTFUL, _VERSION) + uvarint(doubt.number) + uvarint(doubt.last_sqn)


def decode_doubt(value: bytes, *, where: str) -> Doubt:
    """Decode the value of the row. Raises ``CorruptDataError`` and ``FormatError``."""
    reader = Reader(value, kind=_DOUBTFUL, version=_VERSION, where=where)
    doubt = Doubt(number=reader.uvarint(), last_sqn=reader.uvarint())
    reader.end()
    return doubt
