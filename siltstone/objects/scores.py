"""Which value segments are worth compacting. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

RUN_MAX: Final = 8
"""Most neighbouring segments of one run."""

SINGLE_TARGET: Final = 30.0
RUN_TARGET: Final = 70.0
"""A segment alone is compacted when less than 30 % of it is needed; a whole run, when less than
70 % is: the more segments become fewer, the more is gained. Both are those of Leveled."""


@dataclass(frozen=True, slots=True)
class ValueUse:
    """How much of a value segment is needed.

    Attributes:
        number: of the segment.
        length: bytes of its records, at least 1.
        needed: bytes of those that compaction would keep.
    """

    number: int
    length: int
    needed: int

    @property
    def percent(self) -> float:
        """How much is needed."""
        return 100 * self.needed / self.length


def best_run(
    segments: Sequence[Sequence[ValueUse]], *, run_max: int = RUN_MAX
) -> tuple[ValueUse, ...]:
    """Return the neighbouring segments whose compaction is worth most; none if none is.

    Args:
        segments: what may be compacted, in groups of neighbours, in order.
        run_max: most segments of a run, at least 1.
    """
    best: tuple[ValueUse, ...] = ()
    best_score = 0.0
    for group in segments:
        for start in range(len(group)):
            for end in range(start + 1, min(len(group), start + run_max) + 1):
                run = tuple(group[start:end])
                score = _target(len(run), run_max) - sum(one.percent for one in run) / len(run)
                if score > best_score:
                    best, best_score = run, score
    return best


def without(
    segments: Sequence[Sequence[ValueUse]], numbers: Collection[int]
) -> list[list[ValueUse]]:
    """Return the groups without segments of these numbers; those next to them are no neighbours."""
    found: list[list[ValueUse]] = []
    for group in segments:
        found.append([])
        for one in group:
            if one.number in numbers:
                found.append([])
            else:
                found[-1].append(one)
    return [group for group in found if group]


def _target(length: int, run_max: int) -> float:
    if run_max == 1:
        return SINGLE_TARGET
    return SINGLE_TARGET + (RUN_TARGET - SINGLE_TARGET) * (length - 1) / (run_max - 1)
