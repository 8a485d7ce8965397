"""Which fragments of chunks a backup keeps, and which it copies, given the earlier ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.container.reads.chunk_rows import ChunkRows
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.records.backup import BackupChunk
from siltstone.core.records.chunk import Chunk
from siltstone.migration.backup.fragment_copy import FRAGMENT_BYTES
from siltstone.migration.backup.plan import ChunkPlan, fragment_name, longest, plan_chunks
from siltstone.pipelines.window import unpack_sums

LENGTHS = st.one_of(
    st.integers(1, 3 * BLOCK_BYTES),
    st.integers(FRAGMENT_BYTES - BLOCK_BYTES, 3 * FRAGMENT_BYTES),
)


def row_of(length: int, name: str = "c", *, chunk_id: int = 7, session_id: int = 0) -> ChunkRows:
    chunk = Chunk(chunk_id=chunk_id, name=name, epoch=1, length=length, session_id=session_id)
    return ChunkRows(container=2, chunk=chunk, sums=tuple(range(-(-length // BLOCK_BYTES))))


def plan_of(
    row: ChunkRows, known: dict[str, BackupChunk], lengths: dict[str, int]
) -> tuple[ChunkPlan, BackupChunk]:
    """The plan, and the chunk's entry in the generation after everything was copied."""
    (plan,) = plan_chunks("folder/", [row], known, lengths)
    for item in plan.items:
        assert item.name == "folder/" + fragment_name(plan.name + plan.mark, item.start, item.stop)
        assert (item.chunk, item.length) == (row.chunk.name, row.chunk.length)
        first = item.start // BLOCK_BYTES
        assert item.start == first * BLOCK_BYTES, "a fragment begins with a block"
        assert unpack_sums(item.sums) == row.sums[first : -(-item.stop // BLOCK_BYTES)]
        plan.came[item.name] = 1
    return plan, plan.result()


def objects_of(chunk: BackupChunk) -> dict[str, int]:
    return {fragment_name(chunk.stem, f.start, f.stop): f.length for f in chunk.fragments}


def check_whole(chunk: BackupChunk, length: int) -> None:
    """Its fragments cover every byte, each from its place in the chunk."""
    end = 0
    for fragment in chunk.fragments:
        assert fragment.start <= end < fragment.stop <= fragment.start + FRAGMENT_BYTES
        end = fragment.stop
    assert end == length


@pytest.mark.slow
@given(grown=st.lists(LENGTHS, min_size=1, max_size=4).map(sorted))
def test_a_chunk_that_grows_is_whole_in_each_generation(grown: list[int]) -> None:
    known: dict[str, BackupChunk] = {}
    lengths: dict[str, int] = {}
    lists: list[list[BackupChunk]] = []
    for length in grown:
        plan, chunk = plan_of(row_of(length), known, lengths)
        check_whole(chunk, length)
        if lists:
            assert plan.kept == lists[-1][0].fragments
            assert bool(plan.items) == (length > lists[-1][0].length)
        lists.append([chunk])
        known = longest(lists)
        assert known["c"].length == length
        lengths |= objects_of(chunk)
    assert longest(reversed(lists))["c"].length == grown[-1]


@given(length=LENGTHS, data=st.data())
def test_what_the_place_has_lost_of_a_chunk_comes_again(length: int, data: st.DataObject) -> None:
    _, chunk = plan_of(row_of(length), {}, {})
    lengths = objects_of(chunk)
    lost = data.draw(st.sampled_from(sorted(lengths)))
    if data.draw(st.booleans()):
        lengths[lost] -= 1
    else:
        del lengths[lost]
    plan, again = plan_of(row_of(length), {"c": chunk}, lengths)
    assert plan.kept == ()
    assert again.fragments == chunk.fragments
    assert {item.name: item.found for item in plan.items} == {
        f"folder/{name}": lengths.get(name) for name in objects_of(chunk)
    }


def test_what_is_longer_than_the_chunk_is_not_taken_for_it() -> None:
    _, longer = plan_of(row_of(1_000), {}, {})
    plan, chunk = plan_of(row_of(900), {"c": longer}, objects_of(longer))
    assert (plan.kept, [(f.start, f.stop) for f in chunk.fragments]) == ((), [(0, 900)])


def test_a_chunk_without_bytes_in_one_generation_is_known_by_another() -> None:
    _, whole = plan_of(row_of(900), {}, {})
    lacking = BackupChunk(name="c", length=1_000, fragments=())
    for lists in ([[whole], [lacking]], [[lacking], [whole]]):
        assert longest(lists) == {"c": whole}
    assert longest([[lacking]]) == {}
    assert longest([[whole], [replace(whole)]])["c"] is whole


def test_names_in_place_come_again_and_are_told_apart_by_ids() -> None:
    rows = [row_of(900, chunk_id=number, session_id=5) for number in (7, 8)]
    first, second = (plan_of(row, {}, {})[1] for row in rows)
    assert (first.stem, second.stem) == ("c.c2-7", "c.c2-8")
    plan, _ = plan_of(rows[1], longest([[first]]), objects_of(first))
    assert (plan.kept, plan.items[0].found) == ((), None)
    assert plan_of(row_of(900, chunk_id=9), {}, {})[1].stem == "c"


def test_bytes_that_did_not_come_make_no_fragments() -> None:
    plan, _ = plan_of(row_of(900), {}, {})
    plan.damage = "damaged: c"
    assert plan.result() == BackupChunk(name="c", length=900, fragments=())


def test_plans_come_in_the_order_of_names() -> None:
    rows = [row_of(900, name) for name in ("b", "a", "c")]
    assert [plan.name for plan in plan_chunks("folder/", rows, {}, {})] == ["a", "b", "c"]
