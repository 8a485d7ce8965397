"""Exhaustive breadth-first search of a state machine, and the shortest way to what is wrong.

A machine says from each state what may happen next. A state is a tuple of small tuples and ints;
equal parts are kept once, so a million states fit into memory. What may happen is either a further
state or a ``Violation``, and the search ends at the first of those: no way to one is shorter.
"""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

S = TypeVar("S", bound=Hashable)
T = TypeVar("T")


class Violation(NamedTuple):
    """An invariant that does not hold, by its number in docs/internals/invariants.md, and why."""

    invariant: str
    message: str


Steps = Iterator[tuple[str, S | Violation]]


class Machine(Protocol[S]):
    """What is searched. Methods are pure functions of the state."""

    def initial(self) -> S:
        """Where everything begins."""
        ...

    def steps(self, state: S) -> Steps[S]:
        """Everything that may happen next, each with a short name."""
        ...

    def broken(self, state: S) -> Violation | None:
        """What does not hold in this state."""
        ...

    def shown(self, state: S) -> Mapping[str, object]:
        """The state for a reader of a trace, part by part."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a search.

    Attributes:
        states: distinct states that were met.
        depth: steps to the farthest of them.
        violation: the first that was met; ``None`` if none is there.
        trace: how to get to it, for a reader; empty without one.
    """

    states: int
    depth: int
    violation: Violation | None
    trace: str


def search(machine: Machine[S], *, states_max: int = 20_000_000) -> Found:
    """Visit every state that the machine can reach, nearest first.

    Raises:
        RuntimeError: there are more than ``states_max`` of them.
    """
    collecting = gc.isenabled()
    gc.disable()  # Nothing here is a cycle, and looking for one takes half of the time.
    try:
        return _search(machine, states_max)
    finally:
        if collecting:
            gc.enable()


def _search(machine: Machine[S], states_max: int) -> Found:
    first = machine.initial()
    parents: dict[S, S | None] = {first: None}
    layer = [first]
    depth = 0
    while layer:
        next_layer: list[S] = []
        for state in layer:
            for label, after in machine.steps(state):
                if isinstance(after, Violation):
                    trace = _trace(machine, parents, state, label, after)
                    return Found(states=len(parents), depth=depth, violation=after, trace=trace)
                if after in parents:
                    continue
                parents[after] = state
                wrong = machine.broken(after)
                if wrong is not None:
                    trace = _trace(machine, parents, state, label, wrong, after)
                    return Found(states=len(parents), depth=depth, violation=wrong, trace=trace)
                next_layer.append(after)
        if len(parents) > states_max:
            raise RuntimeError(f"more than {states_max} states")
        layer = next_layer
        depth += bool(next_layer)
    return Found(states=len(parents), depth=depth, violation=None, trace="")


def every_state(machine: Machine[S]) -> Iterable[S]:
    """Every state that the machine can reach, for tests that look at each of them."""
    seen = {machine.initial()}
    layer = list(seen)
    while layer:
        yield from layer
        next_layer = []
        for state in layer:
            for _, after in machine.steps(state):
                if not isinstance(after, Violation) and after not in seen:
                    seen.add(after)
                    next_layer.append(after)
        layer = next_layer


def _trace(
    machine: Machine[S],
    parents: dict[S, S | None],
    before: S,
    label: str,
    violation: Violation,
    last: S | None = None,
) -> str:
    """The shortest way to a violation: each step, and what it changed."""
    states = [before]
    while (parent := parents[states[-1]]) is not None:
        states.append(parent)
    states.reverse()
    lines = ["   0. start"]
    lines += [f"        {part}" for part in _changes({}, machine.shown(states[0]))]
    pairs: list[tuple[S, S | None, str]] = [
        (one, two, _label(machine, one, two)) for one, two in pairwise(states)
    ]
    pairs.append((before, last, label))
    for number, (one, two, name) in enumerate(pairs, 1):
        lines.append(f"{number:4}. {name}")
        if two is not None:
            changes = _changes(machine.shown(one), machine.shown(two))
            lines += [f"        {part}" for part in changes]
    lines.append(f"{violation.invariant} does not hold: {violation.message}")
    return "\n".join(lines)


def _label(machine: Machine[S], before: S, after: S) -> str:
    return next(label for label, state in machine.steps(before) if state == after)


def _changes(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return [f"{key}: {value}" for key, value in after.items() if before.get(key) != value]


class Interner:
    """Keeps one of several equal values, so that a million states share their parts."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[Any, Any]] = {}

    def __call__(self, part: str, value: T) -> T:
        """The one that is kept of all values of this part of the state that equal ``value``."""
        # Apart for each part: a named tuple equals any tuple of the same values.
        kept: T = self._kept.setdefault(part, {}).setdefault(value, value)
        return kept
