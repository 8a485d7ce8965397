"""What is known of one append: asked for, acknowledged, refused, or seen by readers.

Each append has a row that no other one has, and that nothing takes away: its *mark*. So every read
tells of every append whether it was there at that time. What one read tells binds all later ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.facts import ViolationError

Row = tuple[str, int]
"""Key and value."""


@dataclass(eq=False)
class CollectionAttempt:
    """An append that was asked for, however often it is tried.

    Attributes:
        number: of the attempt; the value of all its rows.
        come: its rows but for the mark, each with its own time, or ``None`` for that of the append.
        go: rows that it takes away.
        expected: the upper that it asks for.
        new: the upper that it makes; ``None``: that after its time.
        tries: calls that were begun.
        time: of the mark, once that is known for certain.
        upper: of the collection after it, as it was told.
        refused: why it is not there, and never will be.
        is_told: whether any caller was told that it is there.
    """

    number: int
    come: list[tuple[Row, int | None]]
    go: list[Row] = field(default_factory=list)
    expected: int | None = None
    new: int | None = None
    tries: int = 0
    time: int | None = None
    upper: int | None = None
    refused: str = ""
    is_told: bool = False
    _after: int = -1
    _until: int | None = None
    _holes: list[tuple[int, int]] = field(default_factory=list)

    @property
    def mark(self) -> Row:
        """The row by which it is recognised."""
        return (f"mark-{self.number:05}", self.number)

    def told(self, time: int, upper: int) -> None:
        """A caller heard that it is there, with its mark at ``time``."""
        self.is_told = True
        if self.upper not in (None, upper):
            raise ViolationError(f"{self} was told with the uppers {self.upper} and {upper}")
        self.upper = upper
        self.placed(time)

    def refuse(self, why: str) -> None:
        """A caller heard that it is not there, and never will be."""
        if self.is_told or self.time is not None or self._until is not None:
            raise ViolationError(f"{self} is there, and was refused: {why}")
        self.refused = why

    def placed(self, time: int) -> None:
        """It is there, at this very time."""
        if self.time not in (None, time):
            raise ViolationError(f"{self} has the times {self.time} and {time}")
        self.time = time
        self._check(f"time {time}")

    def looked(self, as_of: int, *, is_there: bool) -> None:
        """A read of all rows at a time showed its mark, or did not."""
        if is_there:
            self._until = as_of if self._until is None else min(self._until, as_of)
        else:
            self._after = max(self._after, as_of)
        self._check(f"{'shown' if is_there else 'not shown'} at {as_of}")

    def passed(self, lower: int, upper: int) -> None:
        """A read of all changes in ``[lower, upper)`` did not show its mark."""
        if not self.refused:
            self._holes.append((lower, upper))
            self._check(f"not among the changes from {lower} to {upper}")
            if self.time is not None:
                self._holes.pop()

    def shows(self, as_of: int) -> Counter[Row]:
        """The sums that it adds to the rows at a time, if its mark is there at that time."""
        rows: Counter[Row] = Counter({self.mark: 1})
        for row, time in self.come:
            if time is None or time <= as_of:
                rows[row] += 1
        rows.subtract(self.go)
        return rows

    def changes(self, time: int) -> list[tuple[Row, int, int]]:
        """Its updates, each with time and diff, if its mark has ``time``."""
        found = [(self.mark, time, 1)]
        found += [(row, time if own is None else own, 1) for row, own in self.come]
        return found + [(row, time, -1) for row in self.go]

    def __str__(self) -> str:
        return f"append {self.number} (time {self.time}, upper {self.upper})"

    def _check(self, what: str) -> None:
        is_seen = self.time is not None or self._until is not None
        if self.refused and is_seen:
            raise ViolationError(f"{self} was refused: {self.refused}; {what}")
        if self._until is not None and self._until <= self._after:
            raise ViolationError(f"{self} was there at {self._until} and not at {self._after}")
        if self.time is None:
            return
        is_late = self._until is not None and self.time > self._until
        if self.time <= self._after or is_late:
            raise ViolationError(
                f"{self}: {what}, and shown until {self._until}, not at {self._after}"
            )
        for lower, upper in self._holes:
            if lower <= self.time < upper:
                raise ViolationError(f"{self} is not among the changes from {lower} to {upper}")


@dataclass(eq=False)
class BookmarkFacts:
    """What is known of one bookmark.

    Attributes:
        since: the highest time that it was acknowledged to have; ``None`` before it is there.
        asked: the highest time that it may have: history from there on stays.
        takes: take-overs that were begun, from 1 on.
        acknowledged: those that were acknowledged.
    """

    since: int | None = None
    asked: int = 0
    takes: int = 0
    acknowledged: list[int] = field(default_factory=list)

    @property
    def open_takes(self) -> int:
        """Take-overs that had no answer: each may still come."""
        return self.takes - len(self.acknowledged)

    def moved(self, since: int) -> None:
        """A caller heard that it is at a time."""
        self.since = since if self.since is None else max(self.since, since)
        self.asked = max(self.asked, since)
