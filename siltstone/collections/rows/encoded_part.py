"""A part that was encoded and has no name yet."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.collections.rows.consolidate import DIFF_MAX, DIFF_MIN
from siltstone.core.constants import Buffer
from siltstone.core.errors import CollectionError
from siltstone.core.records.collection_part import CollectionPart


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """What a part holds, and its bytes.

    Attributes:
        part: its row. Inline it is complete; else its upload sets ``writer``, ``born``, ``number``
            and ``nonce``.
        buffers: bytes of the object, in order; none inline.
    """

    part: CollectionPart
    buffers: tuple[Buffer, ...] = ()


def checked_sum(total: int) -> int:
    """Return a sum of diffs that a row of a part can hold.

    Raises:
        CollectionError: it is beyond 64 bits.
    """
    if not DIFF_MIN <= total <= DIFF_MAX:
        raise CollectionError(
            "diffs of one part add up to more than 64 bits hold; append fewer rows at once",
            limit=DIFF_MAX,
        )
    return total
