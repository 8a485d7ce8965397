"""How large the parts of an object may be. Together they leave room in a frame of any log."""

from __future__ import annotations

from typing import Final

from siltstone.core.constants import KIB, MIB

NAME_BYTES_MAX: Final = 8 * KIB
"""Most bytes of a bucket, a key or a term. Five escaped parts fit in the key of a row."""

SUBKEY_BYTES_MAX: Final = 2 * KIB
TAG_BYTES_MAX: Final = 8
FIELD_BYTES_MAX: Final = 255

INDEX_BYTES_MAX: Final = 64 * KIB
"""Most bytes of the index rows of one object; those that they replace are in the same frame."""

METADATA_BYTES_MAX: Final = 64 * KIB

VALUE_BYTES_MAX: Final = 4 * MIB
"""Most bytes of a value that is a record of the value log."""

HEADER_BYTES_MAX: Final = 256 * KIB
"""Above what the parts of a record can come to: a longer header is damage."""
