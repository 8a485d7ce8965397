"""Which bytes go where when a legacy layout is copied: shares, sessions, runs, tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from siltstone.core.constants import MIB
from siltstone.migration.legacy.findings import LegacyFinding, LegacyPiece
from siltstone.migration.legacy.plan import PlannedLegacySegment
from siltstone.migration.source.file_runs import RUN_BYTES, FileRun

SESSION_BYTES: Final = 256 * MIB
"""What becomes visible in one step."""

SESSION_SEGMENTS: Final = 500
SESSION_FILES: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionShare:
    """What one session brings of a segment.

    Attributes:
        planned: the segment.
        start: first offset, in the segment.
        stop: end.
    """

    planned: PlannedLegacySegment
    start: int
    stop: int

    @property
    def is_first(self) -> bool:
        """Whether the segment is made."""
        return self.start == self.planned.finding.start

    @property
    def is_last(self) -> bool:
        """Whether the segment is whole then."""
        return self.stop == self.planned.finding.length


def sessions_of(
    lacking: Iterable[PlannedLegacySegment], *, whole: bool
) -> Iterator[list[SessionShare]]:
    """Cut what is missing into sessions, in the order in which they have to become visible.

    Args:
        lacking: segments of one container.
        whole: whether each segment has to come in one step.
    """
    session: list[SessionShare] = []
    length, files = 0, 0
    for planned in lacking:
        start, end = planned.position, planned.finding.length
        while True:
            stop = end if whole else min(end, start + SESSION_BYTES - length)
            session.append(SessionShare(planned=planned, start=start, stop=stop))
            length += stop - start
            files += len(planned.finding.pieces)
            full = length >= SESSION_BYTES or files >= SESSION_FILES
            if full or len(session) == SESSION_SEGMENTS:
                yield session
                session, length, files = [], 0, 0
            if stop == end:
                break
            start = stop
    if session:
        yield session


def runs_of(finding: LegacyFinding, segment: str, start: int, stop: int) -> Iterator[FileRun]:
    """The runs of ``[start, stop)`` of a segment, none longer than a task's."""
    for piece in finding.pieces:
        yield from runs_of_piece(piece, segment, start, stop)


def runs_of_piece(piece: LegacyPiece, segment: str, start: int, stop: int) -> Iterator[FileRun]:
    """Those of them that lie in one file."""
    begin, end = max(start, piece.start), min(stop, piece.start + piece.length)
    for first in range(begin, end, RUN_BYTES):
        yield FileRun(
            segment=segment,
            start=first,
            key=piece.key,
            offset=first - piece.start,
            length=min(RUN_BYTES, end - first),
            physical=piece.physical,
        )
