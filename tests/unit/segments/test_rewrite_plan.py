"""Which chunks are rewritten, how, and what happens when something changes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.chunk_storage import Capabilities
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import ChunkUnavailableError, CorruptDataError, LogError
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.storage.block_sums import extend_sums
from siltstone.segments.rewrite_plan import (
    MergeRules,
    RelocationRules,
    Rewrite,
    joins_natively,
    plan_merges,
    plan_relocation,
)
from siltstone.segments.segment_storage import SegmentStorageSettings
from tests.support.oracles.memory_layout_store import CommitOutcome
from tests.support.segments.segment_world import Call, Fault, World, data, merge, write_chunks

WRITE_ONCE = Profile(append=False, concat=False, seal=False)
COPYING = Profile(concat=False)
ALL = MergeRules(small_bytes=10**9, chunk_bytes=10**9, count_min=2)


def neighbours(lengths: list[int], start: int = 0) -> list[Extent]:
    found = []
    for index, length in enumerate(lengths):
        found.append(
            Extent(segment_id=1, start=start, chunk_id=index + 1, chunk_offset=0, length=length)
        )
        start += length
    return found


def own(chunk_id: int, **changes: object) -> Chunk:
    row = Chunk(chunk_id=chunk_id, name=f"c{chunk_id}", epoch=1, length=10**6, closed=True)
    return replace(row, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lengths", "small", "chunk_bytes", "count_min", "runs"),
    [
        ([], 10, 30, 2, []),
        ([5], 10, 30, 2, []),
        ([5, 5], 10, 30, 2, [[0, 1]]),
        ([5, 5], 10, 30, 3, []),
        ([5, 5, 11, 5, 5, 5], 10, 30, 3, [[3, 4, 5]]),
        ([5, 5, 5, 5], 10, 15, 2, [[0, 1, 2]]),
        ([5, 5, 5, 5], 10, 10, 2, [[0, 1], [2, 3]]),
        ([20, 5, 4], 20, 99, 2, [[1, 2]]),
        ([5, 4, 20], 20, 99, 2, [[0, 1]]),
        ([10, 5], 20, 99, 2, [[0, 1]]),
        ([11, 5], 20, 99, 2, []),
        ([5, 10, 5], 20, 99, 2, [[0, 1, 2]]),
    ],
)
def test_runs_of_small_neighbours(
    lengths: list[int], small: int, chunk_bytes: int, count_min: int, runs: list[list[int]]
) -> None:
    extents = neighbours(lengths)
    layout = Layout(segment_id=1, storage_length=sum(lengths))
    rules = MergeRules(small_bytes=small, chunk_bytes=chunk_bytes, count_min=count_min)
    plan = plan_merges(layout, extents, own, 0, rules, epoch=1)
    assert [list(map(extents.index, each.extents)) for each in plan.rewrites] == runs
    assert plan.resume is None


@pytest.mark.parametrize(
    ("count", "own_from", "chunk_bytes", "extents_max", "worth"),
    [
        (7, 7, 1_000, 250, False),
        (8, 8, 1_000, 250, True),
        (7, 6, 1_000, 250, True),  # one of them is the segment's own
        (7, 7, 70, 250, True),  # together they fill half a chunk
        (7, 7, 71, 250, False),
        (5, 5, 1_000, 5, True),  # more are not allowed
        (1, 1, 10, 250, False),
    ],
)
def test_shared_neighbours_are_merged_when_they_are_many_or_much(
    count: int, own_from: int, chunk_bytes: int, extents_max: int, worth: bool
) -> None:
    layout = Layout(segment_id=1, storage_length=5 * count)
    rules = MergeRules(small_bytes=5, chunk_bytes=chunk_bytes, count_min=2, extents_max=extents_max)
    plan = plan_merges(
        layout,
        neighbours([5] * count),
        lambda n: own(n, references=1 if n > own_from else 9),
        0,
        rules,
        epoch=1,
    )
    assert bool(plan.rewrites) is worth


def test_a_run_is_not_longer_than_a_transaction_allows() -> None:
    extents = neighbours([1] * 1_000)
    layout = Layout(segment_id=1, storage_length=1_000)
    plan = plan_merges(layout, extents, own, 0, ALL, epoch=1)
    assert [len(each.extents) for each in plan.rewrites] == [250, 250, 250, 250]
    plan = plan_merges(layout, extents[:600], own, 0, ALL, epoch=1, more=True)
    assert [each.end for each in plan.rewrites] == [250, 500]
    assert plan.resume == 500


@pytest.mark.parametrize(
    ("last", "chunk", "count"),
    [
        (0, own(3), 3),
        (3, own(3, closed=False), 2),
        (3, own(3, closed=False, epoch=0), 3),
        (3, own(3), 3),
    ],
)
def test_the_chunk_that_is_being_written_takes_no_part(last: int, chunk: Chunk, count: int) -> None:
    layout = Layout(segment_id=1, storage_length=15, last_chunk_id=last)
    plan = plan_merges(layout, neighbours([5, 5, 5]), lambda _: chunk, 0, ALL, epoch=1)
    assert [len(each.extents) for each in plan.rewrites] == [count]


@pytest.mark.parametrize(
    ("start", "storage_start", "first", "count"),
    [(0, 0, 0, 4), (3, 0, 3, 4), (5, 0, 5, 3), (7, 0, 10, 2), (7, 5, 7, 3), (20, 0, 0, 0)],
)
def test_dead_bytes_are_not_rewritten(
    start: int, storage_start: int, first: int, count: int
) -> None:
    layout = Layout(segment_id=1, storage_start=storage_start, storage_length=20)
    extents = [e for e in neighbours([5, 5, 5, 5]) if e.start >= storage_start]
    plan = plan_merges(layout, extents, own, start, ALL, epoch=1)
    assert [(each.start, len(each.extents)) for each in plan.rewrites] == (
        [(first, count)] if count else []
    )


@pytest.mark.parametrize(
    ("start", "changes", "worth"),
    [
        (80, {}, True),
        (79, {}, False),
        (0, {}, False),
        (100, {}, False),
        (99, {}, True),
        (80, {"length": 49}, False),
        (80, {"length": 201}, False),
        (80, {"references": 2}, False),
        (80, {"adopted": True, "epoch": 0}, True),
    ],
)
def test_when_a_first_chunk_is_relocated(
    start: int, changes: dict[str, object], worth: bool
) -> None:
    rules = RelocationRules(chunk_bytes_min=50, chunk_bytes_max=200, percent=80, live_bytes_max=20)
    layout = Layout(segment_id=1, storage_length=130)
    extents = neighbours([100, 30])
    chunk = replace(own(1, length=100), **changes)  # type: ignore[arg-type]
    found = plan_relocation(layout, extents[0], chunk, start, rules)
    wanted = Rewrite(segment_id=1, start=start, extents=(extents[0],))
    assert found == (wanted if worth else None)
    tight = replace(rules, live_bytes_max=0)
    assert plan_relocation(layout, extents[0], chunk, start, tight) is None


@pytest.mark.parametrize(
    ("limits", "rows", "native"),
    [
        ({}, {}, True),
        ({"concat": False}, {}, False),
        ({"concat_parts_max": 2}, {}, False),
        ({"concat_part_bytes_min": 10}, {}, True),
        ({"concat_part_bytes_min": 11}, {}, False),
        ({"concat_part_bytes_max": 9}, {}, False),
        ({}, {"adopted": True}, False),
        ({}, {"references": 2}, False),
        ({}, {"length": 11}, False),
    ],
)
def test_what_a_service_can_join(
    limits: dict[str, object], rows: dict[str, object], native: bool
) -> None:
    extents = neighbours([10, 10, 5])
    rewrite = Rewrite(segment_id=1, start=0, extents=tuple(extents))
    capabilities = replace(Capabilities(append=True, concat=True), **limits)  # type: ignore[arg-type]

    def chunk_of(chunk_id: int) -> Chunk:
        row = own(chunk_id, length=extents[chunk_id - 1].length)
        return replace(row, **rows) if chunk_id == 2 else row  # type: ignore[arg-type]

    assert joins_natively(rewrite, chunk_of, capabilities) == native


@pytest.mark.parametrize(
    ("profile", "verbs"),
    [
        (Profile(), {"concat": 1, "read_into": 1, "create": 0, "write": 0}),
        (COPYING, {"concat": 0, "create": 1, "write": 0}),
        (WRITE_ONCE, {"concat": 0, "create": 1, "write": 0}),
        (Profile(concat_parts_max=2), {"concat": 0, "create": 1, "write": 0}),
    ],
)
async def test_small_chunks_become_one(profile: Profile, verbs: dict[str, int]) -> None:
    world = World(profile)
    whole = await write_chunks(world, 1, [10, 300_000, 7, BLOCK, 1])
    world.calls.clear()
    assert await merge(world, 1, ALL) == 1
    assert world.chunk_lengths() == [len(whole)]
    counts = {verb: sum(c.verb == verb for c in world.calls) for verb in verbs}
    assert counts == verbs
    world.check()
    assert await world.read(1, 0, len(whole) + 1) == whole
    assert len(world.layouts.garbage) == 5
    assert not world.segments.take_abandoned()
    await world.segments.write(1, len(whole), [b"more"])
    assert await world.read(1, len(whole), 9) == b"more"
    assert world.chunk_lengths() == [len(whole), 4]


BLOCK = 256 * KIB


@pytest.mark.parametrize(
    ("profile", "writes"),
    [(COPYING, 3), (replace(COPYING, appends_max=2), 2), (replace(COPYING, appends_max=1), 1)],
)
async def test_large_copies_go_piece_by_piece(profile: Profile, writes: int) -> None:
    world = World(profile, settings=SegmentStorageSettings(read_back=True))
    whole = await write_chunks(world, 1, [5 * MIB + 3, 9 * MIB, 6 * MIB + 100])
    world.calls.clear()
    assert await merge(world, 1, ALL) == 1
    made = [call for call in world.calls if call.verb in ("create", "write")]
    assert len(made) == writes
    world.check()
    assert await world.read(1, 0, len(whole)) == whole


async def test_a_large_join_is_verified_and_summed() -> None:
    world = World()
    whole = await write_chunks(world, 1, [5 * MIB + 3, 9 * MIB, 6 * MIB + 100])
    assert await merge(world, 1, ALL) == 1
    world.check()
    assert await world.read(1, 0, len(whole)) == whole


@pytest.mark.parametrize("profile", [Profile(), COPYING])
async def test_damage_is_never_carried_over(profile: Profile) -> None:
    world = World(profile)
    await write_chunks(world, 1, [10, 300_000, 7])
    (_, second, _) = world.segments.chunks(1)
    world.content(second.chunk.name)[290_000] ^= 1
    with pytest.raises(CorruptDataError):
        await merge(world, 1, ALL)
    assert len(world.segments.take_abandoned()) == 1
    assert world.chunk_lengths() == [10, 300_000, 7]


@pytest.mark.parametrize("profile", [Profile(), COPYING])
@pytest.mark.parametrize("fault", list(Fault))
async def test_a_call_that_fails_changes_nothing(profile: Profile, fault: Fault) -> None:
    for verb in ("concat", "create", "read_into"):
        world = World(profile)
        whole = await write_chunks(world, 1, [10, 20, 7])

        def decide(call: Call, verb: str = verb) -> Fault | None:
            return fault if call.verb == verb else None

        world.storage.decide = decide
        try:
            made = await merge(world, 1, ALL)
        except ChunkUnavailableError:
            made = 0
            assert len(world.segments.take_abandoned()) == 1
        world.storage.decide = lambda _: None
        assert world.chunk_lengths() == ([37] if made else [10, 20, 7])
        assert await world.read(1, 0, 99) == whole
        world.check()
        await merge(world, 1, ALL)
        assert world.chunk_lengths() == [37]


def _deleted(world: World) -> None:
    world.layouts.change(1, deleted=True)


async def _removed(world: World) -> None:
    world.layouts.change(1, deleted=True)
    while not await world.segments.remove(1):
        pass


async def _trimmed(world: World) -> None:
    world.layouts.change(1, start_offset=15)
    await world.segments.trim(1, 15)


@pytest.mark.parametrize("profile", [Profile(), COPYING])
@pytest.mark.parametrize("change", [_deleted, _removed, _trimmed])
async def test_what_changed_meanwhile_wins(profile: Profile, change: Callable[..., object]) -> None:
    world = World(profile)
    await write_chunks(world, 1, [10, 20, 7])
    extents = tuple(world.layouts.extents(1, 0, 99, 9))
    rewrite = Rewrite(segment_id=1, start=0, extents=extents)
    work = change(world)
    if work is not None:
        await work  # type: ignore[misc]
    try:
        assert not await world.segments.rewrite(rewrite)
    except CorruptDataError:
        assert change is not _deleted, "the rows are still there"
    assert len(world.segments.take_abandoned()) == 1
    world.check()


@pytest.mark.parametrize(
    ("outcome", "abandoned"),
    [(CommitOutcome.REFUSED, 1), (CommitOutcome.LOST, 0), (CommitOutcome.APPLIED_UNREPORTED, 0)],
)
async def test_a_new_chunk_is_garbage_unless_it_may_be_named(
    outcome: CommitOutcome, abandoned: int
) -> None:
    world = World()
    whole = await write_chunks(world, 1, [10, 20])
    world.layouts.ends = lambda _: outcome
    try:
        assert not await merge(world, 1, ALL)
    except LogError:
        assert not abandoned
    assert len(world.segments.take_abandoned()) == abandoned
    assert await world.read(1, 0, 99) == whole
    world.check()


def share(world: World, lengths: list[int]) -> None:
    """Move the bytes of all segments into one chunk; the extents get offsets in it."""
    rows = world.layouts.rows
    chunks = sorted(rows.chunks.values(), key=lambda chunk: chunk.chunk_id)
    joined = b"".join(bytes(world.content(chunk.name)) for chunk in chunks)
    first = chunks[0]
    offset = 0
    for chunk, length in zip(chunks, lengths, strict=True):
        for extents in rows.extents.values():
            extents[:] = [
                replace(e, chunk_id=first.chunk_id, chunk_offset=offset)
                if e.chunk_id == chunk.chunk_id
                else e
                for e in extents
            ]
        offset += length
        del rows.chunks[chunk.chunk_id], rows.sums[chunk.chunk_id]
    world.bucket.chunks[first.name.encode()].content[:] = joined
    rows.chunks[first.chunk_id] = replace(first, length=len(joined), references=len(lengths))
    rows.sums[first.chunk_id] = extend_sums([joined], 0, 0)
    world.check()


async def test_a_shared_chunk_is_unpacked_by_copying() -> None:
    world = World()
    first = await write_chunks(world, 1, [300_000])
    second = await write_chunks(world, 2, [70_000])
    share(world, [300_000, 70_000])
    first += await write_chunks(world, 1, [500, 600])
    await write_chunks(world, 2, [100_000])
    assert await merge(world, 1, ALL) == 1
    assert world.chunk_lengths() == [300_000, 1_100], "the shared chunk would dominate"
    first += await write_chunks(world, 1, [200_000])
    assert await merge(world, 1, ALL) == 1
    assert await world.read(1, 0, 10**6) == first
    assert (await world.read(2, 0, 10**6))[:70_000] == second
    assert world.layouts.rows.chunks[1].references == 1
    assert not any(chunk.chunk_id == 1 for chunk in world.layouts.garbage)
    world.check()
    assert await merge(world, 2, ALL) == 1
    assert any(chunk.chunk_id == 1 for chunk in world.layouts.garbage)
    assert (await world.read(2, 0, 10**6))[:70_000] == second
    world.check()


async def test_relocation_frees_the_chunk_and_keeps_the_rest() -> None:
    world = World()
    whole = await write_chunks(world, 1, [100, 30])
    rules = RelocationRules(chunk_bytes_min=1, chunk_bytes_max=200, percent=50, live_bytes_max=99)
    for start in (50, 75, 88, 94):
        world.layouts.change(1, start_offset=start)
        rewrite = world.segments.plan_relocation(1, rules)
        assert rewrite is not None
        assert await world.segments.rewrite(rewrite)
        assert world.layouts.layout(1).storage_start == start
        assert world.chunk_lengths() == [100 - start, 30]
        assert await world.read(1, start, 200) == whole[start:]
        world.check()
    assert len(world.layouts.garbage) == 4
    world.layouts.change(1, start_offset=95)
    assert world.segments.plan_relocation(1, rules) is None


async def test_the_open_chunk_is_closed_before_it_is_relocated() -> None:
    world = World()
    world.layouts.add(1)
    whole = data(110)
    await world.segments.write(1, 0, [whole[:100]])
    world.layouts.change(1, start_offset=90)
    rules = RelocationRules(chunk_bytes_min=1, chunk_bytes_max=200, percent=50, live_bytes_max=99)
    rewrite = world.segments.plan_relocation(1, rules)
    assert rewrite is not None
    assert await world.segments.close_chunk(1)
    await world.segments.write(1, 100, [whole[100:]])
    assert await world.segments.rewrite(rewrite)
    assert world.chunk_lengths() == [10, 10]
    assert await world.read(1, 90, 99) == whole[90:]
    world.check()
