"""Copies of a store that was recovered with loss: they may have bytes that it no longer has.

What was lost had an offset, and the next append got the same one. So a copy that was made before
continues only if it has the bytes that its source has now; that is checked once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from siltstone.container.models.segments import SegmentInfo, SetAttribute
from siltstone.core.constants import MIB, container_of
from siltstone.pipelines.copy_plan import MARK, origin_of
from siltstone.pipelines.owned_store import OwnedStore
from siltstone.pipelines.store_view import StoreView

_READ_BYTES: Final = 4 * MIB


def difference_since(
    view: StoreView, target: OwnedStore, info: SegmentInfo, there: SegmentInfo
) -> str:
    """Say why a copy from before a recovery cannot continue; empty if it can, or there was none.

    Args:
        view: the source.
        target: has the copy; it notes that it was checked.
        info: of the source.
        there: of the copy.

    Raises:
        CorruptDataError: bytes of either are damaged or lost.
    """
    origin = origin_of(there.attributes[MARK])
    assert origin is not None, "it is known as a copy"
    lineage = view.lineage_of(info)
    if origin.lineage == lineage:
        return ""
    container = target.containers[container_of(info.name, len(target.containers))]
    position = max(info.start_offset, origin.base + there.start_offset)
    end = origin.base + there.length
    while position < end:
        count = min(_READ_BYTES, end - position)
        ours = view.read(info, position, count)
        theirs = target.loop.run(container.read(info.name, position - origin.base, len(ours)))
        if ours != theirs:
            return (
                f"the source was recovered with loss since, and has other bytes between {position} "
                f"and {position + len(ours)}: remove the copy, and repeat"
            )
        position += len(ours)
    seen = SetAttribute(info.name, MARK, replace(origin, lineage=lineage).text())
    target.loop.run(container.commit([seen], []))
    return ""
