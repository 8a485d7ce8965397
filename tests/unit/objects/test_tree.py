"""Trees of heads: equal sets have equal trees, and what differs is in the ranges that differ."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.errors import FormatError
from siltstone.objects.records.head import Head, encode_head
from siltstone.objects.records.keys import HEAD, IndexEntry
from siltstone.objects.records.large_place import LargePlace
from siltstone.objects.tree import HeadTree, Range, TreeBuilder, TreeShape, differing, head_hash

SMALL = TreeShape(leaf_below=b"\x60", branch_below=b"\x20")
"""Leaves of three heads, branches of three leaves."""
WHOLE: Range = (HEAD, b"\x11")
NEVER = 0

Model = dict[int, int]
"""By a number for the key a number for the value."""

models = st.dictionaries(st.integers(0, 60), st.integers(0, 3), max_size=60)


def row(value: int, *, expires_s: int = NEVER, sqn: int = 1, modified_ms: int = 5) -> bytes:
    entries = (IndexEntry(b"f", b"t"),) if value % 2 else ()
    return encode_head(
        Head(sqn, 0, 1, 0, 9, 9, bytes(7) + bytes((value,)), modified_ms, expires_s, entries, b"m")
    )


def rows(model: Model, **facts: int) -> dict[bytes, bytes]:
    return {HEAD + b"%03d" % key: row(value, **facts) for key, value in sorted(model.items())}


def tree(found: dict[bytes, bytes], now_s: float = 100.0) -> HeadTree:
    builder = TreeBuilder(WHOLE[0], now_s, SMALL)
    items = list(found.items())
    for start in range(0, len(items), 7):
        builder.add(items[start : start + 7])
    return builder.tree()


def ranges(left: HeadTree, right: HeadTree) -> list[Range]:
    """What a comparison looks at, head by head."""
    found = []
    for branches in differing(left.branches, right.branches, WHOLE[1]):
        found += differing(left.leaves_of(branches), right.leaves_of(branches), branches[1])
    return found


@given(models, models)
def test_what_differs_is_in_the_ranges_and_each_range_has_a_difference(
    first: Model, second: Model
) -> None:
    left, right = rows(first), rows(second, sqn=7, modified_ms=9)
    found = ranges(tree(left), tree(right))
    wrong = {key for key in {**left, **right} if first_value(left, key) != first_value(right, key)}
    inside = [{key for key in wrong if start <= key < end} for start, end in found]
    assert set().union(*inside) == wrong
    assert all(inside), "nothing that is equal is looked at"
    assert found == sorted(found)
    assert all(a[1] <= b[0] for a, b in pairwise(found))


def first_value(found: dict[bytes, bytes], key: bytes) -> bytes | None:
    """The value number of a row; SQN and time of change do not count."""
    return found[key][44:52] if key in found else None


@given(models, st.integers(0, 60), st.integers(0, 3))
def test_one_difference_is_found_in_one_range(model: Model, key: int, value: int) -> None:
    other = dict(model)
    if other.get(key) == value:
        del other[key]
    else:
        other[key] = value
    assert len(ranges(tree(rows(model)), tree(rows(other)))) == 1


@given(models)
def test_what_has_expired_is_absent(model: Model) -> None:
    kept = {key: value for key, value in model.items() if key % 2}
    ends = rows({key: value for key, value in model.items() if not key % 2}, expires_s=100)
    mixed = dict(sorted({**rows(kept), **ends}.items()))
    assert ranges(tree(mixed), tree(rows(kept))) == []
    assert bool(ranges(tree(mixed, 99.9), tree(rows(kept)))) == bool(ends)


def test_all_that_an_object_is_counts_but_not_where_and_when() -> None:
    key = HEAD + b"k"
    head = Head(1, 0, 1, 0, 9, 9, bytes(8), 5, 0, (), b"m")
    same = head._replace(sqn=2, previous=1, number=3, offset=4, length=10, modified_ms=6)
    assert head_hash(key, encode_head(head)) == head_hash(key, encode_head(same))
    for other in (
        head._replace(value_hash=b"12345678"),
        head._replace(expires_s=9),
        head._replace(entries=(IndexEntry(b"f", b"t"),)),
        head._replace(metadata=b"n"),
    ):
        assert head_hash(key, encode_head(head)) != head_hash(key, encode_head(other))
    assert head_hash(key, encode_head(head)) != head_hash(HEAD + b"l", encode_head(head))
    large = head._replace(large=LargePlace(7, 2**20, 5))
    assert head_hash(key, encode_head(large)) == head_hash(key, encode_head(head)), "nor as what"


def test_a_row_of_a_newer_version_is_not_compared() -> None:
    raw = row(1)
    with pytest.raises(FormatError):
        head_hash(HEAD, raw[:1] + b"\x09" + raw[2:])


def test_a_few_hundred_heads_are_a_leaf_and_some_dozens_of_leaves_a_branch() -> None:
    builder = TreeBuilder(WHOLE[0], 0.0, TreeShape())
    value = row(1)
    builder.add((HEAD + b"%06d" % number, value) for number in range(100_000))
    found = builder.tree()
    assert 300 < len(found.leaves) < 500
    assert 2 < len(found.branches) < 20
