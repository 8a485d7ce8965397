"""What the applications of all processes know together: what was asked, answered and seen."""

from __future__ import annotations

from collections.abc import Callable

from siltstone.container.models.segments import TableValue
from tests.simulation.facts import Bytes, Segment, State, ViolationError
from tests.simulation.rules import Rules
from tests.simulation.twins import Twins
from tests.simulation.whole_commits import Commit


class Ledger:
    """All segments of one container by name, the rows of one table, and the rules of retention.

    Attributes:
        index: of the container.
        now_ms: tells the time.
        segments: the living ones, and those of which that is not known.
        rows: attempts by key; a row is written once.
        twins: what two rows were set to as one, again and again.
        rules: of retention.
        epoch: the newest epoch that opened.
        version: the newest table version that any process heard of.
        acknowledged: appends that were acknowledged.
        commits: those of rows and bytes that were acknowledged.
    """

    def __init__(self, index: int, now_ms: Callable[[], int]) -> None:
        self.index = index
        self.now_ms = now_ms
        self.segments: dict[str, Segment] = {}
        self.rows: dict[bytes, Bytes] = {}
        self.twins = Twins()
        self.rules = Rules()
        self.epoch = 0
        self.version = 0
        self.acknowledged = 0
        self.commits: list[Commit] = []

    def opened(self, epoch: int) -> None:
        """An owner opened."""
        if epoch <= self.epoch:
            raise ViolationError(f"epoch {epoch} opened after epoch {self.epoch}")
        self.epoch = epoch

    def heard_of(self, version: int) -> None:
        """An update was acknowledged."""
        self.version = max(self.version, version)

    def missing(self, segment: Segment, epoch: int, *, was_there: bool) -> None:
        """A current owner says that there is no such segment.

        Args:
            segment: which.
            epoch: of the owner.
            was_there: whether it was known to be there before the owner was asked.
        """
        end = segment.end
        if end is not None and end.state is not State.FAILED:
            end.happened()
            self.gone(segment)
        elif segment.create.state is State.OPEN and segment.create.epoch < epoch:
            segment.create.failed(f"epoch {epoch} does not have it")
            self.gone(segment)
        elif was_there:
            raise ViolationError(f"segment {segment.name} is gone from epoch {epoch}: {end}")

    def gone(self, segment: Segment) -> None:
        """It is certain that the segment no longer exists."""
        if self.segments.get(segment.name) is segment:
            del self.segments[segment.name]

    def renamed(self, segment: Segment) -> None:
        """It has its new name for certain."""
        assert segment.rename is not None, "a rename was asked for"
        self.allow_cuts()
        segment.rename.happened()
        del self.segments[segment.name]
        segment.name, segment.rename = segment.new_name, None
        self.segments[segment.name] = segment

    def allow_cuts(self) -> None:
        """Note how far rules may have cut by now: a rule or a name is about to change."""
        for segment in self.segments.values():
            self.rules.allow(segment, segment.length_max)

    def row_seen(self, key: bytes, value: TableValue) -> None:
        """A process read this row."""
        attempt = self.rows.get(key)
        if attempt is None or attempt.data != value.value:
            raise ViolationError(f"a row that no client wrote: {key!r}")
        attempt.happened()
        attempt.done(value.version)
