"""What a follower of a table gets: the updates of the table log, one table version at a time."""

from __future__ import annotations

from dataclasses import dataclass

TTL_S_MAX = 24 * 3600.0
"""Most seconds that a snapshot of a table may live."""


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One key was set, or removed: then ``value`` is ``None``."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class RangeRemoval:
    """Every key with ``start <= key < end`` was removed; ``end`` is ``None`` for all from there."""

    start: bytes
    end: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpdate:
    """What one commit did to a table.

    Attributes:
        version: its table version: follow from here to see what came after it.
        changes: in order; a later one of the same key wins.
    """

    version: int
    changes: tuple[KeyChange | RangeRemoval, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePage:
    """The next updates of a table.

    Attributes:
        updates: in order, possibly none although there may be more.
        position: the table version up to which the table log was looked through.
    """

    updates: tuple[TableUpdate, ...]
    position: int
