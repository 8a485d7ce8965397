"""What should be in one collection, and the judge of every answer about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

import pyarrow

from siltstone.collections.collection_info import CollectionInfo
from tests.simulation.collections.facts import BookmarkFacts, CollectionAttempt, Row
from tests.simulation.facts import ViolationError

Thing = TypeVar("Thing")

LOADERS = ("loader-a", "loader-b")
BOOKMARKS = ("billing",)
KEYS = 7


@dataclass(frozen=True, slots=True)
class Known:
    """What was known when a call began: its answer may not be older."""

    since: int
    upper: int


@dataclass(eq=False)
class Loader:
    """A writer with a name, whose work any process goes on with.

    Attributes:
        name: of the writer.
        sequence: of the attempt; all below were acknowledged or refused.
        attempt: what is to be appended; ``None`` before the first one.
        is_done: whether it was acknowledged, or refused.
    """

    name: str
    sequence: int = -1
    attempt: CollectionAttempt | None = None
    is_done: bool = True


@dataclass(eq=False)
class BuiltBatch:
    """A batch that a process built, and which others append.

    Attributes:
        pickled: as it is sent around.
        attempt: its rows.
        is_kept: whether its process is there, which keeps it.
    """

    pickled: bytes
    attempt: CollectionAttempt
    is_kept: Callable[[], bool]


class CollectionLedger:
    """One collection.

    Attributes:
        name: of the collection.
        times: ``"ms"`` or ``"count"``.
        history: as it was asked for.
        keeps: the same as a number; ``None`` for all.
        is_there: whether its creation was acknowledged.
        attempts: all that was ever asked for.
        since: the highest that was told.
        upper: the highest that was told.
        asked_since: the highest since that ``advance_since`` was asked for.
        loaders: writers with names.
        batches: that may be appended.
        bookmarks: by their names.
        acknowledged: how many appends were.
    """

    def __init__(self, name: str, times: str, history: str | int, keeps: int | None) -> None:
        self.name = name
        self.times = times
        self.history = history
        self.keeps = keeps
        self.is_there = False
        self.attempts: list[CollectionAttempt] = []
        self.since = 0
        self.upper = 0
        self.asked_since = 0
        self.loaders = [Loader(loader) for loader in LOADERS]
        self.batches: list[BuiltBatch] = []
        self.bookmarks = {name: BookmarkFacts() for name in BOOKMARKS}
        self.acknowledged = 0
        self._uppers: dict[int, tuple[CollectionAttempt, ...]] = {}
        self._claimed: set[Row] = set()

    # --- what is asked for ---

    def attempt(
        self, chance: Random, *, expected: int | None = None, new: int | None = None
    ) -> CollectionAttempt:
        """Something new to append; with ``new``, rows have times of their own."""
        number = len(self.attempts) + 1
        come: list[tuple[Row, int | None]] = []
        for _ in range(chance.choice((0, 1, 2, 5, 12))):
            row = (f"key-{chance.randrange(KEYS)}", number)
            time = None
            if new is not None and expected is not None:
                time = chance.randrange(expected, new)
            come += [(row, time)] * chance.choice((1, 1, 2))
        made = CollectionAttempt(number, come, expected=expected, new=new)
        if new is None and chance.random() < 0.6:
            made.go = self._to_take_away(chance)
        self.attempts.append(made)
        return made

    def _to_take_away(self, chance: Random) -> list[Row]:
        """Rows that are there for certain, and that nothing else was to take away."""
        told = [attempt for attempt in self.attempts[-12:] if attempt.is_told]
        rows = sorted({row for attempt in told for row, _ in attempt.come} - self._claimed)
        chosen = chance.sample(rows, min(len(rows), chance.choice((0, 1, 3))))
        self._claimed.update(chosen)
        return chosen

    # --- what was told ---

    def known(self) -> Known:
        """What is known at this moment."""
        return Known(self.since, self.upper)

    def acknowledged_appends(
        self, attempts: tuple[CollectionAttempt, ...], time: int, upper: int, known: Known
    ) -> None:
        """A caller heard that these were appended together; ``known`` when the first try began."""
        for attempt in attempts:
            if not attempt.is_told:
                self.acknowledged += 1
            is_timed = attempt.new is not None and attempt.expected is not None
            attempt.told(attempt.expected if is_timed else time, upper)  # type: ignore[arg-type]
            if attempt.expected is not None:
                self._check_nothing_between(attempt)
        if self._uppers.setdefault(upper, attempts) != attempts:
            raise ViolationError(f"two appends made the upper {upper}")
        if upper <= known.upper and all(attempt.tries == 1 for attempt in attempts):
            raise ViolationError(f"an append made the upper {upper} after it was {known.upper}")
        self.upper = max(self.upper, upper)

    def _check_nothing_between(self, attempt: CollectionAttempt) -> None:
        """What expects an upper is the first append after it."""
        assert attempt.expected is not None
        assert attempt.upper is not None
        for other in self.attempts:
            if other is attempt or other.time is None:
                continue
            if attempt.expected <= other.time < attempt.upper:
                raise ViolationError(f"{other} lies between what {attempt} expected and made")

    def refused_upper(
        self, attempt: CollectionAttempt | None, expected: int, current: int, known: Known
    ) -> None:
        """A caller heard that the upper is another one than it expected."""
        if current == expected or current < known.upper:
            raise ViolationError(
                f"refused, for the upper is {current}; expected {expected}, known {known.upper}"
            )
        self.upper = max(self.upper, current)
        if attempt is not None:
            attempt.refuse(f"the upper is {current}")
            self._claimed.difference_update(attempt.go)

    def refused(self, attempt: CollectionAttempt, why: str) -> None:
        """A caller heard that it is not there, and never will be."""
        attempt.refuse(why)
        self._claimed.difference_update(attempt.go)

    def told_since(self, since: int, known: Known | None = None) -> None:
        """A caller heard a since; one that was certainly the newest, if ``known`` is given."""
        if known is not None and since < known.since:
            raise ViolationError(f"the since is {since}; it was {known.since} before")
        for name, mark in self.bookmarks.items():
            if mark.since is not None and since > max(mark.asked, mark.since):
                raise ViolationError(f"the since {since} passed bookmark {name} at {mark.asked}")
        self.since = max(self.since, since)

    def refused_time(self, as_of: int, since: int) -> None:
        """A caller heard that the history of a time is gone."""
        if since <= as_of:
            raise ViolationError(f"the since {since} has not passed {as_of}")
        self.told_since(since)

    def told(self, info: CollectionInfo, known: Known) -> None:
        """A caller heard what the collection is."""
        if info.upper is None or info.upper < known.upper:
            raise ViolationError(f"the upper is {info.upper}; it was {known.upper} before")
        self.told_since(info.since, known)
        self.upper = max(self.upper, info.upper)
        policy = 0 if self.keeps is None else max(0, info.upper - self.keeps)
        if info.since > max(policy, self.asked_since):
            raise ViolationError(f"the since {info.since} passed the history {self.keeps}")
        for bookmark in info.bookmarks:
            if info.since > bookmark.since:
                raise ViolationError(f"the since {info.since} passed {bookmark}")

    # --- what was read ---

    def read_rows(self, table: pyarrow.Table, as_of: int, known: Known | None = None) -> None:
        """A caller read all rows at a time, planned by a look that began after ``known``."""
        if known is not None and as_of < known.since:
            raise ViolationError(f"rows at {as_of}, below the since {known.since}")
        found = _rows_of(table)
        wanted: Counter[Row] = Counter()
        for attempt in self.attempts:
            is_there = attempt.mark in found
            attempt.looked(as_of, is_there=is_there)
            if is_there:
                wanted.update(attempt.shows(as_of))
        if _without_zeros(wanted) != found:
            raise ViolationError(
                f"rows at {as_of}: missing {sorted((wanted - found).items())}, "
                f"too many {sorted((found - wanted).items())}"
            )
        self.upper = max(self.upper, as_of + 1)

    def read_newest(self, as_of: int | None, known: Known) -> None:
        """A caller was shown a time as the newest one."""
        upper = 0 if as_of is None else as_of + 1
        if upper < known.upper:
            raise ViolationError(f"read up to {upper}; the upper was {known.upper} before")

    def read_changes(self, table: pyarrow.Table, lower: int, upper: int) -> None:
        """A caller read all changes of a range of times."""
        found: Counter[tuple[Row, int]] = Counter()
        for row in table.to_pylist():
            found[(row["k"], row["v"]), row["_time"]] += row["_diff"]
        times = {row: time for (row, time), diff in found.items() if diff}
        wanted: Counter[tuple[Row, int]] = Counter()
        for attempt in self.attempts:
            time = times.get(attempt.mark)
            if time is not None:
                attempt.placed(time)
            else:
                attempt.passed(lower, upper)
                time = _time_before(attempt, lower, times)
                if time is None:
                    continue
            for row, at, diff in attempt.changes(time):
                if lower <= at < upper:
                    wanted[row, at] += diff
        if _without_zeros(wanted) != _without_zeros(found):
            raise ViolationError(
                f"changes from {lower} to {upper}: missing {sorted((wanted - found).items())}, "
                f"too many {sorted((found - wanted).items())}"
            )
        self.upper = max(self.upper, upper)

    def first_rows(self, table: pyarrow.Table, as_of: int) -> None:
        """A caller read all rows at a time as the first of its changes."""
        if any(row["_time"] != as_of for row in table.to_pylist()):
            raise ViolationError(f"the first changes have other times than {as_of}")
        self.read_rows(table, as_of)


def _time_before(attempt: CollectionAttempt, lower: int, times: dict[Row, int]) -> int | None:
    """The time of a mark that came before ``lower``, where its rows may still come after it."""
    if attempt.new is None or attempt.expected is None or attempt.expected >= lower:
        return None
    if any(row in times for row, _ in attempt.come):
        attempt.placed(attempt.expected)
    return attempt.time


def _rows_of(table: pyarrow.Table) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for row in table.to_pylist():
        found[row["k"], row["v"]] += row.get("_diff", 1)
    return _without_zeros(found)


def _without_zeros(counted: Counter[Thing]) -> Counter[Thing]:
    return Counter({key: count for key, count in counted.items() if count})
