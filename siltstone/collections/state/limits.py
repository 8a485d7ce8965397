"""How much a state may have. All bounds are on what one rollup holds, 16 MiB at most."""

from __future__ import annotations

from typing import Final

from siltstone.core.constants import KIB, MIB

BATCHES_MAX: Final = 1_000
"""Then appends end. Compaction keeps 16 of each size, so there are more only if nothing runs."""

BATCHES_MANY: Final = 900
"""From here on appends wait for a compaction, which may be just in time."""

PARTS_MAX: Final = 50_000
"""About 130 bytes each: 6 MiB of a rollup."""

INLINE_MAX: Final = MIB
"""Bytes of rows in the state itself, which each rollup repeats and each open reads."""

READERS_MAX: Final = 1_000
WRITERS_MAX: Final = 1_000
BOOKMARKS_MAX: Final = 256
SCHEMAS_MAX: Final = 256

SCHEMAS_BYTES_MAX: Final = 4 * MIB
"""Of all schemas: 256 of the longest would fill a rollup."""

NAME_BYTES_MAX: Final = KIB
"""Of writers and bookmarks."""

WHO_CHARS_MAX: Final = 200
"""Of what people read; longer texts are cut."""

LEASE_MS_MAX: Final = 2**32 - 1
SEQUENCE_MAX: Final = 2**63 - 1
ID_MAX: Final = 2**64 - 1

CLOCK_JUMP_MS: Final = 24 * 3_600 * 1_000
"""A time that lies further ahead than this was told by a clock that was wrong, so it says nothing.

Otherwise a row that such a clock renewed would stay for as long as the clock was ahead.
"""
