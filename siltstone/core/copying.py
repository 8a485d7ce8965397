"""Copying many bytes without holding up the other threads of the interpreter."""

from __future__ import annotations

import ctypes
from typing import Final

from siltstone.core.words import BLOCK_BYTES

_ALOUD_MAX: Final = BLOCK_BYTES
"""Fewer bytes are copied in less time than another thread would need to wake up."""


def copy(target: memoryview, source: memoryview) -> None:
    """Copy ``source`` to ``target``, which is as long; both are of bytes and writable.

    An assignment of slices does the same, but nothing else of this process runs meanwhile: reads
    of other threads come to a stand for as long as it takes to copy some MiB.

    Raises:
        ValueError: the lengths differ.
    """
    length = len(source)
    if length <= _ALOUD_MAX or len(target) != length:
        target[:] = source
        return
    kind = ctypes.c_char * length
    ctypes.memmove(kind.from_buffer(target), kind.from_buffer(source), length)
