"""Lines as Arrow arrays: split in C++, without a Python object for each."""

from __future__ import annotations

import struct

import pyarrow
import pyarrow.compute

_OFFSETS = struct.Struct("=2i")


def split_lines(lines: memoryview, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return the lines of ``lines``, with newlines between them, as an array of ``kind``.

    Args:
        lines: less than 2 GiB; empty means one empty line.
        kind: string or binary. That a string is UTF-8 is not checked, as in Spark's own reader.
    """
    offsets = pyarrow.py_buffer(_OFFSETS.pack(0, len(lines)))
    # One value over the bytes where they are: nothing is copied before the split.
    whole = pyarrow.Array.from_buffers(kind, 1, [None, offsets, pyarrow.py_buffer(lines)])
    return pyarrow.compute.split_pattern(whole, "\n").values
