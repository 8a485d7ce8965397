"""Sums over the heads of a keyspace, by which two keyspaces are compared. Pure.

Heads are cut into *leaves* of some hundred, in the order of their keys. A leaf begins where the
hash of a head is small, so equal heads are cut at equal places, whatever else is there. Some of
these places begin a *branch* of leaves as well.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Final, NamedTuple

from siltstone.objects.records.head import compared_bytes, has_expired

HASH_BYTES: Final = 8
SUM_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class TreeShape:
    """Where leaves and branches begin; both sides of a comparison have the same.

    Attributes:
        leaf_below: a head whose hash is below begins a leaf.
        branch_below: one whose hash is below begins a branch, too; at most ``leaf_below``.
    """

    leaf_below: bytes = b"\x01"
    """One of 256."""
    branch_below: bytes = b"\0\x04"
    """One of 64 of these."""


class Node(NamedTuple):
    """A leaf or a branch.

    Attributes:
        first: the key of a row with which it begins, inclusive; it ends where the next one begins.
        total: 16 bytes, the sum of its heads.
    """

    first: bytes
    total: bytes


Range = tuple[bytes, bytes]
"""The key of a row, and the one after the last."""


def head_hash(row_key: bytes, value: bytes) -> bytes:
    """Eight bytes of all that two keyspaces compare of a head: neither SQN nor time of change.

    Args:
        row_key: of the head.
        value: of that row.
    """
    return blake2b(row_key + compared_bytes(value), digest_size=HASH_BYTES).digest()


class TreeBuilder:
    """Makes a tree of rows that come in order.

    Args:
        first: where the range of the tree begins.
        now_s: what has expired by then is absent, seconds since 1970.
        shape: of the tree.
    """

    def __init__(self, first: bytes, now_s: float, shape: TreeShape) -> None:
        self._first = first
        self._now_s = now_s
        self._shape = shape
        self._hashes: list[bytes] = []
        self._leaves: list[Node] = []
        self._branches = [first]

    def add(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Take keys and values of rows."""
        leaf_below, branch_below = self._shape.leaf_below, self._shape.branch_below
        now_s = self._now_s
        for row_key, value in rows:
            if has_expired(value, now_s):
                continue
            found = head_hash(row_key, value)
            if found < leaf_below:
                self._cut(row_key)
                if found < branch_below and row_key != self._branches[-1]:
                    self._branches.append(row_key)
            self._hashes.append(found)

    def _cut(self, row_key: bytes) -> None:
        """End the leaf before this key, which begins another one."""
        if row_key != self._first:
            self._leaves.append(Node(self._first, _sum(self._hashes)))
            self._first, self._hashes = row_key, []

    def tree(self) -> HeadTree:
        """The tree of what was taken."""
        leaves = [*self._leaves, Node(self._first, _sum(self._hashes))]
        return HeadTree(leaves, self._branches)


def _sum(parts: Iterable[bytes]) -> bytes:
    return blake2b(b"".join(parts), digest_size=SUM_BYTES).digest()


class HeadTree:
    """The sums of a range of heads.

    Args:
        leaves: in order, at least one.
        branches: the keys with which branches begin, in order; the first is that of the first leaf.

    Attributes:
        leaves: the same.
        branches: with their sums.
    """

    def __init__(self, leaves: Sequence[Node], branches: Sequence[bytes]) -> None:
        self.leaves = leaves
        self._firsts = [leaf.first for leaf in leaves]
        places = [bisect_left(self._firsts, first) for first in branches]
        self.branches = [
            Node(leaves[start].first, _sum(leaf.total for leaf in leaves[start:end]))
            for start, end in pairwise([*places, len(leaves)])
        ]

    def leaves_of(self, which: Range) -> list[Node]:
        """The leaves of a range that begins and ends where branches do."""
        first, after = which
        start, end = bisect_left(self._firsts, first), bisect_left(self._firsts, after)
        return list(self.leaves[start:end])


def differing(left: Sequence[Node], right: Sequence[Node], after: bytes) -> list[Range]:
    """Return the ranges in which two sides have different heads, in order.

    Args:
        left: the nodes of one side, which begin where those of the other do.
        right: those of the other side.
        after: where the last nodes end.
    """
    places = {node.first: place for place, node in enumerate(right)}
    common = [
        (place, places[node.first]) for place, node in enumerate(left) if node.first in places
    ]
    ranges: list[Range] = []
    for (i, j), (next_i, next_j) in pairwise([*common, (len(left), len(right))]):
        is_same = (next_i - i, next_j - j) == (1, 1) and left[i].total == right[j].total
        if is_same:
            continue
        first, end = left[i].first, left[next_i].first if next_i < len(left) else after
        if ranges and ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((first, end))
    return ranges
