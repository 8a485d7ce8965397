"""What the records of a log mean, read in their order: which frames count, and who owns it.

All readers of the same records come to the same result, so the order of the records alone
decides between owners. Only values are looked at here; fetching them is done elsewhere.
"""

from __future__ import annotations

import logging
from array import array
from collections import deque
from dataclasses import dataclass
from uuid import UUID

from siltstone.core.constants import MIB
from siltstone.core.errors import CorruptDataError, LogLostError
from siltstone.core.records.frame import KIND_END, MAGIC, Frame, decode_frame
from siltstone.tier1.kafka.claim_record import (
    KIND_CLAIM,
    KIND_HOLDER,
    ClaimRecord,
    decode_claim_record,
)

RECENT_BYTES_MAX = 16 * MIB
"""Bodies of the newest frames that are kept, so that a look and a read after it fetch once."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedClaim:
    """A claim and the epoch that its place gives it."""

    record: ClaimRecord
    epoch: int
    offset: int


def decode(value: bytes | None) -> Frame | ClaimRecord | None:
    """What one record is; ``None`` when nothing of ours wrote it."""
    if value is None:
        return None
    if value.startswith(MAGIC):
        frame = decode_frame(value)
        return frame if frame is not None and frame.size == len(value) else None
    return decode_claim_record(value)


class Scan:
    """The log as far as it was read. Not thread-safe.

    Args:
        topic: for messages.

    Attributes:
        topic_id: of the topic that it is of; ``None`` when that has none, or before the first look.
        start: offset of the first record that the log keeps; ``None`` before the first look.
        next_offset: of the record that is to be read next; ``None`` before the first look.
        epoch: the highest of all claims and frames.
        claim: the newest claim, or what says it again; ``None`` when there is none, or when a fence
            stands after it.
        lineages: of all claims and frames.
        end: one above the index of the newest frame; 0 when there never was one.
        crc: of the newest frame.
        offsets: of the frames that are kept, oldest first.
        has_ended: whether the newest record that counts is the ``End`` of its owner.
        foreign: count of records that nothing of ours wrote.
        recent: the newest frames.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.topic_id: UUID | None = None
        self.start: int | None = None
        self.next_offset: int | None = None
        self.epoch = 0
        self.claim: PlacedClaim | None = None
        self.lineages: set[bytes] = set()
        self._frame_lineage: bytes | None = None
        self.end = 0
        self.crc = 0
        self.offsets: array[int] = array("q")
        self.has_ended = False
        self.foreign = 0
        self.recent: deque[Frame] = deque()
        self._recent_bytes = 0
        self._at_head = True
        self._begun = 0  # Index of the first frame of the newest epoch.

    @property
    def first(self) -> int:
        """Index of the first frame that is kept; ``end`` when there is none."""
        return self.end - len(self.offsets)

    @property
    def lineage(self) -> bytes | None:
        """Lineage of the newest frame, else of the newest claim."""
        if self._frame_lineage is not None:
            return self._frame_lineage
        return None if self.claim is None else self.claim.record.lineage

    def start_at(self, offset: int) -> None:
        """Records below ``offset`` are gone."""
        self.start = offset if self.start is None else max(self.start, offset)
        if self.next_offset is None or self.next_offset < offset:
            if self.next_offset is not None:
                self._at_head = True
            self.next_offset = offset
        kept = 0
        while kept < len(self.offsets) and self.offsets[kept] < offset:
            kept += 1
        if kept:
            del self.offsets[:kept]
            while self.recent and self.recent[0].index < self.first:
                self._recent_bytes -= self.recent.popleft().size

    def pass_over(self, offset: int) -> None:
        """Nothing is left between the last record and ``offset``."""
        self.next_offset = max(self.next_offset or 0, offset)

    def add(self, offset: int, value: bytes | None) -> None:
        """Take the next record.

        Raises:
            CorruptDataError: it contradicts those before it.
            LogLostError: records before it are missing.
            FormatError: a newer version wrote it.
        """
        found = decode(value)
        self.next_offset = offset + 1
        if isinstance(found, ClaimRecord):
            self._add_claim(offset, found)
        elif found is not None:
            self._add_frame(offset, found)
        elif value is not None and value.startswith(MAGIC):
            raise CorruptDataError("a frame is damaged", where=self._place(offset))
        else:
            self.foreign += 1
            _log.warning("passed over a record that is not ours: %s", self._place(offset))
        self._at_head = False

    def forget_recent(self) -> None:
        """Free the bodies that are kept."""
        self.recent.clear()
        self._recent_bytes = 0

    def _add_claim(self, offset: int, record: ClaimRecord) -> None:
        if record.kind == KIND_HOLDER:
            self._add_holder(offset, record)
            return
        self.epoch = 1 + max(record.above, self.epoch)
        self._begun = self.end
        self.has_ended = False
        if record.kind == KIND_CLAIM:
            self.claim = PlacedClaim(record=record, epoch=self.epoch, offset=offset)
            self.lineages.add(record.lineage)
        else:
            self.claim = None

    def _add_holder(self, offset: int, record: ClaimRecord) -> None:
        if record.above > self.epoch:
            raise CorruptDataError("a holder without a claim", where=self._place(offset))
        if record.above == self.epoch:
            self.claim = PlacedClaim(record=record, epoch=self.epoch, offset=offset)
            self.lineages.add(record.lineage)

    def _add_frame(self, offset: int, frame: Frame) -> None:
        if frame.epoch < self.epoch:
            return  # Void: its owner was fenced before it came here.
        if self._is_again(frame):
            return  # A broker that forgot its sender took both.
        # A truncation leaves a frame that counts as the first record of all, and nothing else does.
        if frame.epoch > self.epoch and not self._at_head:
            raise CorruptDataError("a frame of an epoch without a claim", where=self._place(offset))
        begins = self._at_head and frame.index >= self.end
        if not begins and (frame.index, frame.previous_crc) != (self.end, self.crc):
            raise LogLostError(
                "frames are missing",
                where=self._place(offset),
                expected=self.end,
                index=frame.index,
            )
        if self._frame_lineage not in (None, frame.lineage):
            raise LogLostError("frames of two lineages", where=self._place(offset))
        if begins:
            self._begun = 0  # Older ones of its owner may have been before it.
        self.epoch = frame.epoch
        self._frame_lineage = frame.lineage
        self.lineages.add(frame.lineage)
        self.append(offset, frame.index, frame.crc)
        self.has_ended = frame.kind == KIND_END
        self._keep(frame)

    def _is_again(self, frame: Frame) -> bool:
        """Whether the newest owner's frame was here before; its body, where that is known."""
        if (frame.epoch, frame.lineage) != (self.epoch, self._frame_lineage):
            return False
        if not self._begun <= frame.index < self.end:
            return False
        place = frame.index - self.recent[0].index if self.recent else -1
        return place < 0 or self.recent[place].crc == frame.crc

    def append(self, offset: int, index: int, crc: int) -> None:
        """Count one more frame, which is known to continue the log."""
        if index != self.end:
            del self.offsets[:]
            self.forget_recent()
        self.offsets.append(offset)
        self.end, self.crc = index + 1, crc

    def _keep(self, frame: Frame) -> None:
        self.recent.append(frame)
        self._recent_bytes += frame.size
        while self._recent_bytes > RECENT_BYTES_MAX:
            self._recent_bytes -= self.recent.popleft().size

    def _place(self, offset: int) -> str:
        return f"topic {self._topic} at offset {offset}"
