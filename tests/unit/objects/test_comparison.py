"""A comparison of two sides that answer by small pages finds exactly what differs, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from siltstone.objects.comparison import Comparison, CountedSide, DifferentRows
from siltstone.objects.records.head import Head, encode_head
from siltstone.objects.records.keys import HEAD
from siltstone.objects.tree import HeadTree, Node, Range, TreeBuilder, TreeShape, head_hash
from siltstone.objects.tree_side import HashPage, Side

WHOLE: Range = (HEAD, b"\x11")
Rows = dict[bytes, bytes]


class SmallSide:
    """Rows in memory, of which a page has at most so many."""

    def __init__(self, rows: Rows, shape: TreeShape, page: int) -> None:
        builder = TreeBuilder(WHOLE[0], 0.0, shape)
        builder.add(rows.items())
        self._tree: HeadTree = builder.tree()
        self._rows = rows
        self._page = page

    async def branches(self) -> list[Node]:
        return self._tree.branches

    async def leaves(self, which: Range) -> list[Node]:
        return self._tree.leaves_of(which)

    async def hashes(self, which: Range) -> HashPage:
        keys = [key for key in self._rows if which[0] <= key < which[1]]
        page = {key: head_hash(key, self._rows[key]) for key in keys[: self._page]}
        return HashPage(page, None if len(keys) <= self._page else keys[self._page - 1] + b"\0")

    async def rows(self, row_keys: Sequence[bytes]) -> list[bytes]:
        assert row_keys, "nothing is asked for in vain"
        return [self._rows[key] for key in row_keys]


def rows_of(model: dict[int, int]) -> Rows:
    return {
        HEAD + b"%03d" % key: encode_head(
            Head(1, 0, 1, 0, 9, 9, bytes(7) + bytes((value,)), 5, 0, (), b"")
        )
        for key, value in sorted(model.items())
    }


async def compared(left: Any, right: Any) -> tuple[list[DifferentRows], int]:
    counted = CountedSide(cast("Side", right))
    pages = Comparison(cast("Side", left), counted, WHOLE).pages()
    found = [each async for page in pages for each in page]
    return found, counted.exchanged_bytes


models = st.dictionaries(st.integers(0, 80), st.integers(0, 2), max_size=60)
shapes = st.sampled_from([TreeShape(b"", b""), TreeShape(b"\x40", b"\x10"), TreeShape()])


@given(models, models, shapes, st.integers(1, 9), st.integers(1, 9))
def test_exactly_what_differs_is_found(
    first: dict[int, int], second: dict[int, int], shape: TreeShape, page: int, other: int
) -> None:
    left, right = rows_of(first), rows_of(second)
    sides = SmallSide(left, shape, page), SmallSide(right, shape, other)
    found, exchanged = asyncio.run(compared(*sides))
    wrong = [key for key in sorted({**left, **right}) if left.get(key) != right.get(key)]
    assert found == [DifferentRows(key, left.get(key), right.get(key)) for key in wrong]
    assert exchanged >= sum(len(key) for key in right if key in wrong)
