"""The layout of Pravega's simplified long-term storage, PDP-34, known by the names of its files.

Siltstone has the same shape and another format. Which chunks make a segment, in which order and up
to which byte each counts, is there in tables that are themselves stored in chunks, with a journal
next to them: chunks alone do not say it. So nothing of it is read here, and it is named wherever a
person gives it for something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

from siltstone.core.chunk_storage import ChunkStorage

SIMPLIFIED: Final = (
    "this is Pravega's simplified long-term storage (PDP-34, from 0.9 on), which siltstone does not"
    " read: bring its data with a client of Pravega, see docs/migration.md"
)

_CHUNK: Final = re.compile(
    r".+\.E-[0-9]+-O-[0-9]+\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    re.DOTALL,
)
_BOOKS: Final = "_system/containers/"
_JOURNAL: Final = re.compile(
    r"(?:.*/)?_system/containers/(?:_sysjournal\.(?:epoch[0-9]+\.)?container[0-9]+\.[a-z_0-9]+"
    r"|container_[0-9]+_epoch)",
    re.DOTALL,
)
_LOOKED_AT: Final = 1_000
"""Names of a place that are looked at: most of them would be such."""


def is_simplified(name: str) -> bool:
    """Whether a file or object of this name is one of that layout."""
    return _CHUNK.fullmatch(name) is not None or _JOURNAL.fullmatch(name) is not None


def first_simplified(names: Iterable[str]) -> str | None:
    """The first name that is one of that layout; ``None`` without any."""
    return next(filter(is_simplified, names), None)


def holds_simplified(storage: ChunkStorage) -> str | None:
    """A name there that is one of that layout; ``None`` when some looks find none.

    Raises:
        ChunkError: the service did not answer.
    """
    for prefix in (_BOOKS, ""):
        listed = (found.name for found in islice(storage.list(prefix), _LOOKED_AT))
        if (name := first_simplified(listed)) is not None:
            return name
    return None
