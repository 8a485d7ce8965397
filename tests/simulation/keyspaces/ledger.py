"""What a keyspace should hold, and the judge of every answer about it.

Changes have numbers in one order, their SQNs. So what any process heard of an object up to an SQN
binds every later look that shows that much. Each owner has the SQNs from its opening to the next.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, inf
from typing import NamedTuple

from tests.simulation.facts import State, ViolationError
from tests.simulation.keyspaces.facts import Key, SeenHead, SpaceChange


class Fact(NamedTuple):
    """What an object was as of an SQN: after a change, or absent."""

    sqn: int
    change: SpaceChange | None


NOTHING = Fact(0, None)


@dataclass(frozen=True, slots=True)
class Reign:
    """An owner, and the first SQN that it gives."""

    epoch: int
    process: str
    first_sqn: int


class SpaceLedger:
    """One keyspace.

    Args:
        latest_s: the latest time that the clock of any process ever said.
        has_jumped: whether any clock ever jumped.

    Attributes:
        is_made: whether it is known to be there.
        changes: all that was ever asked for, by number.
        flushed: the newest SQN that is on long-term storage for certain.
        acknowledged: how many changes were.
        rolls_back: whether tier 1 was lost since the last owner opened.
        lineage: how often that was.
    """

    def __init__(self, latest_s: Callable[[], float], has_jumped: Callable[[], bool]) -> None:
        self.is_made = False
        self.changes: list[SpaceChange] = []
        self.flushed = 0
        self.acknowledged = 0
        self.rolls_back = False
        self.lineage = 0
        self._latest_s = latest_s
        self._has_jumped = has_jumped
        self._facts: defaultdict[Key, list[Fact]] = defaultdict(list)
        self._by_key: defaultdict[Key, list[SpaceChange]] = defaultdict(list)
        self._sqns: dict[int, SpaceChange] = {}
        self._reigns: list[Reign] = []
        self._orders: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)

    # --- what is asked for ------------------------------------------------------------------------

    def asked(self, change: SpaceChange) -> None:
        """Note that a change is on its way."""
        self.changes.append(change)
        self._by_key[change.key].append(change)

    @property
    def newest(self) -> int:
        """The highest SQN that is known."""
        living = (sqn for sqn, each in self._sqns.items() if each.state is State.HAPPENED)
        return max(living, default=0)

    @property
    def keys(self) -> list[Key]:
        """Every key that a change was asked for."""
        return list(self._by_key)

    def sqn_of(self, key: Key) -> int | None:
        """The SQN that an object has as far as is known."""
        fact = self._fact(key)
        return fact.sqn if fact.change is not None and fact.change.is_put else None

    def size_of(self, key: Key) -> int:
        """The bytes of its value as far as is known; 0 where none is known."""
        change = self._fact(key).change
        return 0 if change is None else change.size

    def least(self, epoch: int) -> dict[Key, Fact]:
        """What an owner of this epoch, or of a later one, has to show at least from now on."""
        later = [reign.first_sqn for reign in self._reigns if reign.epoch > epoch]
        below = min(later, default=inf)
        return {key: self._fact(key, below) for key in self._facts}

    def _fact(self, key: Key, below: float = inf) -> Fact:
        """The newest fact about an object below an SQN."""
        return next((each for each in reversed(self._facts[key]) if each.sqn < below), NOTHING)

    # --- what is told -----------------------------------------------------------------------------

    def placed(self, change: SpaceChange, sqn: int) -> None:
        """It is certain that a change has this SQN."""
        if change.sqn == sqn:
            change.happened()
            return
        if change.sqn is not None:
            raise ViolationError(f"{change.what} has the SQNs {change.sqn} and {sqn}")
        if change.over:
            raise ViolationError(f"{change.what} is there with SQN {sqn}, and was not before")
        other = self._sqns.setdefault(sqn, change)
        if other is not change:
            raise ViolationError(f"{change.what} and {other.what} have the SQN {sqn}")
        change.happened()
        change.sqn = sqn
        self._check_reign(change, sqn)
        insort(self._facts[change.key], Fact(sqn, change), key=lambda each: each.sqn)

    def _check_reign(self, change: SpaceChange, sqn: int) -> None:
        """SQNs are given by the owner that was asked, up to where the next one opened."""
        found = [reign for reign in self._reigns if reign.first_sqn <= sqn]
        if not found or found[-1].process != change.process or found[-1].epoch < change.epoch:
            raise ViolationError(f"{change.what} of {change.process} has SQN {sqn} of {found[-1:]}")

    def acknowledged_change(
        self, change: SpaceChange, sqn: int, replaced: int | None, *, ordered: bool
    ) -> None:
        """A caller heard that it is there, and what it replaced, if it was told that.

        Args:
            change: which.
            sqn: its number.
            replaced: the SQN of what was visible before; ``None`` for nothing.
            ordered: whether it takes effect in the order of the calls.
        """
        self.placed(change, sqn)
        self.acknowledged += 1
        before = self._fact(change.key, sqn)
        if replaced is None:
            self._check_absent(change.key, before, below=sqn, told=change.what)
        elif before.sqn > replaced or not replaced < sqn:
            raise ViolationError(f"{change.what} replaced {replaced}; before it was {before}")
        elif (old := self._sqns.get(replaced)) is not None and old.key != change.key:
            raise ViolationError(f"{change.what} replaced {replaced}, {old.what}")
        if ordered:
            self._check_order(change, sqn)

    def deleted(self, change: SpaceChange, sqn: int, expected: int | None) -> None:
        """A caller heard that it deleted an object, perhaps one of an SQN that it expected."""
        self.placed(change, sqn)
        self.acknowledged += 1
        before = self._fact(change.key, sqn)
        if expected is not None and before.sqn > expected:
            raise ViolationError(f"{change.what} deleted {expected}; before it was {before}")
        others = (
            each
            for each in self._by_key[change.key]
            if each.is_put and each.sqn is None and each.is_possible()
        )
        was_there = before.change is not None and before.change.is_put
        if not was_there and next(others, None) is None:
            raise ViolationError(f"{change.what} of SQN {sqn} deleted nothing: {before}")
        self._check_order(change, sqn)

    def _check_order(self, change: SpaceChange, sqn: int) -> None:
        order = self._orders[change.process, self.lineage]
        at = bisect_right(order, (change.number, 0))
        order.insert(at, (change.number, sqn))
        around = order[max(0, at - 1) : at + 2]
        if [each[1] for each in around] != sorted(each[1] for each in around):
            raise ViolationError(f"{change.what} took effect out of order: {around}")

    def absent_for_delete(self, change: SpaceChange, least: Fact) -> None:
        """A caller heard that there was nothing to delete."""
        change.failed("there was nothing to delete")
        self._check_absent(change.key, least, told=change.what)

    def refused(
        self, change: SpaceChange, expected: int | None, current: int | None, least: Fact
    ) -> None:
        """A caller heard that the object is not as expected."""
        change.failed(f"the object has {current}, not {expected}")
        if current == expected:
            raise ViolationError(f"{change.what} was refused, for {current} is as expected")
        if current is None:
            self._check_absent(change.key, least, told=change.what)
        elif current < least.sqn:
            raise ViolationError(f"{change.what} was refused for {current}; it was {least} before")
        elif (old := self._sqns.get(current)) is not None and old.key != change.key:
            raise ViolationError(f"{change.what} was refused for {current}, {old.what}")

    # --- what is seen -----------------------------------------------------------------------------

    def seen(self, head: SeenHead, least: Fact, now_s: float = -inf) -> SpaceChange:
        """A look at an object that began after ``least`` was known, and later than ``now_s``."""
        if head.number >= len(self.changes):
            raise ViolationError(f"an object that no client put: {head}")
        change = self.changes[head.number]
        if change.key != head.key or not change.is_put or change.size != head.size:
            raise ViolationError(f"{head} is not what was put: {change.what}")
        if head.sqn < least.sqn:
            raise ViolationError(f"{change.what} of SQN {head.sqn} is shown; it was {least} before")
        self.placed(change, head.sqn)
        if change.index is None:
            self._learn_entries(change, head)
        if head.entries != change.index:
            raise ViolationError(f"{head} has not the entries {change.index}")
        if change.expires_s is None:
            self._learn_expiry(change, head.expires_s)
        if head.expires_s != change.expires_s:
            raise ViolationError(f"{head} expires at {change.expires_s}")
        if head.expires_s and head.expires_s <= now_s:
            raise ViolationError(f"{head} is shown at {now_s}")
        return change

    def _learn_entries(self, change: SpaceChange, head: SeenHead) -> None:
        """Take what specs made of a set; compare, if that is known for certain."""
        before = self._fact(change.key, head.sqn).change
        change.index = head.entries
        if before is None or before.index is None or before.ttl_s is not None:
            return
        others = [
            each
            for each in self._by_key[change.key]
            if each.sqn is None and each is not change and each.is_possible()
        ]
        if before.is_put and not others:
            change.index = change.entries_after(before.index)

    def _learn_expiry(self, change: SpaceChange, expires_s: int) -> None:
        if (change.ttl_s is None) != (expires_s == 0):
            raise ViolationError(f"{change.what} expires at {expires_s}")
        if change.ttl_s is not None and not self._has_jumped():
            earliest = ceil(change.asked_s) + change.ttl_s
            if not earliest <= expires_s <= ceil(self._latest_s()) + change.ttl_s:
                raise ViolationError(f"{change.what} expires at {expires_s}, not {earliest}")
        change.expires_s = expires_s

    def absent(self, key: Key, least: Fact) -> None:
        """A look that began after ``least`` was known showed no object."""
        self._check_absent(key, least, told="a look")

    def _check_absent(self, key: Key, least: Fact, told: str, below: float = inf) -> None:
        """An object is absent after a fact, if not by it, by what may have happened after it."""
        latest_s = self._latest_s()
        if least.change is None or least.change.may_be_gone(latest_s):
            return
        for change in self._by_key[key]:
            sqn = change.sqn
            is_later = change.is_possible() if sqn is None else least.sqn < sqn < below
            if is_later and change.state is not State.FAILED and change.may_be_gone(latest_s):
                return
        raise ViolationError(f"{told}: {key} is absent after {least} {least.change.what}")

    def seen_all(
        self,
        heads: Mapping[Key, SeenHead],
        keys: Iterable[Key],
        least: Mapping[Key, Fact],
        now_s: float = -inf,
        end: int = 0,
    ) -> None:
        """A look at one moment showed all objects among ``keys``.

        Args:
            heads: that it showed.
            keys: that it was about.
            least: what was known when it began.
            now_s: the time then.
            end: at least the changes below this SQN are in it.
        """
        end = max([end, *(head.sqn + 1 for head in heads.values())])
        for key in keys:
            fact = max(self._fact(key, end), least.get(key, NOTHING), key=lambda each: each.sqn)
            if key in heads:
                self.seen(heads[key], fact, now_s)
            else:
                self.absent(key, fact)
        if others := heads.keys() - set(self._by_key):
            raise ViolationError(f"objects that no client put: {sorted(others)}")

    # --- owners -----------------------------------------------------------------------------------

    def opened(
        self, epoch: int, process: str, next_sqn: int, heads: Mapping[Key, SeenHead]
    ) -> None:
        """An owner has all that there is: it is known what became of what others were asked for."""
        if self.rolls_back:
            self._roll_back(next_sqn)
        if next_sqn <= self.newest:
            raise ViolationError(f"{process} opened with {next_sqn} after SQN {self.newest}")
        self.seen_all(heads, self.keys, {}, end=next_sqn)
        self._reigns.append(Reign(epoch, process, next_sqn))
        for key in self.keys:
            if key not in heads and self._fact(key).sqn < next_sqn - 1:
                self._note_absent(key, next_sqn - 1)
        for change in self.changes:
            if change.sqn is None and change.process != process:
                # Whether it happened or not, this owner shows what came after it.
                change.over = True

    def _note_absent(self, key: Key, sqn: int) -> None:
        """An owner had no object. One that expired may come back by a rebuild."""
        after = self._fact(key).sqn
        for change in self._by_key[key]:
            is_newer = change.is_possible() if change.sqn is None else change.sqn >= after
            if change.ttl_s is not None and change.state is not State.FAILED and is_newer:
                return
        self._facts[key].append(Fact(sqn, None))

    def lost_tier_1(self) -> None:
        """What is not on long-term storage is gone."""
        self.rolls_back = True

    def _roll_back(self, next_sqn: int) -> None:
        """All changes from an SQN on are gone, and no others."""
        if next_sqn <= self.flushed:
            raise ViolationError(f"rolled back to {next_sqn}, though {self.flushed} was flushed")
        self.rolls_back = False
        self.lineage += 1
        for sqn, change in self._sqns.items():
            if sqn >= next_sqn and change.state is State.HAPPENED:
                # Its SQN stays its own.
                change.state, change.why = State.FAILED, "it was lost with tier 1"
        if not self.is_made:
            self._sqns.clear()  # another keyspace will be made
        for key, facts in self._facts.items():
            self._facts[key] = [each for each in facts if each.sqn < next_sqn]
        self._reigns = [each for each in self._reigns if each.first_sqn < next_sqn]

    def at(self, next_sqn: int) -> dict[Key, Fact]:
        """What each object was below an SQN."""
        return {key: self._fact(key, next_sqn) for key in self.keys}
