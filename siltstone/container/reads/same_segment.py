"""Reading of one segment in several steps, though its name may pass to another one meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.core.errors import SegmentNotFoundError

if TYPE_CHECKING:
    from siltstone.container.models.segments import SegmentInfo


def same_segment(segment_id: int, now: SegmentInfo) -> SegmentInfo:
    """Return ``now`` if it is of the segment that had its name before.

    No id is used twice. So whatever was read of the name between two looks is of that segment.

    Args:
        segment_id: at the look before.
        now: the look after what was read.

    Raises:
        SegmentNotFoundError: the segment was deleted, and its name is that of another one.
    """
    if now.segment_id != segment_id:
        raise SegmentNotFoundError(
            "the segment was deleted and made again while it was read", segment=now.name
        )
    return now
