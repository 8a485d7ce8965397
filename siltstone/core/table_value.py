"""What a key of a table has: the same object from the local index up to the caller."""

from __future__ import annotations

from typing import NamedTuple


class TableValue(NamedTuple):
    """A value in a table and the version that wrote it."""

    version: int
    value: bytes
