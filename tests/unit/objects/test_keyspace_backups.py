"""Backups of keyspaces: what is acknowledged is in them, whatever the source does later."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

import siltstone
from siltstone import objects
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    ChunkNotFoundError,
    ChunkUnavailableError,
    CorruptDataError,
    ReadOnlyError,
    SettingsError,
    StoreError,
    StoreInUseError,
    StoreNotFoundError,
)
from siltstone.objects import (
    AsyncKeyspace,
    KeyspaceExistsError,
    KeyspaceNotFoundError,
    RebuildingError,
    Recalc,
    UnsupportedError,
)
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records.keys import MANIFEST
from siltstone.objects.space_names import space_names
from siltstone.objects.space_place import SpacePlace
from siltstone.store.admin.generations import COPY as COPY_END
from siltstone.store.admin.place_objects import read_record
from tests.support import inside
from tests.support.objects.rebuilt import all_sealed, bytes_at, flip_all, ledger_rows
from tests.support.objects.small_segments import (
    LIMITS,
    NAME,
    small_keyspace,
    store_for_keyspaces,
    values_of,
)
from tests.support.stores import flip

COPY = "copy"


async def changed(keyspace: AsyncKeyspace, random: Random, count: int = 150) -> None:
    """Puts and deletes with terms, metadata and ends."""
    futures: list[asyncio.Future[object]] = []
    for number in range(count):
        key, tag = f"k{random.randrange(30)}", random.choice(["o", "o", "log"])
        if random.random() < 0.2:
            futures.append(asyncio.ensure_future(keyspace.delete("b", key, tag=tag)))
            continue
        put = keyspace.put(
            "b",
            key,
            random.randbytes(random.randrange(200)),
            tag=tag,
            metadata=b"%d" % number,
            index={"f": [str(random.randrange(5))]},
            ttl_s=random.choice([None, None, 1_000]),
        )
        futures.append(asyncio.ensure_future(put))
    await asyncio.gather(*futures)


async def compacted(keyspace: AsyncKeyspace, space: OpenSpace, store: siltstone.AsyncStore) -> None:
    await all_sealed(space)
    await store.flush()
    while (await keyspace.compact()).run:
        pass


async def shown(keyspace: AsyncKeyspace) -> dict[str, object]:
    """All that a keyspace shows, in both tags."""
    found: dict[str, object] = {}
    for tag in ("o", "log"):
        found[f"{tag} terms"] = [each async for each in keyspace.index("b", "f", tag=tag)]
        async for each in keyspace.objects("b", tag=tag):
            head = each.head
            found[f"{tag} {head.key}"] = (
                *(each.value, head.metadata, head.index, head.sqn),
                *(head.modified, head.expires, head.value_hash),
            )
    return found


def files(place: Path) -> dict[str, int]:
    """Names and lengths of all that lies in a place."""
    return {
        str(path.relative_to(place)): path.stat().st_size
        for path in place.rglob("*")
        if path.is_file()
    }


async def test_a_restored_keyspace_shows_what_was_acknowledged_when_the_backup_began(
    tmp_path: Path,
) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one")) as (store, keyspace, space):
        random = Random(1)
        await changed(keyspace, random)
        await compacted(keyspace, space, store)
        await changed(keyspace, random)
        was = await shown(keyspace)
        report = await keyspace.backup(place)
        assert report.generation == 1
        assert report.copied == report.segments > 3
        await changed(keyspace, random)
        await compacted(keyspace, space, store)
        again = await shown(keyspace)
        later = await keyspace.backup(place)
        assert 0 < later.copied < later.segments
        assert later.sqn > report.sqn
    async with await siltstone.open_async(store_for_keyspaces(tmp_path / "two")) as store:
        await objects.restore_async(store, COPY, place, generation=1)
        copy = await objects.open_async(store, COPY)
        assert await shown(copy) == was
        assert copy.tags == {"log": "retain", "o": "recovr"}
        put = await copy.put("b", "after", b"v")
        assert put.sqn == report.sqn + 1
        await objects.restore_async(store, "newer", place)
        assert await shown(await objects.open_async(store, "newer")) == again
        with pytest.raises(KeyspaceExistsError):
            await objects.restore_async(store, COPY, place)


async def test_a_backup_of_nothing_new_copies_nothing(tmp_path: Path) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one")) as (_, keyspace, _space):
        empty = await keyspace.backup(place)
        assert (empty.sqn, empty.segments, empty.copied) == (0, 0, 0)
        await changed(keyspace, Random(2), 30)
        first = await keyspace.backup(place)
        second = await keyspace.backup(place)
        assert (second.copied, second.copied_bytes, second.size) == (0, 0, first.size)
        assert (second.generation, second.sqn) == (3, first.sqn)
    found = objects.list_backups(place)
    assert [each.generation for each in found] == [1, 2, 3]
    assert {(each.keyspace, each.damage) for each in found} == {(NAME, ())}
    assert [each.sqn for each in found] == [0, first.sqn, first.sqn]
    async with await siltstone.open_async(store_for_keyspaces(tmp_path / "two")) as store:
        await objects.restore_async(store, COPY, place, generation=1)
        copy = await objects.open_async(store, COPY)
        assert await shown(copy) == {"o terms": [], "log terms": []}
        assert (await copy.put("b", "k", b"v")).sqn == 1


async def test_puts_and_compactions_go_on_during_a_backup(tmp_path: Path) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one")) as (store, keyspace, _space):
        random = Random(3)
        await changed(keyspace, random)
        for number in range(40):
            await keyspace.put("fixed", f"k{number}", b"%d" % number)
        backup = asyncio.ensure_future(keyspace.backup(place))
        while not backup.done():
            await changed(keyspace, random, 20)
            await store.flush()
            await keyspace.compact()
            for number in range(40):
                await keyspace.put("fixed", f"k{number}", b"%d" % number)
        report = await backup
    async with await siltstone.open_async(store_for_keyspaces(tmp_path / "two")) as store:
        await objects.restore_async(store, COPY, place)
        copy = await objects.open_async(store, COPY)
        assert await values_of(copy, "fixed") == {f"k{each}": b"%d" % each for each in range(40)}
        heads = [head async for head in copy.heads()]
        assert max(head.sqn for head in heads) <= report.sqn


class LateAnswers:
    """A store whose commits take effect at once and answer when a gate is open."""

    def __init__(self, store: siltstone.AsyncStore, gate: asyncio.Event) -> None:
        self._store = store
        self._gate = gate
        self.is_waiting = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, *arguments: Any) -> Any:
        result = await self._store.commit(*arguments)
        self.is_waiting.set()
        await self._gate.wait()
        return result


async def test_a_roll_that_has_no_answer_yet_takes_nothing_from_a_backup(tmp_path: Path) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one")) as (store, keyspace, space):
        for number in range(LIMITS.records):  # the next put rolls
            await keyspace.put("b", f"k{number}", b"v")
        gate = asyncio.Event()
        late = LateAnswers(store, gate)
        segments: Any = inside.value_segments(space)
        segments._store = late
        put = keyspace.put("b", "later", b"v")
        await late.is_waiting.wait()
        backup = asyncio.ensure_future(keyspace.backup(place))
        while not backup.done() and len(space.batches._requests) < 2:
            await store.environment.sleep(0.005)
        gate.set()
        await put
        assert (await backup).sqn >= LIMITS.records
    async with await siltstone.open_async(store_for_keyspaces(tmp_path / "two")) as store:
        await objects.restore_async(store, COPY, place)
        copy = await objects.open_async(store, COPY)
        assert len([key async for key in copy.keys("b") if key != "later"]) == LIMITS.records


async def test_what_only_a_removed_backup_used_is_deleted(tmp_path: Path) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one")) as (store, keyspace, space):
        random = Random(4)
        await changed(keyspace, random)
        first = await keyspace.backup(place)
        for _ in range(2):
            await changed(keyspace, random)
        await compacted(keyspace, space, store)
        second = await keyspace.backup(place)
        was = await shown(keyspace)
    before = files(place)
    with pytest.raises(StoreNotFoundError):
        objects.remove_backups(place, [3])
    removed = objects.remove_backups(place, [1])
    assert removed.generations == (1,)
    assert removed.size == first.size + second.copied_bytes - second.size
    after = files(place)
    assert sum(before.values()) - sum(after.values()) > removed.size
    values = {name: size for name, size in after.items() if "/values/" in name}
    assert sum(values.values()) == second.size
    assert objects.remove_backups(place, [1]).objects == 0
    async with await siltstone.open_async(store_for_keyspaces(tmp_path / "two")) as store:
        with pytest.raises(StoreNotFoundError):
            await objects.restore_async(store, COPY, place, generation=1)
        await objects.restore_async(store, COPY, place)
        assert await shown(await objects.open_async(store, COPY)) == was
    objects.remove_backups(place, [2])
    assert [name for name in files(place) if "/values/" in name] == []


async def test_a_place_has_backups_of_several_keyspaces_and_stores(tmp_path: Path) -> None:
    place = tmp_path / "place"
    uuids = []
    for folder in ("one", "two"):
        async with await siltstone.open_async(store_for_keyspaces(tmp_path / folder)) as store:
            uuids.append(store.uuid)
            for name in ("photos", "films"):
                keyspace = await objects.create_async(store, name)
                await keyspace.put("b", "k", f"{folder} {name}".encode())
                await keyspace.backup(place)
    found = {(each.store, each.keyspace) for each in objects.list_backups(place)}
    assert found == {(uuid, name) for uuid in uuids for name in ("photos", "films")}
    assert len(objects.list_backups(place, "films", uuids[0])) == 1
    with pytest.raises(SettingsError, match="several"):
        objects.list_backups(place, "films")
    async with await siltstone.open_async(store_for_keyspaces(tmp_path / "three")) as store:
        with pytest.raises(SettingsError, match="several"):
            await objects.restore_async(store, COPY, place)
        await objects.restore_async(store, COPY, place, keyspace="films", of=uuids[1])
        copy = await (await objects.open_async(store, COPY)).get("b", "k")
        assert copy is not None
        assert copy.value == b"two films"


@pytest.mark.parametrize("what", ["flipped", "gone", "cut"])
async def test_a_damaged_object_is_named_and_a_repeat_goes_on_when_it_is_right_again(
    tmp_path: Path, what: str
) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one")) as (_, keyspace, _space):
        await changed(keyspace, Random(5))
        await keyspace.backup(place)
        was = await shown(keyspace)
    path = sorted(each for each in place.rglob("*") if "/values/" in str(each))[2]
    right = path.read_bytes()
    if what == "flipped":
        flip(path, len(right) // 2)
    elif what == "gone":
        path.unlink()
    else:
        os.truncate(path, len(right) - 1)
    async with await siltstone.open_async(store_for_keyspaces(tmp_path / "two")) as store:
        with pytest.raises(CorruptDataError, match=path.name):
            await objects.restore_async(store, COPY, place)
        with pytest.raises(RebuildingError):
            await objects.open_async(store, COPY)
        with pytest.raises(RebuildingError):
            await objects.rebuild_async(store, COPY)
        with pytest.raises(KeyspaceExistsError):
            await objects.create_async(store, COPY)
        path.write_bytes(right)
        await objects.restore_async(store, COPY, place)
        assert await shown(await objects.open_async(store, COPY)) == was


async def test_one_damaged_record_takes_no_backup_away_and_two_are_an_error(
    tmp_path: Path,
) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one")) as (_, keyspace, _space):
        await changed(keyspace, Random(6), 30)
        await keyspace.backup(place)
        was = await shown(keyspace)
    records = sorted(each for each in place.rglob("*") if "/generations/" in str(each))
    assert len(records) == 2
    flip(records[0], 40)
    (found,) = objects.list_backups(place)
    assert len(found.damage) == 1
    async with await siltstone.open_async(store_for_keyspaces(tmp_path / "two")) as store:
        await objects.restore_async(store, COPY, place)
        assert await shown(await objects.open_async(store, COPY)) == was
        flip(records[1], 40)
        with pytest.raises(CorruptDataError, match="generations/0"):
            await objects.restore_async(store, "other", place)
    (found,) = objects.list_backups(place)
    assert found.keyspace is None
    assert objects.remove_backups(place, [1]).objects > 0
    assert files(place) == {}


async def test_a_backup_that_is_being_stated_is_not_told_as_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one")) as (_, keyspace, _):
        await keyspace.put("b", "k", b"v")
        await keyspace.backup(place)
    for look in (objects.list_backups, objects.verify_backups):
        begun: list[str] = []

        def late(storage: ChunkStorage, name: str, begun: list[str] = begun) -> bytearray:
            if not name.endswith(COPY_END) and not begun:
                begun.append(name)
                raise ChunkNotFoundError("not written yet", chunk=name, operation="stat")
            return read_record(storage, name)

        with monkeypatch.context() as patch:
            patch.setattr("siltstone.store.admin.generations.read_record", late)
            told = look(place)
        assert begun
        assert not any(each.damage for each in (told if isinstance(told, list) else [told]))


async def test_damage_in_the_source_makes_no_backup(tmp_path: Path) -> None:
    place, folder = tmp_path / "place", store_for_keyspaces(tmp_path / "one")
    async with small_keyspace(folder) as (store, keyspace, space):
        await changed(keyspace, Random(7), 60)
        await store.flush()
        place_of_byte = await bytes_at(store, space.parts.names.value_segment(1), 500)
    flip_all(folder, [place_of_byte])
    async with small_keyspace(folder) as (store, keyspace, _space):
        with pytest.raises(CorruptDataError):
            await keyspace.backup(place)
    with pytest.raises(StoreNotFoundError):
        objects.list_backups(place, NAME)
    assert objects.list_backups(place) == []


async def test_a_backup_that_failed_goes_on_and_is_never_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one")) as (_, keyspace, _space):
        await changed(keyspace, Random(8))
        state = SpacePlace.state

        def fails(*_: object) -> None:
            raise ChunkUnavailableError("no answer", chunk="record", operation="create")

        monkeypatch.setattr(SpacePlace, "state", fails)
        with pytest.raises(ChunkUnavailableError):
            await keyspace.backup(place)
        assert objects.list_backups(place) == []
        monkeypatch.setattr(SpacePlace, "state", state)
        await keyspace.backup(place)
        was = await shown(keyspace)
    async with await siltstone.open_async(store_for_keyspaces(tmp_path / "two")) as store:
        await objects.restore_async(store, COPY, place)
        assert await shown(await objects.open_async(store, COPY)) == was


async def test_one_call_at_a_time_works_in_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one")) as (_, keyspace, _space):
        await changed(keyspace, Random(9), 30)
        known = SpacePlace.known

        def meanwhile(self: SpacePlace) -> object:
            with pytest.raises(StoreInUseError):
                objects.remove_backups(place, [])
            objects.remove_backups(place, [], takeover=True)
            return known(self)

        monkeypatch.setattr(SpacePlace, "known", meanwhile)
        with pytest.raises(StoreInUseError, match="taken over"):
            await keyspace.backup(place)
        monkeypatch.undo()
        assert objects.list_backups(place) == []
        assert (await keyspace.backup(place)).generation


async def test_a_restore_under_a_name_that_is_taken_leaves_open_handles_alone(
    tmp_path: Path,
) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path / "one")) as (store, keyspace, _):
        await keyspace.put("b", "k", b"value")
        await keyspace.backup(tmp_path / "place")
        with pytest.raises(KeyspaceExistsError):
            await objects.restore_async(store, NAME, tmp_path / "place")
        assert await values_of(keyspace) == {"k": b"value"}


async def test_a_backup_is_refused_where_none_can_be(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path / "one")
    async with small_keyspace(folder) as (_, keyspace, _space):
        with pytest.raises((SettingsError, StoreError)):
            await keyspace.backup(folder)
        async with await siltstone.open_async(folder, read_only=True) as reading:
            reader = await objects.open_async(reading, NAME)
            with pytest.raises(ReadOnlyError):
                await reader.backup(tmp_path / "place")
            assert not (tmp_path / "place").exists()
            with pytest.raises(ReadOnlyError):
                await objects.restore_async(reading, COPY, tmp_path / "place")
    with pytest.raises(SettingsError):
        objects.list_backups(tmp_path / "nowhere")
    async with await siltstone.open_async(folder) as store:
        heads = await objects.create_async(store, "heads", head_only="with_lookup")
        with pytest.raises(UnsupportedError, match="heads only"):
            await heads.backup(tmp_path / "place")


async def test_a_restore_that_was_interrupted_can_be_removed(tmp_path: Path) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one")) as (store, keyspace, _space):
        await changed(keyspace, Random(11))
        await keyspace.backup(place)
        path = sorted(each for each in place.rglob("*") if "/values/" in str(each))[2]
        path.unlink()
        with pytest.raises(CorruptDataError, match=path.name):
            await objects.restore_async(store, COPY, place)
        removed = await objects.destroy_async(store, COPY)
        assert removed.segments == 2
        with pytest.raises(KeyspaceNotFoundError):
            await objects.open_async(store, COPY)
        assert (await keyspace.backup(place)).copied == 1
        await objects.restore_async(store, COPY, place)
        assert await shown(await objects.open_async(store, COPY)) == await shown(keyspace)


async def test_a_tag_that_is_indexed_by_a_function_needs_it_at_a_restore(tmp_path: Path) -> None:
    place = tmp_path / "place"
    async with await siltstone.open_async(store_for_keyspaces(tmp_path / "one")) as store:
        keyspace = await objects.create_async(store, "photos", tags={"o": "recalc"})
        await keyspace.put("b", "k", b"value")
        await keyspace.backup(place)
        with pytest.raises(UnsupportedError):
            await objects.restore_async(store, COPY, place)
        recalc = {"o": Recalc(index=lambda head, _: {"size": [str(head.size)]})}
        await objects.restore_async(store, COPY, place, recalc=recalc)
        copy = await objects.open_async(store, COPY)
        assert [each async for each in copy.index("b", "size")] == [("5", "k")]


async def test_a_restored_keyspace_is_rebuilt_and_backed_up_as_any_other(tmp_path: Path) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one")) as (store, keyspace, space):
        await changed(keyspace, Random(10))
        await compacted(keyspace, space, store)
        await keyspace.backup(place)
        was = await shown(keyspace)
        await objects.restore_async(store, COPY, place)
        names = space_names(COPY)
        rows = await ledger_rows(store, names)
        await store.table(names.ledger).remove_range()
        await objects.rebuild_async(store, COPY, tags={"o": "recovr", "log": "retain"})
        copy = await objects.open_async(store, COPY)
        assert await shown(copy) == was
        found = await ledger_rows(store, names)
        active = max(key for key in rows if key.startswith(MANIFEST))  # another one by now
        assert {key: row for key, row in found.items() if key != active} == {
            key: row for key, row in rows.items() if key != active
        }
        await copy.backup(place)
        await objects.restore_async(store, "third", place, keyspace=COPY)
        assert await shown(await objects.open_async(store, "third")) == was


def test_blocking_applications_back_up_too(tmp_path: Path) -> None:
    with siltstone.open(store_for_keyspaces(tmp_path / "one")) as store:
        photos = objects.create(store, "photos")
        photos.put("b", "k", b"v")
        assert photos.backup(tmp_path / "place", rate=10**9).segments == 1
        objects.restore(store, COPY, tmp_path / "place")
        found = objects.open(store, COPY).get("b", "k")
        assert found is not None
        assert found.value == b"v"
