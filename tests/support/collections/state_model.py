"""What a collection should be: a list of updates and dicts of rows, told again in plain Python.

Each method says what a command should do: it changes the model, and returns ``None`` or the class
of the error with which the command should be refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from siltstone.core import errors
from tests.support.collections.state_world import Update, counts

DONE = 2**64 - 1
DAY_MS = 86_400_000
Refusal = type[Exception] | None


@dataclass
class Row:
    """A reader or a writer."""

    renewed_ms: int
    lease_ms: int
    hold: int = 0
    since: int = 0
    number: int = 0
    sequence: int = -1
    upper: int = 0

    def has_ended(self, now_ms: int) -> bool:
        if self.lease_ms == 0:
            return False
        return now_ms - self.renewed_ms >= self.lease_ms or self.renewed_ms - now_ms > DAY_MS


@dataclass
class StateModel:
    """The model. ``seqno`` counts the commits that changed something."""

    history: int
    counts_times: bool
    seqno: int = 1
    life: str = "open"
    since: int = 0
    upper: int = 0
    updates: list[Update] = field(default_factory=list)
    readers: dict[int, Row] = field(default_factory=dict)
    writers: dict[str, Row] = field(default_factory=dict)
    bookmarks: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def closed(self) -> Refusal:
        return {
            "open": None,
            "dropped": errors.CollectionDroppedError,
            "moved": errors.CollectionMovedError,
        }[self.life]

    def committed(self, now_ms: int, own: Iterable[object] = ()) -> None:
        self.seqno += 1
        kept = set(own)
        self.readers = {
            key: row
            for key, row in self.readers.items()
            if key in kept or not row.has_ended(now_ms)
        }
        self.writers = {
            key: row
            for key, row in self.writers.items()
            if key in kept or not row.has_ended(now_ms)
        }

    def limit(self) -> int:
        """How far since may go."""
        return min(
            [row.since for row in self.readers.values()]
            + [since for since, _ in self.bookmarks.values()]
            + [DONE]
        )

    def rows_at(self, as_of: int) -> dict[str, int]:
        return counts(update for update in self.updates if update.time <= as_of)

    # --- appends --------------------------------------------------------------------------------

    def commit_time(self, now_ms: int) -> int:
        return self.upper if self.counts_times else max(self.upper, now_ms)

    def append(
        self,
        now_ms: int,
        *,
        writer: str,
        sequence: int,
        updates: list[Update],
        expected: int | None,
        new: int | None,
        lease_ms: int,
        uploads: list[tuple[str, int, int]],
    ) -> Refusal:
        """``uploads`` are name and number of the writer of a part, and the seqno of its birth."""
        row = self.writers.get(writer)
        if row is not None and row.sequence == sequence:
            return None
        if self.closed():
            return self.closed()
        if row is not None and sequence < row.sequence:
            return errors.CollectionSequenceError
        lower = self.upper if expected is None else expected
        if new is not None and new < lower:
            return errors.UpdateTimeError
        if lower != self.upper:
            return errors.UpperMismatchError
        if new is None:
            if self.upper == DONE:
                return errors.UpdateTimeError
            time = self.commit_time(now_ms)
            updates = [Update(u.key, time if u.time == DONE else u.time, u.diff) for u in updates]
            new = time + 1
        if any(not lower <= update.time < new for update in updates):
            return errors.UpdateTimeError
        for name, number, born in uploads:
            owner = self.writers.get(name)
            if owner is None or owner.number != number or born < owner.hold:
                return errors.BatchExpiredError
        if row is None:
            row = self.writers[writer] = Row(now_ms, lease_ms)
        row.renewed_ms, row.lease_ms, row.sequence, row.upper = now_ms, lease_ms, sequence, new
        for name, _, born in uploads:
            self.writers[name].hold = max(self.writers[name].hold, born + 1)
        self.updates.extend(updates)
        self.upper = new
        if new != DONE:
            self.since = max(self.since, min(new - self.history, self.limit()))
        return None

    # --- rows -----------------------------------------------------------------------------------

    def register_reader(self, now_ms: int, number: int, since: int, lease_ms: int) -> Refusal:
        if self.closed():
            return self.closed()
        if number in self.readers:
            self.readers[number].renewed_ms = now_ms
            return None
        if since < self.since:
            return errors.SinceError
        self.readers[number] = Row(now_ms, lease_ms, hold=self.seqno + 1, since=since)
        return None

    def renew_reader(self, now_ms: int, number: int, since: int, hold: int) -> Refusal:
        if self.closed():
            return self.closed()
        if number not in self.readers:
            return errors.LeaseExpiredError
        row = self.readers[number]
        row.since, row.hold = max(row.since, since), max(row.hold, hold)
        row.renewed_ms = now_ms
        return None

    def register_writer(self, now_ms: int, name: str, number: int, lease_ms: int) -> Refusal:
        if self.closed():
            return self.closed()
        row = self.writers.setdefault(name, Row(now_ms, lease_ms))
        if row.number != number:
            row.number, row.hold = number, self.seqno + 1
        row.renewed_ms, row.lease_ms = now_ms, lease_ms
        return None

    def set_bookmark(self, name: str, expected: bytes | None, token: bytes, since: int) -> Refusal:
        if self.closed():
            return self.closed()
        now = self.bookmarks.get(name)
        if now == (since, token):
            return None
        if (now and now[1]) != expected:
            return errors.BookmarkFencedError
        if since < (now[0] if now else self.since):
            return errors.SinceError
        self.bookmarks[name] = since, token
        return None

    def advance_since(self, to: int) -> Refusal:
        if self.closed():
            return self.closed()
        if to > self.since:
            if to > self.limit() or to >= self.upper:
                return errors.SinceHeldError
            self.since = to
        return None

    def end(self, life: str) -> Refusal:
        if self.life == life:
            return None
        if self.closed():
            return self.closed()
        self.life = life
        if life == "dropped":
            self.updates, self.readers, self.writers, self.bookmarks = [], {}, {}, {}
        return None
