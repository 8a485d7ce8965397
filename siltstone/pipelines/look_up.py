"""Asking the store again where a segment lies: a read-only open of one container, for one question.

Used by a task whose chunk is gone or whose record is longer than was planned.
"""

from __future__ import annotations

from typing import Final

from siltstone.container.reads.same_segment import same_segment
from siltstone.container.state.boot_state import check_followed
from siltstone.core.constants import MIB
from siltstone.pipelines.open_store import OpenStore
from siltstone.pipelines.window import Window, cut_window
from siltstone.store.manifest import check_uuid

WINDOW_BYTES: Final = 64 * MIB
"""How much a task that has to look again asks for at a time."""


def find_window(
    store: str, uuid: str, segment: str, segment_id: int, lineage: bytes, offset: int, end: int
) -> Window:
    """Find bytes of a segment again, from ``offset`` on, as far as a task needs them soon.

    Args:
        store: the settings file, as this machine finds it.
        uuid: of the store.
        segment: its name.
        segment_id: its id.
        lineage: of its container when the task was planned.
        offset: the first byte.
        end: where the reading ends.

    Raises:
        StoreError: the settings file leads to another store.
        SegmentNotFoundError: the segment was deleted, whether or not its name is used again.
        SegmentTruncatedError: ``offset`` was truncated.
        LogLostError: the container was recovered with loss since.
        OffsetError: it was, and the segment is shorter now.
    """
    stop = min(end, offset + WINDOW_BYTES)
    with OpenStore(store) as opened:
        check_uuid(opened.manifest, uuid)
        found = opened.ask(segment, lambda container: container.map(segment, offset, stop))
    same_segment(segment_id, found.info)
    check_followed(lineage, found.lineage)
    return cut_window(found, offset, stop)
