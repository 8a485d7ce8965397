"""A check of transactions that rests on nothing but what their clients saw.

Each value that is ever written is written once, so a read tells which transaction it saw. Each
transaction that writes a key has read it, so its predecessor is known too. From both follow the
dependencies: a transaction comes after those whose values it saw or replaced, and before those
that replaced what it saw; and after those that had ended before it began. Transactions that took
effect one after the other make no cycle of these.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Any

Key = Any


class End(Enum):
    """How a transaction ended, as far as its client knows."""

    COMMITTED = "committed"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What one client saw of one transaction.

    Attributes:
        name: unlike any other's, and not ``None``.
        reads: key to the name of the transaction whose value was there; ``None`` for none.
        writes: keys that it writes, each of which it read.
        end: how it ended. Reads of one that was refused or is unknown need not fit together.
        began: when, on a clock of events common to all.
        ended: when its client knew that it had taken effect; ``None`` if it never did, or if
            nothing follows from it.
    """

    name: Hashable
    reads: Mapping[Key, Hashable]
    writes: frozenset[Key] = field(default_factory=frozenset)
    end: End = End.COMMITTED
    began: int = 0
    ended: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """What no order of the transactions explains.

    Attributes:
        kind: ``lost update``, ``aborted read``, ``unwritten read`` or ``cycle``.
        transactions: names of those that take part; for a cycle in its order.
        why: for a person.
    """

    kind: str
    transactions: tuple[Hashable, ...]
    why: str


def anomalies(transactions: Sequence[Transaction]) -> list[Anomaly]:
    """Return what is wrong; nothing if some order of the transactions explains all that was seen.

    One of unknown outcome counts as committed if another one saw it.
    """
    by_name = {each.name: each for each in transactions}
    assert len(by_name) == len(transactions), "names of transactions are unlike one another"
    for each in transactions:
        assert each.writes <= each.reads.keys(), "a transaction reads what it writes"
    held = _held(by_name)
    found = [*_wrong_reads(held, by_name)]
    found += _lost_updates(held)
    if not found:
        found += _cycles(held)
    return found


def _held(by_name: Mapping[Hashable, Transaction]) -> list[Transaction]:
    """Committed ones, and unknown ones that one of these saw, directly or not."""
    waiting = [each for each in by_name.values() if each.end is End.COMMITTED]
    held = {each.name for each in waiting}
    for each in waiting:
        for seen in each.reads.values():
            writer = by_name.get(seen)
            if writer is not None and writer.end is End.UNKNOWN and seen not in held:
                held.add(seen)
                waiting.append(writer)
    return waiting


def _wrong_reads(
    held: Iterable[Transaction], by_name: Mapping[Hashable, Transaction]
) -> Iterator[Anomaly]:
    for each in held:
        for key, seen in each.reads.items():
            if seen is None:
                continue
            writer = by_name.get(seen)
            if writer is None or key not in writer.writes:
                yield Anomaly(
                    kind="unwritten read",
                    transactions=(each.name, seen),
                    why=f"{each.name} read of {key!r} what was never written there",
                )
            elif writer.end is End.REFUSED:
                yield Anomaly(
                    kind="aborted read",
                    transactions=(each.name, seen),
                    why=f"{each.name} read of {key!r} what {seen} was refused",
                )


def _lost_updates(held: Iterable[Transaction]) -> Iterator[Anomaly]:
    replaced: dict[tuple[Key, Hashable], Hashable] = {}
    for each in held:
        for key in each.writes:
            place = (key, each.reads[key])
            if place in replaced:
                yield Anomaly(
                    kind="lost update",
                    transactions=(replaced[place], each.name),
                    why=f"both replaced in {key!r} what {each.reads[key]} wrote",
                )
            replaced[place] = each.name


Edges = dict[Hashable, dict[Hashable, str]]


def _cycles(held: Sequence[Transaction]) -> Iterator[Anomaly]:
    edges = dependencies(held)
    for members in _components(edges):
        if len(members) > 1:
            path = _around(edges, members)
            named = [node for node in path if not isinstance(node, _Moment)]
            steps = (f"{one} -{edges[one][two]}-> {two}" for one, two in pairwise(path))
            yield Anomaly(
                kind="cycle", transactions=tuple(named[:-1] or named), why="; ".join(steps)
            )


@dataclass(frozen=True, slots=True)
class _Moment:
    """A place between events; stands for all that had ended before."""

    time: int


def dependencies(held: Sequence[Transaction]) -> Edges:
    """Which transaction, or moment, comes before which: ``edges[before][after]`` says why."""
    edges: Edges = {each.name: {} for each in held}
    next_writer = {(key, each.reads[key]): each.name for each in held for key in each.writes}
    for each in held:
        for key, seen in each.reads.items():
            if seen is not None:
                kind = "ww" if key in each.writes else "wr"
                edges[seen].setdefault(each.name, f"{kind} {key!r}")
            later = next_writer.get((key, seen))
            if later is not None and later != each.name:
                edges[each.name].setdefault(later, f"rw {key!r}")
    _add_times(edges, held)
    return edges


def _add_times(edges: Edges, held: Sequence[Transaction]) -> None:
    """Through moments: every end leads to the next moment, every moment to what begins after."""
    ends = sorted({each.ended for each in held if each.ended is not None})
    moments = [_Moment(time) for time in ends]
    for moment in moments:
        edges[moment] = {}
    for one, two in pairwise(moments):
        edges[one][two] = "time"
    place = {moment.time: moment for moment in moments}
    for each in held:
        if each.ended is not None:
            edges[each.name].setdefault(place[each.ended], "time")
    begins = sorted(held, key=lambda each: each.began)
    index = 0
    for each in begins:
        while index < len(ends) and ends[index] < each.began:
            index += 1
        if index:
            edges[moments[index - 1]][each.name] = "time"


def _components(edges: Edges) -> Iterator[list[Hashable]]:
    """The strongly connected components, by Tarjan's way without recursion."""
    number: dict[Hashable, int] = {}
    low: dict[Hashable, int] = {}
    stack: list[Hashable] = []
    inside: set[Hashable] = set()
    for root in edges:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        inside.add(root)
        walk = [(root, iter(edges[root]))]
        while walk:
            node, rest = walk[-1]
            following = next(rest, None)
            if following is not None:
                if following not in number:
                    number[following] = low[following] = len(number)
                    stack.append(following)
                    inside.add(following)
                    walk.append((following, iter(edges[following])))
                elif following in inside:
                    low[node] = min(low[node], number[following])
                continue
            walk.pop()
            if walk:
                low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
            if low[node] == number[node]:
                cut = stack.index(node)
                members = stack[cut:]
                del stack[cut:]
                inside.difference_update(members)
                yield members


def _around(edges: Edges, members: Sequence[Hashable]) -> list[Hashable]:
    """A shortest way from one member back to itself."""
    start = next(member for member in members if not isinstance(member, _Moment))
    allowed = set(members)
    came: dict[Hashable, Hashable] = {}
    waiting = [start]
    for node in waiting:
        for following in edges[node]:
            if following == start:
                path = [start, node]
                while path[-1] != start:
                    path.append(came[path[-1]])
                return path[::-1]
            if following in allowed and following not in came:
                came[following] = node
                waiting.append(following)
    raise AssertionError("every member of a component can be reached from every other one")
