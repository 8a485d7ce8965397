"""Value of a page row: where to fetch the page, that it is zeros, or its bytes.

Layout::

    0x00  remote LSN: u64 big-endian    pending: the commit record that has the page
    0x01                                empty: zeros
    0x02  page: bytes[4096]             available
"""

from __future__ import annotations

import struct

PAGE_BYTES = 4096
ZEROS = bytes(PAGE_BYTES)

PENDING = 0
EMPTY = 1
AVAILABLE = 2

EMPTY_ROW = bytes((EMPTY,))
_AVAILABLE_HEAD = bytes((AVAILABLE,))
_PENDING_ROW = struct.Struct(">BQ")


def pending_row(remote_lsn: int) -> bytes:
    """The row of a page whose bytes are only in the place."""
    return _PENDING_ROW.pack(PENDING, remote_lsn)


def page_row(page: bytes) -> bytes:
    """The row of a page of 4,096 bytes."""
    return EMPTY_ROW if page == ZEROS else _AVAILABLE_HEAD + page


def remote_lsn_of(row: bytes) -> int:
    """Of a pending row, the record that has the page."""
    return int(_PENDING_ROW.unpack(row)[1])
