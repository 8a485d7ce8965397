"""The tier-1 log of a read-only open that must not need one: it has no frame and no owner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from siltstone.core.constants import Buffer
from siltstone.core.errors import ReadOnlyError
from siltstone.core.fenced_log import LogOwner
from siltstone.core.records.frame import Frame


class _NoFrames:
    """What a log and its view have in common."""

    def first(self) -> int:
        """Index of the first frame: there is none."""
        return 0

    def end(self) -> int:
        """Answer as a log without history."""
        return 0

    def read(self, from_index: int) -> Iterator[Frame]:
        """Yield nothing."""
        return iter(())

    def dropped_tail(self) -> int:
        """Nothing is torn."""
        return 0

    def close(self) -> None:
        """There is nothing to free."""


class NoLog(_NoFrames):
    """A ``FencedLog`` that asks nothing.

    Long-term storage is all that counts, so a log that is gone, that cannot be reached or that
    belongs to another owner makes no difference.
    """

    @property
    def frame_bytes_max(self) -> int:
        """No frame fits."""
        return 0

    @property
    def epoch(self) -> int:
        """It is never claimed."""
        return 0

    def claim(self, *, lineage: bytes, new: bool, above: int, takeover: bool, owner: str) -> int:
        """Refuse."""
        raise ReadOnlyError("a store that is read from long-term storage alone is never claimed")

    def append(self, buffers: Sequence[Buffer], *, count: int, reserve: bool = False) -> int:
        """Refuse."""
        raise ReadOnlyError("a store that is read from long-term storage alone takes no bytes")

    def truncate(self, before_index: int) -> None:
        """Refuse."""
        raise ReadOnlyError("a store that is read from long-term storage alone has no log")

    def newest_epoch(self) -> int:
        """It was never claimed."""
        return 0

    def holder(self) -> LogOwner:
        """No owner is known."""
        return LogOwner(epoch=0, alive=False, description="")

    def open_read(self) -> NoLogReader:
        """A view without frames."""
        return NoLogReader()


class NoLogReader(_NoFrames):
    """The ``LogReader`` of it."""

    def epoch(self) -> int:
        """It was never claimed."""
        return 0

    def lineage(self) -> bytes | None:
        """There is none."""
        return None
