"""Columns of values as the bytes that stand for them in a segment, without an object for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Final

import numpy
import pyarrow
import pyarrow.compute

from siltstone.core.checksums import crc32c
from siltstone.events import EVENT_BYTES_MAX, HEADER_BYTES
from siltstone.spark.options import Mode

_NEWLINE: Final = memoryview(b"\n")
_LENGTH_BYTES: Final = 4


def encoded(values: pyarrow.Array, mode: Mode) -> Iterator[memoryview]:
    """Yield the bytes that stand for ``values``, in order; they belong to Arrow, and do not change.

    Args:
        values: of type string or binary.
        mode: what stands for each.

    Raises:
        ValueError: a value is null, or longer than an event may be.
    """
    if values.null_count:
        raise ValueError("a value is null, and nothing stands for that in a segment")
    if len(values):
        yield from _ENCODERS[mode](values)


def _lines(values: pyarrow.Array) -> Iterator[memoryview]:
    yield _joined(values, b"\n")
    yield _NEWLINE


def _bytes(values: pyarrow.Array) -> Iterator[memoryview]:
    yield _data(values.cast(_binary(values.type)))


def _joined(values: pyarrow.Array, separator: bytes) -> memoryview:
    """All values as one, with ``separator`` between them."""
    binary = values.cast(_binary(values.type))
    ends = pyarrow.array([0, len(binary)], pyarrow.int32())
    whole = pyarrow.ListArray.from_arrays(ends, binary)
    # Any type will do, for only bytes are joined; Arrow joins strings of one type alone.
    mark = pyarrow.scalar(separator, binary.type)
    return memoryview(pyarrow.compute.binary_join(whole, mark)[0].as_buffer())


def _events(values: pyarrow.Array) -> Iterator[memoryview]:
    binary = values.cast(_binary(values.type))
    headers = _headers(pyarrow.compute.binary_length(binary)).cast(binary.type)
    nothing = pyarrow.scalar(b"", binary.type)
    framed = pyarrow.compute.binary_join_element_wise(headers, binary, nothing)
    yield _data(framed)


def _data(values: pyarrow.Array) -> memoryview:
    """What Arrow holds for binary values, none of them null: all of them as one."""
    wide = pyarrow.types.is_large_binary(values.type)
    _, places, data = values.buffers()
    ends = numpy.frombuffer(places, numpy.int64 if wide else numpy.int32)
    begin, end = ends[values.offset], ends[values.offset + len(values)]
    return memoryview(b"" if data is None else data)[begin:end]


def _binary(kind: pyarrow.DataType) -> pyarrow.DataType:
    wide = pyarrow.types.is_large_string(kind) or pyarrow.types.is_large_binary(kind)
    return pyarrow.large_binary() if wide else pyarrow.binary()


def _headers(lengths: pyarrow.Array) -> pyarrow.Array:
    """The header of an event of each of these lengths: it, big-endian, and its CRC32C."""
    numbers = lengths.to_numpy(zero_copy_only=False).astype(numpy.uint32)
    if len(numbers) and int(numbers.max()) > EVENT_BYTES_MAX:
        raise ValueError(f"a value is longer than an event may be, {EVENT_BYTES_MAX} bytes")
    headers = numpy.empty((len(numbers), 2), ">u4")
    headers[:, 0] = numbers
    zero, tables = _check_tables()
    checks = numpy.full(len(numbers), zero, numpy.uint32)
    for place, table in enumerate(tables):
        checks ^= table[(numbers >> (8 * place)) & 0xFF]
    headers[:, 1] = checks
    data = pyarrow.py_buffer(headers)
    kind = pyarrow.binary(HEADER_BYTES)
    return pyarrow.FixedSizeBinaryArray.from_buffers(kind, len(numbers), [None, data])


@cache
def _check_tables() -> tuple[int, list[numpy.ndarray]]:
    """The CRC32C of a zero length, and what each byte of a length adds to it: it is linear."""
    zero = crc32c(bytes(_LENGTH_BYTES))
    tables = []
    for place in range(_LENGTH_BYTES):
        numbers = (byte << (8 * place) for byte in range(256))
        sums = [crc32c(number.to_bytes(_LENGTH_BYTES, "big")) ^ zero for number in numbers]
        tables.append(numpy.array(sums, numpy.uint32))
    return zero, tables


_ENCODERS: Final[Mapping[Mode, Callable[[pyarrow.Array], Iterator[memoryview]]]] = {
    Mode.LINES: _lines,
    Mode.EVENTS: _events,
    Mode.BYTES: _bytes,
}
