"""What the applications know of the rules of retention, and how far these ever allowed a cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from siltstone.container.models.segments import RetentionRule
from tests.simulation.facts import Attempt, Segment, State, ViolationError

Key = tuple[bool, str]
"""Whether it is a prefix, and the name."""


@dataclass(eq=False)
class Change(Attempt):
    """A rule that was set, or removed.

    Attributes:
        rule: what holds since; ``None`` for nothing.
    """

    rule: RetentionRule | None = None


class Rules:
    """The rules of one container.

    Attributes:
        busy: keys that a client is changing.
        count: changes that were asked for.
    """

    def __init__(self) -> None:
        self.busy: set[Key] = set()
        self.count = 0
        self._changes: dict[Key, list[Change]] = {}

    @property
    def keys(self) -> list[Key]:
        """Every key that a rule was ever set for."""
        return list(self._changes)

    def asked(self, key: Key, rule: RetentionRule | None, epoch: int) -> Change:
        """Note that a rule is on its way."""
        self.count += 1
        never = Change(what=f"no rule {key}", epoch=0, state=State.HAPPENED)
        change = Change(what=f"rule {rule} for {key}", epoch=epoch, rule=rule)
        self._changes.setdefault(key, [never]).append(change)
        return change

    def settle(self, key: Key, change: Change) -> None:
        """It is certain that this change happened, and that none before it holds any more.

        The caller has noted in advance what may have been cut by those before.
        """
        change.happened()
        changes = self._changes[key]
        self._changes[key] = changes[changes.index(change) :]

    def seen(self, found: Iterable[RetentionRule]) -> None:
        """A current owner showed all rules; no client was changing those that are not busy."""
        shown = {(rule.prefix, rule.name): rule for rule in found}
        for key in shown.keys() - self._changes.keys():
            raise ViolationError(f"a rule that no client set: {shown[key]}")
        for key in sorted(self._changes.keys() - self.busy):
            # The newest of equal ones: what it dropped is the same.
            for change in reversed(self._possible(key)):
                if change.rule == shown.get(key):
                    self.settle(key, change)
                    break
            else:
                raise ViolationError(f"an old or invented rule for {key}: {shown.get(key)}")

    def _possible(self, key: Key) -> list[Change]:
        return [change for change in self._changes[key] if change.state is not State.FAILED]

    def may_hold(self, name: str) -> Iterator[RetentionRule]:
        """The rules that may be in force for a name: its own, else that of the longest prefix."""
        mine = [(False, name), *((True, name[:length]) for length in range(len(name), -1, -1))]
        for key in mine:
            if key in self._changes:
                found = [change.rule for change in self._possible(key)]
                yield from (rule for rule in found if rule is not None)
                if None not in found:
                    return

    def must_hold(self, name: str) -> RetentionRule | None:
        """The rule that is in force for a name for certain."""
        mine = [(False, name), *((True, name[:length]) for length in range(len(name), -1, -1))]
        for key in mine:
            if key in self._changes:
                found = [change.rule for change in self._possible(key)]
                if found != [None]:
                    return found[0] if len(found) == 1 else None
        return None

    def allow(self, segment: Segment, length: int) -> None:
        """Note how far a rule may have cut a segment that has no more bytes than ``length``."""
        segment.ruled = max(segment.ruled, self.limit(segment, length))

    def limit(self, segment: Segment, length: int) -> int:
        """How far a rule that may be in force now may cut it."""
        found = 0
        names = [segment.name, *([] if segment.rename is None else [segment.new_name])]
        for name in names:
            for rule in self.may_hold(name):
                if rule.bytes_max is not None:
                    found = max(found, length - rule.bytes_max)
                if rule.age_max_s is not None:
                    before_ms = segment.now_ms() - round(1000 * rule.age_max_s)
                    found = max(found, old_end(segment, before_ms, length))
        return found


def old_end(segment: Segment, before_ms: int, length: int) -> int:
    """Up to where bytes may have been appended before a time."""
    for append in segment.placed:
        if append.asked_ms >= before_ms and append.offset is not None:
            return append.offset
    others = [*segment.ahead.values(), *segment.unplaced]
    return length if any(append.asked_ms < before_ms for append in others) else segment.length
