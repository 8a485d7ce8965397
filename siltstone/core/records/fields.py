"""Fields of fixed width, little-endian, and texts: what the bodies of standing records are made of.

Only primitives live here. A text is its length, u16, and that many bytes of UTF-8.
"""

from __future__ import annotations

import struct

from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError

_U16 = struct.Struct("<H")


class FieldWriter:
    """Puts fields one after the other."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def put(self, layout: struct.Struct, *values: int | bytes) -> None:
        """Add fixed fields."""
        self._parts.append(layout.pack(*values))

    def put_bytes(self, data: bytes) -> None:
        """Add bytes as they are."""
        self._parts.append(data)

    def put_text(self, text: str) -> None:
        """Add a text. Raises ``ValueError`` over 65,535 bytes."""
        raw = text.encode("utf-8")
        if len(raw) > 2**16 - 1:
            raise ValueError(f"text of {len(raw)} bytes is too long")
        self._parts.append(_U16.pack(len(raw)) + raw)

    def to_bytes(self) -> bytes:
        """All fields so far."""
        return b"".join(self._parts)


class FieldReader:
    """Takes fields one after the other; every lack is ``CorruptDataError`` that names ``where``."""

    __slots__ = ("_position", "_view", "where")

    def __init__(self, data: Buffer, *, where: str) -> None:
        self._view = memoryview(data)
        self._position = 0
        self.where = where

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        """Take fixed fields that are all numbers."""
        if self._position + layout.size > len(self._view):
            raise self.damage("record body is too short")
        values = layout.unpack_from(self._view, self._position)
        self._position += layout.size
        return values

    def take_bytes(self, length: int) -> bytes:
        """Take exactly ``length`` bytes."""
        end = self._position + length
        if end > len(self._view):
            raise self.damage("record body is too short")
        taken = bytes(self._view[self._position : end])
        self._position = end
        return taken

    def take_text(self) -> str:
        """Take a text."""
        (length,) = self.take(_U16)
        raw = self.take_bytes(length)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.damage("text in a record is not UTF-8") from error

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self._position == len(self._view)

    def finish(self) -> None:
        """Check that nothing is left."""
        if not self.is_at_end:
            raise self.damage("record body is longer than its fields")

    def damage(self, message: str) -> CorruptDataError:
        """Return the error for a body whose sum is right and whose fields are not."""
        return CorruptDataError(message, where=self.where, at=self._position)
