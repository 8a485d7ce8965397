"""Where a keyspace lies in its store: the names of its table and of its segments.

All have one ``{tag}``, so they are in one container, in which commits are atomic.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from siltstone.core.constants import KEYSPACES_PREFIX
from siltstone.objects.errors import KeyspaceNameError

NAME_BYTES_MAX: Final = 200

FATE_ATTRIBUTE: Final = "siltstone.keyspace"
"""Key of the attribute of a value segment that says its ``SegmentFate``."""


class SegmentFate(Enum):
    """What a compaction said of a value segment, in the commit that changed the manifest.

    So the manifest can be made again from the segments. Values are persisted.
    """

    NONE = ""
    """Nothing: it was rolled, or a compaction made it and never named it."""
    NAMED = "named"
    """A compaction made it, and the manifest names it."""
    REPLACED = "replaced"
    """The manifest does not name it any more."""


@dataclass(frozen=True, slots=True)
class SpaceNames:
    """The names of one keyspace.

    Attributes:
        name: of the keyspace.
    """

    name: str

    @property
    def prefix(self) -> str:
        """What the names of its table and of all of its segments begin with."""
        return f"{KEYSPACES_PREFIX}{{{self.name}}}/"

    @property
    def ledger(self) -> str:
        """Name of its table."""
        return f"{self.prefix}ledger"

    @property
    def values(self) -> str:
        """What the names of its value segments begin with."""
        return f"{self.prefix}values/"

    def value_segment(self, number: int) -> str:
        """Name of the value segment of this number."""
        return f"{self.values}{number:08d}"

    @property
    def large_values(self) -> str:
        """What the names of the segments of its large values begin with."""
        return f"{self.prefix}large/"

    def large_segment(self, number: int) -> str:
        """Name of the segment of the large value of this number."""
        return f"{self.large_values}{number:016x}"

    def number_of_large(self, segment: str) -> int | None:
        """Number of the large value of this segment; ``None`` if it is none."""
        digits = segment.removeprefix(self.large_values)
        try:
            number = int(digits, 16)
        except ValueError:
            return None
        return number if number >= 0 and self.large_segment(number) == segment else None

    def number_of(self, segment: str) -> int | None:
        """Number of the value segment of this name; ``None`` if it is none."""
        digits = segment.removeprefix(self.values)
        number = int(digits) if digits.isdecimal() and digits.isascii() else -1
        return number if number >= 0 and self.value_segment(number) == segment else None


def space_names(name: str) -> SpaceNames:
    """Return the names of a keyspace.

    Raises:
        KeyspaceNameError: no keyspace can have this name.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a keyspace is text, not {type(name).__name__}")
    if not name or not name.isprintable() or set(name) & set("{}/"):
        raise KeyspaceNameError(
            "a keyspace's name is printable, not empty, and holds no braces and no slash",
            keyspace=name,
        )
    if len(name.encode()) > NAME_BYTES_MAX:
        raise KeyspaceNameError(
            f"a keyspace's name has at most {NAME_BYTES_MAX} bytes", keyspace=name
        )
    return SpaceNames(name)


def name_in(ledger: str) -> str | None:
    """Return the name of the keyspace whose table this is; ``None`` if it is none's."""
    if ledger.startswith(f"{KEYSPACES_PREFIX}{{") and ledger.endswith("}/ledger"):
        return ledger[len(KEYSPACES_PREFIX) + 1 : -len("}/ledger")]
    return None
