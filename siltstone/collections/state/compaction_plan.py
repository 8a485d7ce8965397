"""Which batches become one. A pure function, so each process that looks comes to the same answer.

Sizes have levels: up to 4 KiB in the state, up to 32 KiB, and so on. A *group* is 8 batches of a
level; of the lowest one, 128 batches, or as many as have 128 KiB. Two rules keep less than two
groups of each:

- a group of one level with no larger one between them becomes one;
- when a group of one level each have a larger, newer one somewhere after them, some of them join
  theirs, with all that is between them. So small ones do not stay for ever between large ones.

By the first rule less than a group of a level has nothing larger after it, by the second less has.
Empty batches have no level and go with what is around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from siltstone.core.constants import KIB
from siltstone.core.records.collection_batch import Batches, CollectionBatch
from siltstone.core.records.collection_state import CollectionState, Life

LEVEL_BYTES: Final = 4 * KIB
"""Of level 0: batches that are inline, in the state."""

LEVEL_FACTOR: Final = 8
"""Between two levels, and how many become one: each row is written once for each level."""

LOWEST_FACTOR: Final = 128
"""How many of level 0 become one. To merge them makes an object, and costs as much as some ten
appends, of which each costs a fiftieth in addition; to read them costs no request."""

LOWEST_BYTES: Final = 128 * KIB
"""Of level 0, which become one although they are fewer: two groups have 256 KiB at most, of the
1 MiB in a state."""

OVERDUE: Final = 16
"""Batches that came after those of a merge: who adds this one, or as many again, does the merge,
too. The one that had to may be gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMerge:
    """Batches that are to become one.

    Attributes:
        inputs: the batches, end to end. The first and the last are not empty.
        since: of the output: times below it are advanced to it.
    """

    inputs: tuple[CollectionBatch, ...]
    since: int

    @property
    def lower(self) -> int:
        """The frontier at which the output begins."""
        return self.inputs[0].lower

    @property
    def upper(self) -> int:
        """The frontier at which the output ends."""
        return self.inputs[-1].upper


def level_of(batch: CollectionBatch) -> int:
    """The level of a batch by its bytes, from 0 on; one that is an object has 1 at least."""
    level, most = (0, LEVEL_BYTES) if batch.is_inline else (1, LEVEL_BYTES * LEVEL_FACTOR)
    while batch.length > most:
        level, most = level + 1, most * LEVEL_FACTOR
    return level


def group_of(level: int) -> int:
    """How many batches of a level become one. Less than two groups are left of it at any time."""
    return LEVEL_FACTOR if level else LOWEST_FACTOR


class Levels:
    """Levels of batches of one state after the other: only new batches are asked for theirs."""

    def __init__(self) -> None:
        self._batches = Batches()
        self._levels: list[int | None] = []

    def of(self, batches: Batches) -> Sequence[int | None]:
        """The level of each batch, until the next call; ``None`` where it is empty."""
        known = batches.shared_with(self._batches)
        new = [level_of(batch) if batch.runs else None for batch in batches.items[known:]]
        self._levels[known:] = new
        self._batches = batches
        return self._levels


def plan(state: CollectionState, seen: Levels | None = None) -> BatchMerge | None:
    """Return the merge that is due, smallest level first; ``None`` where nothing is.

    Args:
        state: the state.
        seen: the levels of a state before it, which saves time; ``None`` means of none.
    """
    batches = state.batches
    items = batches.items
    if state.life is not Life.OPEN or len(items) < LEVEL_FACTOR:
        return None
    levels = (seen or Levels()).of(batches)
    for level in sorted(level for level in {*levels} if level is not None):
        # What is in the state is more than the lowest level has, or as much.
        if not _are_group(level, levels.count(level), batches.inline_bytes):
            continue
        span = _alike(items, levels, level) or _overtaken(items, levels, level)
        if span is not None:
            return BatchMerge(inputs=items[slice(*span)], since=state.since)
    return None


def widened(merge: BatchMerge, batches: Batches) -> BatchMerge:
    """Return a merge of small batches with those of the same level that came directly after.

    ``plan`` asks for one group, so that all who look see the same merge until it is done. An object
    costs as much whether it has the rows of 32 appends or of all that came meanwhile.
    """
    if any(batch.runs and level_of(batch) for batch in merge.inputs):
        return merge
    later = [batch for batch in batches.items if batch.lower >= merge.upper]
    small = [*takewhile(lambda batch: batch.runs and not level_of(batch), later)]
    return replace(merge, inputs=(*merge.inputs, *small))


def falls_to_last(before: BatchMerge | None, after: BatchMerge | None, batches: Batches) -> bool:
    """Whether a merge that is due is for who made the newest entry, and not for others.

    Args:
        before: what was due before that entry.
        after: what is due now.
        batches: as they are now.
    """
    if after is None:
        return False
    if before is None or (before.lower, before.upper) != (after.lower, after.upper):
        return True
    later = sum(batch.lower >= after.upper for batch in batches.items)
    return later > 0 and later % OVERDUE == 0


def plan_whole(state: CollectionState) -> BatchMerge | None:
    """Return the merge of all that is there; ``None`` where one batch has it up to the since."""
    filled = [place for place, batch in enumerate(state.batches.items) if batch.runs]
    if state.life is not Life.OPEN or not filled:
        return None
    inputs = state.batches.items[filled[0] : filled[-1] + 1]
    if len(inputs) == 1 and len(inputs[0].runs) == 1 and inputs[0].since == state.since:
        return None
    return BatchMerge(inputs=inputs, since=state.since)


def _are_group(level: int, count: int, size: int) -> bool:
    """Whether so many batches of a level, with so many bytes, are a group or more."""
    return count >= group_of(level) or (not level and size >= LOWEST_BYTES)


def _alike(
    items: Sequence[CollectionBatch], levels: Sequence[int | None], level: int
) -> tuple[int, int] | None:
    """The first group of a level without a larger one between them."""
    found: list[int] = []
    size = 0
    for place, one in enumerate(levels):
        if one is None or one < level:
            continue
        if one > level:
            found, size = [], 0
            continue
        found.append(place)
        size += items[place].length
        if _are_group(level, len(found), size):
            return found[0], place + 1
    return None


def _overtaken(
    items: Sequence[CollectionBatch], levels: Sequence[int | None], level: int
) -> tuple[int, int] | None:
    """Where a group comes before larger ones: the smallest of those, with all before it."""
    larger: dict[int, int] = {}
    waiting: list[int] = []
    for place, one in enumerate(levels):
        if one == level:
            waiting.append(place)
        elif one is not None and one > level:
            larger.update(dict.fromkeys(waiting, place))
            waiting = []
    if not _are_group(level, len(larger), sum([items[place].length for place in larger])):
        return None
    target = min(set(larger.values()), key=lambda place: items[place].length)
    start = target
    while start and not _is_larger(levels[start - 1], levels[target]):
        start -= 1
    while levels[start] is None:
        start += 1
    return start, target + 1


def _is_larger(one: int | None, level: int | None) -> bool:
    """Whether a batch ends the smaller ones that join one of ``level``."""
    return one is not None and level is not None and one >= level
