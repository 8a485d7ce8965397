"""Constants and the rules of names that every part of Siltstone shares."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from siltstone.core.errors import SegmentNameError

Buffer = bytes | bytearray | memoryview
"""What may be written: contiguous, byte-sized items. Not kept after the call returns."""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

BLOCK_BYTES = 256 * KIB
"""A CRC32C is kept for every block of this many bytes of a chunk."""

GROUP_BLOCKS = 256
"""Blocks whose sums share one row: 64 MiB of a chunk."""

FRAME_BYTES_MAX = 8 * MIB
"""Largest frame of any tier-1 log, header and trailer included."""

READ_BYTES_MAX = GIB
"""Most bytes of one read."""

ROWS_PER_SLICE = 1_000
"""Most rows that one step of a long operation changes."""

TABLE_LOG_ID = 0
"""Segment id of the table log, the one system segment. Segments of applications are above 0."""

TABLE_LOG_NAME = "_system/tables"
"""Name of the table log, for people to read."""

LINEAGE_BYTES = 16
"""Length of a lineage, the raw bytes of a uuid."""

SEGMENT_NAME_BYTES_MAX = 1_024
RESERVED_PREFIX = "_system/"

KEYSPACES_PREFIX: Final = "objects/"
"""With this begin the names of what belongs to keyspaces."""

_OF_KEYSPACE: Final = re.compile(re.escape(KEYSPACES_PREFIX) + r"\{([^{}/]+)\}/.+", re.DOTALL)

FORMAT_NUMBER = 1
"""Number of the whole store's format, in ``system/store``."""


def check_segment_name(name: str) -> str:
    """Return ``name`` if a segment or table of an application may have it.

    Raises:
        TypeError: not a string.
        SegmentNameError: empty, over 1,024 bytes of UTF-8, with NUL, with a lone surrogate, or
            reserved.
    """
    if not isinstance(name, str):
        raise TypeError(f"a segment name is a str, not {type(name).__name__}")
    try:
        raw = name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise SegmentNameError("name is not valid unicode", segment=repr(name)) from error
    if not raw:
        raise SegmentNameError("name is empty", segment="''")
    if len(raw) > SEGMENT_NAME_BYTES_MAX:
        raise SegmentNameError("name is too long", segment=repr(name[:60]), bytes=len(raw))
    if b"\0" in raw:
        raise SegmentNameError("name holds a NUL byte", segment=repr(name))
    if name.startswith(RESERVED_PREFIX):
        raise SegmentNameError("name is reserved", segment=repr(name))
    return name


def keyspace_of(name: str) -> str | None:
    """Return the keyspace to which a segment or table of this name belongs; ``None`` for others."""
    if not name.startswith(KEYSPACES_PREFIX):
        return None
    found = _OF_KEYSPACE.fullmatch(name)
    return None if found is None else found[1]


def container_of(name: str, container_count: int) -> int:
    """Return the index of the container that owns ``name``: fixed for the life of a store.

    The hash is BLAKE2b-64 of the name, or of what stands between the first ``{`` and the next ``}``
    when that is not empty: names with one tag share a container.
    """
    if container_count == 1:
        return 0
    start = name.find("{")
    if start >= 0:
        end = name.find("}", start + 1)
        if end > start + 1:
            name = name[start + 1 : end]
    digest = hashlib.blake2b(name.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % container_count


CONTAINERS_MAX: Final = 4096
"""Of a store. Each has a log, an index and threads, so more is a mistake in writing."""
