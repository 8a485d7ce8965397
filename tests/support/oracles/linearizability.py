"""Whether concurrent calls can be put in an order that explains every answer.

The search of Wing and Gong, with the memory of Lowe: it takes calls out of the history one by one,
in all orders that their times allow, and never continues twice from the same calls and the same
state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

State = TypeVar("State", bound=Hashable)

STEPS_MAX = 5_000_000
"""A search that takes more gives up loudly: the history is too long or too much of it unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of one client.

    Attributes:
        what: what was asked for, in the words of the model.
        answer: what was answered; meaningless if unknown.
        began: when it was made, on a clock of events common to all.
        ended: when the answer came; ``None`` if none came: it took effect at any time since it
            began, or never.
    """

    what: Any
    answer: Any = None
    began: int
    ended: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Generic[State]):
    """What the search found.

    Attributes:
        order: calls in an order that explains every answer; ``None`` if there is none.
        furthest: the most calls that could be put in order, when there is no order of all.
    """

    order: tuple[Call, ...] | None
    furthest: tuple[Call, ...] = ()


def search(
    calls: Sequence[Call],
    initial: State,
    step: Callable[[State, Call], State | None],
    *,
    steps_max: int = STEPS_MAX,
) -> Verdict[State]:
    """Look for an order of ``calls``.

    Args:
        calls: the history. Those without an answer need not be in the order.
        initial: the state at its beginning.
        step: the state after a call, given the one before; ``None`` if its answer is impossible
            there. A call without an answer has none that is impossible.
        steps_max: how much is tried.

    Raises:
        TimeoutError: ``steps_max`` was not enough.
    """
    ordered = sorted(range(len(calls)), key=lambda number: calls[number].began)
    known = sum(1 << number for number, call in enumerate(calls) if call.ended is not None)
    taken: list[tuple[int, State]] = []
    furthest: tuple[int, ...] = ()
    done = 0
    state = initial
    seen: set[tuple[int, State]] = {(0, initial)}
    frames = [iter(_candidates(calls, ordered, done))]
    for _ in range(steps_max):
        if done & known == known:
            return Verdict(order=tuple(calls[number] for number, _ in taken))
        number = next(frames[-1], None)
        if number is None:
            frames.pop()
            if not frames:
                return Verdict(order=None, furthest=tuple(calls[each] for each in furthest))
            last, state = taken.pop()
            done ^= 1 << last
            continue
        following = step(state, calls[number])
        if following is None or (done | 1 << number, following) in seen:
            continue
        done |= 1 << number
        seen.add((done, following))
        taken.append((number, state))
        state = following
        if len(taken) > len(furthest):
            furthest = tuple(each for each, _ in taken)
        frames.append(iter(_candidates(calls, ordered, done)))
    raise TimeoutError(f"no verdict in {steps_max} steps")


def _candidates(calls: Sequence[Call], ordered: Sequence[int], done: int) -> list[int]:
    """Calls that may come next: those that began before the first end of all that are left."""
    found = []
    first_end: int | None = None
    for number in ordered:
        if done >> number & 1:
            continue
        call = calls[number]
        if first_end is not None and call.began > first_end:
            break
        found.append(number)
        if call.ended is not None and (first_end is None or call.ended < first_end):
            first_end = call.ended
    # What is sure to have happened is tried first.
    found.sort(key=lambda number: (calls[number].ended is None, calls[number].began))
    return found
