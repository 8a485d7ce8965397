"""Value compaction where bytes are damaged: it goes on beside them, and drops only what it may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from siltstone.objects import AsyncKeyspace, DroppedObject, LostObjectError
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records.value_record import ValueKind
from siltstone.objects.value_compaction import ValueCompaction
from tests.support.objects.damaged_segments import (
    Spot,
    compact_whole,
    damage,
    head_of,
    replaced_often,
    sealed_rows,
    spot,
)
from tests.support.objects.small_segments import small_keyspace, store_for_keyspaces
from tests.support.objects.value_replay import replay
from tests.support.stores import chunk_path

KEPT = {f"kept{number}": b"%d" % number * 60 for number in range(6)}


async def value_spot(folder: Path, key: str, *, tag: str = "o") -> Spot:
    """The last byte of the value of an object."""
    async with small_keyspace(folder) as (_, _, space):
        head = await head_of(space, key, tag)
        return await spot(space, head.number, head.offset + head.length - 5)


async def check_others(keyspace: AsyncKeyspace, *lost: str, tag: str = "o") -> None:
    """All values but the lost ones are what was put."""
    for key, value in KEPT.items():
        if key not in lost:
            found = await keyspace.get("b", key, tag=tag)
            assert found is not None
            assert found.value == value


async def test_a_segment_with_a_damaged_value_stays_and_the_others_are_compacted(
    tmp_path: Path,
) -> None:
    folder = store_for_keyspaces(tmp_path)
    rows = await replaced_often(folder, KEPT)
    damage(folder, await value_spot(folder, "kept3"))
    async with small_keyspace(folder) as (store, keyspace, space):
        number = (await head_of(space, "kept3")).number
        reports = await compact_whole(keyspace, store)
        assert {report.unreadable for report in reports} == {(number,)}
        compacted = {each for report in reports for each in report.run}
        assert {row.number for row in rows} - compacted == {number}
        assert number in {row.number for row in await sealed_rows(space)}
        assert not [report for report in reports if report.dropped]
        await check_others(keyspace, "kept3")
        with pytest.raises(LostObjectError):
            await keyspace.get("b", "kept3")


async def test_a_loss_that_is_accepted_deletes_the_object_and_names_it(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    await replaced_often(folder, KEPT)
    damage(folder, await value_spot(folder, "kept3"))
    async with small_keyspace(folder) as (store, keyspace, space):
        head = await head_of(space, "kept3")
        reports = await compact_whole(keyspace, store, accept_loss=True)
        dropped = [each for report in reports for each in report.dropped]
        assert dropped == [DroppedObject("o", "b", "kept3", head.sqn)]
        assert {report.unreadable for report in reports} == {()}
        assert head.number not in {row.number for row in await sealed_rows(space)}
        await check_others(keyspace, "kept3")
        assert await keyspace.head("b", "kept3") is None
        found = [key async for _, key in keyspace.index("b", "f")]
        assert found == sorted(set(KEPT) - {"kept3"})
        seen = await replay(space)
        names = {key.key for key in seen.visible(store.environment.time())}
        assert names == {b"often", *(key.encode() for key in set(KEPT) - {"kept3"})}


async def test_an_object_that_is_put_again_meanwhile_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store_for_keyspaces(tmp_path)
    await replaced_often(folder, KEPT)
    damage(folder, await value_spot(folder, "kept3"))
    async with small_keyspace(folder) as (store, keyspace, _):
        write = ValueCompaction._write

        async def late(self: ValueCompaction, *arguments: Any) -> Any:
            found = await write(self, *arguments)
            await keyspace.put("b", "kept3", b"again")
            return found

        monkeypatch.setattr(ValueCompaction, "_write", late)
        reports = await compact_whole(keyspace, store, accept_loss=True)
        assert not [report for report in reports if report.dropped]
        found = await keyspace.get("b", "kept3")
        assert found is not None
        assert found.value == b"again"


async def test_of_a_tag_that_retains_the_header_of_what_was_dropped_stays(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    await replaced_often(folder, KEPT, tag="log")
    damage(folder, await value_spot(folder, "kept3", tag="log"))
    async with small_keyspace(folder) as (store, keyspace, space):
        head = await head_of(space, "kept3", "log")
        reports = await compact_whole(keyspace, store, accept_loss=True)
        dropped = [each for report in reports for each in report.dropped]
        assert dropped == [DroppedObject("log", "b", "kept3", head.sqn)]
        await check_others(keyspace, "kept3", tag="log")
        seen = await replay(space)
        header, _ = seen.records[head.sqn]
        assert (header.kind, header.key.key) == (ValueKind.KEY_DELTA, b"kept3")


async def test_a_run_of_which_all_is_lost_gives_no_new_segment(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    rows = await replaced_often(folder, {"kept": b"v" * 60})
    assert not rows, "one object and its twelve changes do not fill a segment"
    async with small_keyspace(folder) as (store, keyspace, space):
        for _ in range(20):
            await keyspace.put("b", "often", b"x" * 20)
        rows = await sealed_rows(space)
        await store.flush()
        lost = [key for key in ("kept", "often") if (await head_of(space, key)).number == 1]
    assert lost == ["kept"]
    damage(folder, await value_spot(folder, "kept"))
    async with small_keyspace(folder) as (_, keyspace, space):
        report = await keyspace.compact(accept_loss=True)
        assert (report.run, report.made, report.kept) == ((1,), (), 0)
        assert [each.key for each in report.dropped] == ["kept"]
        assert await sealed_rows(space) == []


async def damaged_header(space: OpenSpace, key: str) -> Spot:
    head = await head_of(space, key)
    return await spot(space, head.number, head.offset + 20)


async def damaged_footer(space: OpenSpace, key: str) -> Spot:
    head = await head_of(space, key)
    row = (await space.parts.manifest.now()).row_of(head.sqn)
    assert row is not None
    return await spot(space, row.number, row.length + 30)


async def damaged_old_record(space: OpenSpace, key: str) -> Spot:
    """The value of the record after it, which was replaced."""
    head = await head_of(space, key)
    page = await anext(space.parts.values.headers((await sealed_rows(space))[0], 0))
    (after,) = [each for each in page if each.header.sqn == head.sqn + 1]
    return await spot(space, head.number, after.offset + after.header.record_length - 5)


@pytest.mark.parametrize("where", [damaged_header, damaged_footer, damaged_old_record])
async def test_damage_that_leaves_all_values_whole_stops_no_compaction(
    tmp_path: Path, where: Any
) -> None:
    """Headers are there twice; what was replaced is not needed, though it is in the same block."""
    folder = store_for_keyspaces(tmp_path)
    await replaced_often(folder, KEPT)
    async with small_keyspace(folder) as (_, _, space):
        place = await where(space, "kept0")
    damage(folder, place)
    async with small_keyspace(folder) as (store, keyspace, space):
        reports = await compact_whole(keyspace, store)
        assert 1 in {number for report in reports for number in report.run}
        assert {(report.unreadable, report.dropped) for report in reports} == {((), ())}
        await check_others(keyspace)


@pytest.mark.parametrize("accept_loss", [False, True])
async def test_a_segment_without_readable_headers_is_left_whatever_is_accepted(
    tmp_path: Path, *, accept_loss: bool
) -> None:
    """It may have tombstones of which nothing else tells."""
    folder = store_for_keyspaces(tmp_path)
    await replaced_often(folder, KEPT)
    async with small_keyspace(folder) as (_, _, space):
        places = [await damaged_header(space, "kept0"), await damaged_footer(space, "kept0")]
    damage(folder, *places)
    async with small_keyspace(folder) as (store, keyspace, space):
        reports = await compact_whole(keyspace, store, accept_loss=accept_loss)
        assert {(report.unreadable, report.dropped) for report in reports} == {((1,), ())}
        assert len(reports) > 1
        assert 1 in {row.number for row in await sealed_rows(space)}
        await check_others(keyspace, "kept0")


@pytest.mark.parametrize("what", ["chunk", "segment"])
async def test_a_segment_that_is_gone_is_left_and_the_others_are_compacted(
    tmp_path: Path, what: str
) -> None:
    folder = store_for_keyspaces(tmp_path)
    await replaced_often(folder, KEPT)
    async with small_keyspace(folder) as (store, _, space):
        number = (await head_of(space, "kept0")).number
        place = await spot(space, number, 0)
        if what == "segment":
            await store.segment(space.parts.names.value_segment(number)).delete()
    if what == "chunk":
        chunk_path(folder, place[0]).unlink()
    async with small_keyspace(folder) as (store, keyspace, space):
        reports = await compact_whole(keyspace, store, accept_loss=what == "segment")
        assert len(reports) > 1
        assert {report.unreadable for report in reports} == {(number,)}
        seen = [each async for each in keyspace.heads("b")]
        assert len(seen) == len(KEPT) + 1
