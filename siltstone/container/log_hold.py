"""What keeps the tier-1 log from being truncated, for people who look at it."""

from __future__ import annotations

from siltstone.container.replica import Replica


def log_held_by(replica: Replica) -> str:
    """Name what needs the lowest frame: a segment by its name, or ``tables``; empty without any.

    Behind it the newest checkpoint holds what is left, which is a frame or two.
    """
    lowest: list[tuple[int, str]] = []
    behind = replica.table_tail.index_behind(replica.table_flushed)
    if behind is not None:
        lowest.append((behind, "tables"))
    lowest += [
        (segment.tail.first.index, f"segment {segment.name}") for segment in replica.dirty.values()
    ]
    return min(lowest, default=(0, ""))[1]
