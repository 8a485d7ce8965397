"""The bytes of any object that a caller holds them in: one rule for every verb that takes some.

An object is taken if it has a buffer: ``bytes``, ``bytearray``, ``memoryview``, ``array``,
``mmap``, arrays of numpy, buffers of pyarrow. Its bytes are those of its memory, in C order where
that is not contiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

    BytesLike = Buffer

_FIELD_NAME = re.compile(":[^:]*:")


def as_bytes(data: BytesLike, *, what: str = "data") -> bytes:
    """Return the bytes of ``data``, which no caller can change any more.

    Raises:
        TypeError: it has no buffer, or one of pointers to Python objects.
        ValueError: its buffer cannot be had.
    """
    if type(data) is bytes:
        return data
    return _view(data, what).tobytes()


def joined_bytes(records: Iterable[BytesLike], *, what: str = "a record") -> bytes:
    """Return the bytes of all ``records``, one after the other. Raises like ``as_bytes``."""
    records = records if type(records) is list else list(records)
    # To ask each record for its type would cost a tenth of what it costs to join them.
    if records and type(records[0]) is type(records[-1]) is bytes:
        try:
            return b"".join(records)
        except TypeError:  # one between them is not contiguous, or has no buffer
            pass
    return b"".join([as_bytes(record, what=what) for record in records])


def byte_view(data: BytesLike, *, what: str = "data") -> memoryview:
    """Return a view of the bytes of ``data``: of its own memory if that is contiguous.

    Raises like ``as_bytes``.
    """
    view = _view(data, what)
    if view.c_contiguous and view.nbytes:
        try:
            return view.cast("B")
        except ValueError:  # its items are none that Python knows
            pass
    return memoryview(view.tobytes())


def _view(data: BytesLike, what: str) -> memoryview:
    kind = type(data).__name__
    # A string of numpy has a buffer, but no encoding.
    if isinstance(data, str):
        raise TypeError(f"{what} is bytes, not {kind}")
    try:
        view = memoryview(data)
    except (TypeError, BufferError) as error:
        raise TypeError(
            f"{what} is bytes, or has a buffer as bytearray, memoryview and arrays have, "
            f"which {kind} has not"
        ) from error
    except ValueError as error:
        raise ValueError(f"{what} cannot be read as bytes: {kind}: {error}") from error
    if "O" in _FIELD_NAME.sub("", view.format):
        raise TypeError(f"{what} is bytes, not Python objects in a {kind}")
    return view
