"""What a copy has to do: which bytes of which segments the target lacks, and in which sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.constants import GIB, MIB
from siltstone.pipelines.work import in_groups

MARK: Final = "siltstone.copy-of"
"""The attribute by which a segment of the target is known as a copy, and of what."""

CONFLICT: Final = "conflict"
"""The target has something else under this name, or lacks what the source no longer has."""

UNREADABLE: Final = "unreadable"
"""The source is damaged there; nothing of it was copied."""

PART_BYTES: Final = 32 * MIB
"""What one task copies of a segment at most: a killed job repeats the tasks in progress."""

SESSION_BYTES: Final = GIB
"""What becomes visible in one step."""

SESSION_SEGMENTS: Final = 500
GROUP_BYTES: Final = 8 * MIB
"""Parts of several segments are one task as long as they are no more than this together."""

GROUP_PARTS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOrigin:
    """What a segment of the target is a copy of.

    Attributes:
        store: uuid of the source.
        segment_id: id of the segment there.
        base: offset there of its first byte here.
        lineage: of its container there, which is another one after a recovery with loss.
    """

    store: str
    segment_id: int
    base: int
    lineage: str

    def text(self) -> str:
        """What the attribute says."""
        return f"{self.store}/{self.segment_id}/{self.base}/{self.lineage}"


def origin_of(text: str) -> CopyOrigin | None:
    """What an attribute says; ``None`` when it is not ours."""
    match text.split("/"):
        case [store, number, base, lineage] if number.isdecimal() and base.isdecimal():
            return CopyOrigin(store=store, segment_id=int(number), base=int(base), lineage=lineage)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRange:
    """What the target lacks of one segment.

    Attributes:
        info: of the source.
        start: first offset, in the source.
        stop: end.
    """

    info: SegmentInfo
    start: int
    stop: int


def problem_of(info: SegmentInfo, target: SegmentInfo, store: str) -> str | int:
    """Say what keeps a copy from continuing, or else from which source offset it continues.

    Args:
        info: the segment of the source.
        target: the segment of the target.
        store: uuid of the source.
    """
    found = origin_of(target.attributes.get(MARK, ""))
    if found is None or (found.store, found.segment_id) != (store, info.segment_id):
        return "the target has another segment of this name"
    offset = found.base + target.length
    if offset > info.length:
        return f"the target has more: {offset}, and the source ends at {info.length}"
    if offset < info.start_offset:
        return f"bytes from {offset} on were truncated before they were copied"
    if target.sealed and offset < info.length:
        return "the target is sealed"
    return offset


def sessions_of(lacks: Sequence[MissingRange]) -> Iterator[list[MissingRange]]:
    """Cut what is missing into sessions, in the order in which they have to become visible."""
    session: list[MissingRange] = []
    length = 0
    for lack in lacks:
        start = lack.start
        while start < lack.stop:
            stop = min(lack.stop, start + SESSION_BYTES - length)
            session.append(MissingRange(info=lack.info, start=start, stop=stop))
            length += stop - start
            start = stop
            if length == SESSION_BYTES or len(session) == SESSION_SEGMENTS:
                yield session
                session, length = [], 0
    if session:
        yield session


def groups_of(parts: Sequence[MissingRange]) -> Iterator[Sequence[MissingRange]]:
    """Cut a session into tasks: small parts share one."""
    cut = (
        MissingRange(info=part.info, start=start, stop=min(part.stop, start + PART_BYTES))
        for part in parts
        for start in range(part.start, part.stop, PART_BYTES)
    )
    return in_groups(cut, lambda part: part.stop - part.start, GROUP_BYTES, GROUP_PARTS)
