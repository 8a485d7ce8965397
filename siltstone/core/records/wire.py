"""The few shapes that the values of metadata rows are made of.

Layout::

    uvarint: u8[1..10]    below 2**64; seven bits a byte, lowest first; high bit: more follow
    text:    length: uvarint, bytes[length]    UTF-8

Each value begins with ``kind: u8`` and ``version: u8`` and ends with its last field.
"""

from __future__ import annotations

from functools import cache, lru_cache

from siltstone.core.errors import CorruptDataError, FormatError

HEAD_BYTES = 2
"""Bytes of kind and version."""

_U64_END = 2**64
_NUMBERS_MAX = 1_024
"""Rows that are made together have the same times, and numbers that others of them have."""


@lru_cache(maxsize=_NUMBERS_MAX)
def uvarint(value: int) -> bytes:
    """Encode a number below 2**64. Raises ``ValueError`` for any other."""
    if 0 <= value < 0x80:
        return value.to_bytes(1, "little")
    if not 0 <= value < _U64_END:
        raise ValueError(f"not a u64: {value}")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text(value: str) -> bytes:
    """Encode a string after its length in bytes."""
    raw = value.encode("utf-8")
    return uvarint(len(raw)) + raw


@cache
def head(kind: int, version: int) -> bytes:
    """Encode the first two bytes of a value."""
    return bytes((kind, version))


class Reader:
    """Takes the fields of one value in order.

    Args:
        data: the whole value.
        kind: the kind that it must have.
        version: the version that it must have.
        known: the newest version of such rows that is known; ``None`` means ``version``.
        where: what the value is, for messages.

    Raises:
        FormatError: another kind or version.
        CorruptDataError: not even those two bytes are there.
    """

    __slots__ = ("_data", "_position", "_where")

    def __init__(
        self, data: bytes, *, kind: int, version: int, where: str, known: int | None = None
    ) -> None:
        if len(data) < HEAD_BYTES:
            raise CorruptDataError("row is cut", where=where, length=len(data))
        if data[0] != kind:
            raise FormatError("row of an unknown kind", row=where, kind=data[0], expected=int(kind))
        if data[1] != version:
            newest = version if known is None else known
            raise FormatError.of_version("row", data[1], newest, row=where)
        self._data = data
        self._position = HEAD_BYTES
        self._where = where

    def damaged(self, message: str) -> CorruptDataError:
        """Return the error that names this value and the position in it."""
        return CorruptDataError(message, where=self._where, at=self._position)

    def u8(self) -> int:
        """Take one byte."""
        if self._position >= len(self._data):
            raise self.damaged("row is cut")
        value = self._data[self._position]
        self._position += 1
        return value

    def flags(self, known: int) -> int:
        """Take one byte in which only the bits of ``known`` may be set."""
        value = self.u8()
        if value & ~known:
            raise self.damaged("row has an impossible flag")
        return value

    def uvarint(self) -> int:
        """Take a number below 2**64."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= _U64_END:
                    break
                return value
        raise self.damaged("row has an impossible number")

    def text(self) -> str:
        """Take a string."""
        raw = self.raw(self.uvarint())
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.damaged("row has an impossible text") from error

    def raw(self, length: int) -> bytes:
        """Take this many bytes."""
        end = self._position + length
        if end > len(self._data):
            raise self.damaged("row is cut")
        value = self._data[self._position : end]
        self._position = end
        return value

    def rest(self) -> bytes:
        """Take what is left."""
        return self.raw(len(self._data) - self._position)

    def end(self) -> None:
        """Check that nothing is left."""
        if self._position != len(self._data):
            raise self.damaged("row is longer than its fields")
