"""Large values through rebuilds, backups and restores: each is there, and none too many."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import siltstone
from siltstone import objects
from siltstone.core.errors import CorruptDataError
from siltstone.objects import AsyncKeyspace, Recalc
from siltstone.objects.large_tasks import do_large_tasks
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records.head import decode_head
from siltstone.objects.records.keys import HEAD
from siltstone.objects.space_names import SpaceNames, space_names
from tests.support.objects.large_check import large_values
from tests.support.objects.rebuilt import all_sealed, raw_rows, rebuilt
from tests.support.objects.small_segments import (
    NAME,
    small_keyspace,
    small_space,
    store_for_keyspaces,
    values_of,
)
from tests.support.objects.streams_to_put import LARGE

TAGS = {"o": "recovr", "log": "retain"}
NAMES = space_names(NAME)


async def changed(keyspace: AsyncKeyspace, random: Random, count: int = 60) -> dict[str, bytes]:
    """Small and large values, replaced and deleted; return what is there."""
    model = await values_of(keyspace)
    for _ in range(count):
        key = f"k{random.randrange(12)}"
        if random.random() < 0.2:
            await keyspace.delete("b", key)
            model.pop(key, None)
        else:
            model[key] = random.randbytes(random.choice([10, 200, 3_000, 5_000]))
            await keyspace.put("b", key, model[key], index={"f": [key]})
    return model


async def live(store: siltstone.AsyncStore, names: SpaceNames = NAMES) -> set[bytes]:
    """The large values, compared with rows, heads and segments."""
    rows = await raw_rows(store, names)
    heads = [decode_head(row, where="head") for key, row in rows.items() if key.startswith(HEAD)]
    return set((await large_values(store, names, rows, heads)).values())


async def segments(store: siltstone.AsyncStore, names: SpaceNames = NAMES) -> int:
    return len([info async for info in store.list(names.large_values)])


async def opened(store: siltstone.AsyncStore, name: str = NAME) -> tuple[AsyncKeyspace, OpenSpace]:
    keyspace = await objects.open_async(store, name)
    return keyspace, keyspace._space


@pytest.mark.parametrize("lost", [False, True])
async def test_a_rebuild_keeps_what_is_shown_and_lets_the_rest_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (store, keyspace, space):
        random = Random(1)
        model = await changed(keyspace, random)
        await keyspace.put("b", "ends", b"e" * 4_000, ttl_s=1)
        large = await live(store)
        assert len(large) > 3
        await all_sealed(space)
        if lost:
            await store.table(NAMES.ledger).remove_range()
        environment = store.environment
        later_s = environment.time() + 100
        monkeypatch.setattr(environment, "time", lambda: later_s)
        await rebuilt(store, tags=TAGS)
        keyspace, space = await opened(store)
        assert await values_of(keyspace) == model
        await do_large_tasks(space.parts)
        after = await live(store)
        assert after == {value for value in model.values() if len(value) > 1_000}
        assert await segments(store) == len(after)
        # Numbers of values that are gone are given to no other ones.
        model = await changed(keyspace, random, 20)
        await rebuilt(store)
        keyspace, space = await opened(store)
        await do_large_tasks(space.parts)
        assert await values_of(keyspace) == model


async def test_a_number_of_a_value_that_is_gone_is_never_given_again(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (store, keyspace, space):
        for number in range(6):
            await keyspace.put("b", f"k{number}", b"%d" % number * 2_000)
            await keyspace.delete("b", f"k{number}")
        await do_large_tasks(space.parts)
        assert await segments(store) == 0
        await store.table(NAMES.ledger).remove_range()
        await rebuilt(store, tags=TAGS)
        keyspace = AsyncKeyspace(await small_space(store, LARGE))
        model = {f"k{number}": b"new %d" % number * 2_000 for number in range(6)}
        for key, value in model.items():
            await keyspace.put("b", key, value)
        await rebuilt(store)
        keyspace, space = await opened(store)
        await do_large_tasks(space.parts)
        assert await values_of(keyspace) == model


async def test_a_number_of_an_upload_that_no_record_tells_of_is_never_given_again(
    tmp_path: Path,
) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (store, keyspace, _):
        await keyspace.put("b", "k", b"value")
        for _ in range(5):
            await (await keyspace.begin_upload()).push(b"a part")
        before = {info.name async for info in store.list(NAMES.large_values)}
        await store.table(NAMES.ledger).remove_range()
        await rebuilt(store, tags=TAGS)
        keyspace = AsyncKeyspace(await small_space(store, LARGE))
        for number in range(6):
            await keyspace.put("b", f"k{number}", b"%d" % number * 5_000)
        after = {info.name async for info in store.list(NAMES.large_values)}
        assert (len(before), len(after)) == (5, 6)
        assert not before & after


async def test_an_index_that_is_made_again_leaves_large_values_alone(tmp_path: Path) -> None:
    async with await siltstone.open_async(store_for_keyspaces(tmp_path)) as store:
        keyspace = await objects.create_async(store, "films", tags={"o": "recalc"})
        value = Random(2).randbytes(5 * 2**20)
        await keyspace.put("b", "film", value)
        recalc = {"o": Recalc(index=lambda head, _: {"size": [str(head.size)]})}
        for _ in range(2):
            await objects.rebuild_async(store, "films", recalc=recalc)
            keyspace, space = await opened(store, "films")
            await do_large_tasks(space.parts)
            assert await values_of(keyspace) == {"film": value}
            assert [key async for _, key in keyspace.index("b", "size")] == ["film"]
        assert await live(store, space_names("films")) == {value}


async def test_a_backup_has_large_values_and_copies_each_once(tmp_path: Path) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one"), LARGE) as parts:
        store, keyspace, space = parts
        random = Random(3)
        model = await changed(keyspace, random)
        first = await keyspace.backup(place)
        assert first.large == len([each for each in model.values() if len(each) > 1_000])
        assert first.copied == first.large + first.segments
        again = await keyspace.backup(place)
        assert (again.copied, again.large, again.size) == (0, first.large, first.size)
        later = await changed(keyspace, random)
        await do_large_tasks(space.parts)
        last = await keyspace.backup(place)
    async with await siltstone.open_async(store_for_keyspaces(tmp_path / "two")) as store:
        for generation, expected in ((1, model), (last.generation, later)):
            name = f"copy{generation}"
            await objects.restore_async(store, name, place, generation=generation)
            keyspace, space = await opened(store, name)
            assert await values_of(keyspace) == expected
            await do_large_tasks(space.parts)
            found = await live(store, space_names(name))
            assert found == {value for value in expected.values() if len(value) > 1_000}
            await changed(keyspace, random, 10)
    removed = objects.remove_backups(place, [1, 2])
    assert removed.objects > 0
    (left,) = objects.list_backups(place)
    assert (left.large, left.size) == (last.large, last.size)


async def test_large_values_that_are_replaced_during_a_backup_are_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one"), LARGE) as parts:
        store, keyspace, space = parts
        model = {f"k{number}": b"%d" % number * 3_000 for number in range(4)}
        for key, value in model.items():
            await keyspace.put("b", key, value)
        sealed = space.sealed

        async def meanwhile() -> object:
            found = await store.table(NAMES.ledger).version()
            before, moment, _ = await sealed()
            assert found
            moment.release()
            for key in model:
                await keyspace.put("b", key, b"later")
            await do_large_tasks(space.parts)
            assert await segments(store) == 4, "the first moment keeps them"
            return before, await keyspace._now(900), {}

        monkeypatch.setattr(space, "sealed", meanwhile)
        report = await keyspace.backup(place)
        assert (report.large, report.sqn) == (4, 4)
        monkeypatch.undo()
        await do_large_tasks(space.parts)
        assert await segments(store) == 0
        await objects.restore_async(store, "copy", place)
        keyspace, _ = await opened(store, "copy")
        assert await values_of(keyspace) == model


async def test_a_damaged_large_value_of_a_backup_is_named(tmp_path: Path) -> None:
    place = tmp_path / "place"
    async with small_keyspace(store_for_keyspaces(tmp_path / "one"), LARGE) as parts:
        store, keyspace, _ = parts
        await keyspace.put("b", "film", b"f" * 100_000)
        await keyspace.backup(place)
        path = max(place.rglob("*"), key=lambda each: each.stat().st_size)
        right = path.read_bytes()
        path.write_bytes(right[:-1] + b"?")
        with pytest.raises(CorruptDataError, match=path.name):
            await objects.restore_async(store, "copy", place)
        path.write_bytes(right)
        await objects.restore_async(store, "copy", place)
        keyspace, _ = await opened(store, "copy")
        assert await values_of(keyspace) == {"film": b"f" * 100_000}
