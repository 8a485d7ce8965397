"""The order of many rows by numbers of 64 bits: first the bits of the key, then the row's number.

Numbers alone are sorted several times as fast as the indices of rows by their keys. The few rows
whose first bits are equal are left to who compares whole keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow
from pyarrow import compute, types

ROWS_MIN: Final = 65_536
"""Of fewer rows the indices are sorted in some milliseconds, and this is not worth its steps."""

BITS: Final = 64
DIGIT_BITS: Final = 16
"""numpy sorts indices by numbers of 16 bits in two passes, whatever their order."""

Sort = Callable[[pyarrow.Array], pyarrow.Array]
"""Gives the order of the rows that are given, by whole keys: of equal ones as they are given."""

_Numbers = Any
"""A numpy array of uint64, or of offsets: numpy says of its arrays only that they are arrays."""


def packed_order(columns: Sequence[pyarrow.ChunkedArray], sort: Sort) -> pyarrow.Array | None:
    """Return the order of rows by their keys, those of one key as they are.

    Args:
        columns: of the key, two rows at least, without nulls; whole numbers, truth values and
            binaries are packed.
        sort: for rows that the first bits do not tell apart.

    Returns:
        Indices of rows, uint64; ``None`` where the first column cannot be packed, or numpy is not
        installed.
    """
    try:
        import numpy
    except ImportError:  # The extra `collections` is pyarrow alone.
        return None
    rows = len(columns[0])
    index_bits = (rows - 1).bit_length()
    packed, used, exact = _packed(columns, BITS - index_bits)
    if packed is None:
        return None
    word = numpy.uint64
    packed <<= word(index_bits)
    packed |= numpy.arange(rows, dtype=word)
    # Numbers that are nearly in order are sorted in a fourth of the time.
    digits = packed >> word(max(0, used + index_bits - DIGIT_BITS))
    packed = packed.take(digits.astype(numpy.uint16).argsort(kind="stable"))
    packed.sort(kind="stable")
    if not exact:
        _settle(packed, index_bits, sort)
    packed &= word((1 << index_bits) - 1)
    return pyarrow.array(packed)


def _settle(packed: _Numbers, index_bits: int, sort: Sort) -> None:
    """Put rows whose first bits are equal in the order of their whole keys."""
    import numpy

    first = packed >> numpy.uint64(index_bits)
    same = first[1:] == first[:-1]
    tied = numpy.zeros(len(packed), dtype=bool)
    tied[1:] = same
    tied[:-1] |= same
    places = numpy.flatnonzero(tied)
    if len(places):
        # First bits order as whole keys do, so each of these rows stays among its equals.
        some = packed[places]
        rows = some & numpy.uint64((1 << index_bits) - 1)
        packed[places] = some[sort(pyarrow.array(rows)).to_numpy()]


def _packed(
    columns: Sequence[pyarrow.ChunkedArray], room: int
) -> tuple[_Numbers | None, int, bool]:
    """Return the first bits of keys, how many there are, and whether they are whole keys."""
    import numpy

    packed: _Numbers | None = None
    used = 0
    for column in columns:
        left = room - used
        made = _numbers(column, left) if left else None
        if made is None:
            return packed, used, False
        numbers, bits, exact = made
        cut = max(0, bits - left)
        numbers >>= numpy.uint64(cut)
        used += bits - cut
        if packed is None:
            packed = numbers
        else:
            packed <<= numpy.uint64(bits - cut)
            packed |= numbers
        if cut or not exact:
            return packed, used, False
    return packed, used, True


def _numbers(column: pyarrow.ChunkedArray, room: int) -> tuple[_Numbers, int, bool] | None:
    """Return a column as numbers from 0 on, how many bits they have, and whether it is all of it.

    ``None`` where values of its type are no numbers.
    """
    import numpy

    kind = column.type
    if types.is_fixed_size_binary(kind):
        column, kind = column.cast(pyarrow.binary()), pyarrow.binary()
    if types.is_binary(kind) or types.is_large_binary(kind):
        numbers = _of_bytes(column.combine_chunks(), -(-room // 8))
        lowest, exact = numbers.min(), False
    elif types.is_boolean(kind) or types.is_integer(kind):
        values = (column.cast(pyarrow.uint8()) if types.is_boolean(kind) else column).to_numpy()
        lowest, exact = values.min().astype(numpy.uint64), True
        numbers = values.astype(numpy.uint64)
    else:
        return None
    numbers -= lowest  # Modulo 2^64, so a range from below 0 on is right too.
    return numbers, int(numbers.max()).bit_length(), exact


def _of_bytes(values: pyarrow.Array, count: int) -> _Numbers:
    """Return the first bytes of values after those that all of them share, as numbers."""
    import numpy

    ends = compute.min_max(values).as_py()
    skip = _shared(ends["min"], ends["max"])
    wide = types.is_large_binary(values.type)
    _, where, data = values.buffers()
    offsets = numpy.frombuffer(where, dtype=numpy.int64 if wide else numpy.int32)
    offsets = offsets[values.offset : values.offset + len(values) + 1].astype(numpy.int64)
    starts: _Numbers = offsets[:-1] + skip
    stops: _Numbers = offsets[1:]
    numbers = numpy.zeros(len(values), dtype=numpy.uint64)
    if data is None or not data.size:
        return numbers
    of_all = numpy.frombuffer(data, dtype=numpy.uint8)
    for place in range(count):
        at = starts + place
        found = of_all.take(at, mode="clip")  # Beyond the end of a value it is taken for 0.
        numbers <<= numpy.uint64(8)
        numbers |= numpy.where(at < stops, found, 0).astype(numpy.uint64)
    return numbers


def _shared(low: bytes, high: bytes) -> int:
    """How many bytes two values, and so all between them, begin with alike."""
    for place, (one, other) in enumerate(zip(low, high, strict=False)):
        if one != other:
            return place
    return min(len(low), len(high))
