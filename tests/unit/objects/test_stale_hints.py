"""Values whose heads name places that are gone are found by their SQN, or told to be lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import siltstone
from siltstone.core.errors import ChunkUnavailableError, CorruptDataError
from siltstone.objects import AsyncKeyspace, LostObjectError
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records.footer import TRAILER_BYTES, decode_trailer
from siltstone.objects.records.keys import ObjectKey
from siltstone.objects.records.space_rows import ManifestRow
from siltstone.objects.snapshots import HeldLedger
from siltstone.objects.value_compaction import ValueCompaction
from siltstone.objects.value_tasks import do_tasks
from tests.support.objects.rebuilt import all_sealed, bytes_at, flip_all
from tests.support.objects.small_segments import small_keyspace, store_for_keyspaces, values_of
from tests.support.objects.value_replay import lying

KEPT = {f"kept{number}": b"%d" % number * 40 for number in range(6)}


async def filled(keyspace: AsyncKeyspace, first: int = 0) -> None:
    """Objects that stay, each among changes that give a lot to compact."""
    for number, (key, value) in enumerate(KEPT.items()):
        if not first:
            await keyspace.put("b", key, value)
        for time in range(10):
            await keyspace.put("b", "often", b"%d" % (first + number * 10 + time) * 20)


async def compacted(keyspace: AsyncKeyspace, space: OpenSpace, store: siltstone.AsyncStore) -> None:
    """Let the last full segments get their footers, and compact until nothing is worth it."""
    await all_sealed(space)
    await store.flush()
    while (await keyspace.compact()).run:
        pass


async def made_row(space: OpenSpace) -> ManifestRow:
    """The segment that compaction made."""
    return next(row for row in (await space.parts.manifest.now()).rows if row.as_of)


async def test_old_and_new_snapshots_find_what_was_moved_twice(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await filled(keyspace)
        oldest = await keyspace.snapshot()
        await compacted(keyspace, space, store)
        between = await keyspace.snapshot()
        await filled(keyspace, 100)
        await keyspace.delete("b", "kept0")
        await compacted(keyspace, space, store)
        for taken, often in ((oldest, b"59"), (between, b"59")):
            assert {each.head.key: each.value async for each in taken.objects("b")} == {
                **KEPT,
                "often": often * 20,
            }
            for key, value in KEPT.items():
                found = await taken.get("b", key)
                assert found is not None
                assert found.value == value
            await taken.close()
        await do_tasks(space.parts)
        now = {**KEPT, "often": b"159" * 20}
        del now["kept0"]
        assert await values_of(keyspace) == now


Place = Callable[[bytes, ManifestRow], int]
DAMAGES: dict[str, Place] = {
    "trailer": lambda data, row: row.footer_end - 5,
    "directory": lambda data, row: (
        decode_trailer(data[-TRAILER_BYTES:], where="footer").directory + 3
    ),
    "piece": lambda data, row: row.length + 30,
}


@pytest.mark.parametrize("part", sorted(DAMAGES))
async def test_a_damaged_footer_hides_what_was_moved_and_nothing_else(
    tmp_path: Path, part: str
) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        await filled(keyspace)
        await compacted(keyspace, space, store)
        row = await made_row(space)
        moved = [key for key in KEPT if await place_of(space, key) <= row.last_sqn]
        segment = store.segment(space.parts.names.value_segment(row.number))
        at = DAMAGES[part](await segment.read(0, row.footer_end), row)
        place = await bytes_at(store, segment.name, at)
        assert moved
    flip_all(folder, [place])
    async with small_keyspace(folder) as (_, keyspace, space):
        for key, value in KEPT.items():
            if key in moved:
                with pytest.raises(LostObjectError, match=key):
                    await keyspace.get("b", key)
                continue
            found = await keyspace.get("b", key)
            assert found is not None
            assert found.value == value
        often = await keyspace.get("b", "often")
        assert often is not None
        assert often.value == b"59" * 20
        assert len([head async for head in keyspace.heads("b")]) == len(KEPT) + 1
        with pytest.raises(CorruptDataError):
            await anext(keyspace.objects("b", order="sqn"))


async def place_of(space: OpenSpace, key: str) -> int:
    head = await space.parts.ledger.head(ObjectKey(b"o", b"b", key.encode()))
    assert head is not None
    return head.sqn


async def test_an_sqn_that_was_compacted_away_sends_a_reader_to_the_head_again(
    tmp_path: Path,
) -> None:
    """As a slow reader: its head is old, and the manifest that it then looks at new."""
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await filled(keyspace)
        ledger = space.parts.ledger
        key = ObjectKey(b"o", b"b", b"kept1")
        old = await ledger.head(key)
        assert old is not None
        await keyspace.put("b", "kept1", b"newer")
        await filled(keyspace, 100)
        await compacted(keyspace, space, store)
        heads = [replace_number(old)]
        look = type(ledger).head

        class Late:
            """Gives the old head once."""

            async def head(self, key: ObjectKey) -> object:
                return heads.pop() if heads else await look(ledger, key)

        space.parts = replace(space.parts, ledger=Late())  # type: ignore[arg-type]
        found = await keyspace.get("b", "kept1")
        assert found is not None
        assert found.value == b"newer"


def replace_number(head: object) -> object:
    """The head as one of a segment that the manifest does not have."""
    return head._replace(number=10_000)  # type: ignore[attr-defined]


async def test_a_task_of_a_compaction_that_ends_meanwhile_waits_for_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old segments are being deleted while a snapshot is taken and a compaction adds more."""
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await filled(keyspace)
        held = await keyspace.snapshot()
        await compacted(keyspace, space, store)
        await held.close()
        table = space.parts.store.table(space.parts.names.ledger)
        taken: list[HeldLedger] = []
        pages = type(table).scan

        async def scan(self: object, *bounds: bytes) -> object:
            async for entry in pages(table, *bounds):
                yield entry
                if not taken:
                    taken.append(await space.parts.snapshots.take(60))
                    await table.put(b"\x04" + b"\xff" * 4, entry[1].value)
            async for entry in pages(table, b"\x04" + b"\xff" * 4, b"\x05"):
                yield entry

        with monkeypatch.context() as patch:
            patch.setattr(type(table), "scan", scan)
            assert await do_tasks(space.parts)
        assert await table.get(b"\x04" + b"\xff" * 4) is not None
        taken[0].release()
        assert await do_tasks(space.parts) == 1


async def test_the_next_compaction_deletes_what_one_before_did_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise ChunkUnavailableError("no answer", chunk="", operation="create")

    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await filled(keyspace)
        with monkeypatch.context() as patch:
            patch.setattr(ValueCompaction, "_switch", fails)
            with pytest.raises(ChunkUnavailableError):
                await compacted(keyspace, space, store)
        await compacted(keyspace, space, store)
        assert await lying(space) == {row.number for row in (await space.parts.manifest.now()).rows}


async def test_a_compaction_whose_old_segments_cannot_be_deleted_yet_took_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> int:
        raise ChunkUnavailableError("no answer", chunk="", operation="delete")

    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await filled(keyspace)
        await store.flush()
        with monkeypatch.context() as patch:
            patch.setattr("siltstone.objects.open_space.do_tasks", fails)
            report = await keyspace.compact()
        assert report.run
        assert await do_tasks(space.parts) == len(report.run)
