"""A ledger that is rebuilt from the value log is the one that was there before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

import siltstone
from siltstone import objects
from siltstone.core.errors import LostDataError, ReadOnlyError
from siltstone.objects import (
    AsyncKeyspace,
    KeyspaceNotFoundError,
    ObjectHead,
    RebuildingError,
    Recalc,
    UnsupportedError,
)
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records import keys
from siltstone.objects.records.rebuild_rows import decode_rebuild
from siltstone.objects.space_names import space_names
from tests.support.objects.rebuilt import all_sealed, ledger_rows, rebuilt, state_row
from tests.support.objects.small_segments import (
    NAME,
    small_keyspace,
    store_for_keyspaces,
    values_of,
)

TAGS = {"o": "recovr", "log": "retain"}


async def changed(keyspace: AsyncKeyspace, random: Random, count: int = 150) -> None:
    """Puts and deletes, with terms, metadata and ends, of two tags."""
    futures: list[asyncio.Future[object]] = []
    for number in range(count):
        key, tag = f"k{random.randrange(30)}", random.choice(["o", "o", "log"])
        if random.random() < 0.2:
            futures.append(asyncio.ensure_future(keyspace.delete("b", key, tag=tag)))
            continue
        put = keyspace.put(
            random.choice(["b", "c\0d"]),
            key,
            random.randbytes(random.randrange(200)),
            tag=tag,
            metadata=b"%d" % number,
            index={"f": [str(random.randrange(5))], "g": ["always"]},
            ttl_s=random.choice([None, None, 1_000]),
        )
        futures.append(asyncio.ensure_future(put))
    await asyncio.gather(*futures)


async def compacted(keyspace: AsyncKeyspace, space: OpenSpace, store: siltstone.AsyncStore) -> int:
    """Compact until nothing is worth it; return how often it was."""
    count = 0
    await all_sealed(space)
    await store.flush()
    while (await keyspace.compact()).run:
        count += 1
    return count


async def lose_ledger(store: siltstone.AsyncStore) -> None:
    """Let all rows be gone."""
    await store.table(space_names(NAME).ledger, force=True).remove_range()


@pytest.mark.parametrize("seed", range(3))
async def test_rows_are_those_of_before_after_changes_and_compactions(
    tmp_path: Path, seed: int
) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        random = Random(seed)
        for _ in range(3):
            await changed(keyspace, random)
            await compacted(keyspace, space, store)
        await changed(keyspace, random, 10)
        await all_sealed(space)
        rows, state = await ledger_rows(store), await state_row(store)
        values = await values_of(keyspace)
        report = await rebuilt(store)
        assert (report.doubtful, report.unnamed, report.unknown) == ((), 0, ())
        assert report.records > 30
        assert await ledger_rows(store) == rows
        assert await state_row(store) == state
        assert await values_of(await objects.open_async(store, NAME)) == values


@pytest.mark.parametrize("seed", range(3))
async def test_a_ledger_that_is_gone_is_made_again_with_its_manifest(
    tmp_path: Path, seed: int
) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        random = Random(seed + 10)
        for _ in range(2):
            await changed(keyspace, random)
            assert await compacted(keyspace, space, store)
        await changed(keyspace, random, 10)
        await all_sealed(space)
        rows, values = await ledger_rows(store), await values_of(keyspace)
    async with await siltstone.open_async(folder) as store:
        await lose_ledger(store)
        with pytest.raises(KeyspaceNotFoundError):
            await objects.open_async(store, NAME)
        with pytest.raises(LostDataError, match="tags"):
            await rebuilt(store)
        await rebuilt(store, tags=TAGS)
        keyspace = await objects.open_async(store, NAME)
        assert await values_of(keyspace) == values
        found = await ledger_rows(store)
        active = max(key for key in rows if key.startswith(keys.MANIFEST))
        same = [key for key in rows if key not in (active, keys.SPACE)]
        assert [key for key in same if rows[key] != found.get(key)] == []
        assert {key for key in found if key not in rows} <= {
            key for key in found if key.startswith(keys.MANIFEST)
        }
        put = await keyspace.put("b", "after", b"after")
        assert put.sqn > max(row.sqn for row in rows.values() if hasattr(row, "sqn"))


async def test_what_a_compaction_replaced_does_not_come_back_when_the_manifest_is_lost(
    tmp_path: Path,
) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        await keyspace.put("b", "gone", b"v")
        for number in range(20):
            await keyspace.put("b", f"k{number % 5}", b"v" * 100)
        await keyspace.delete("b", "gone")
        for number in range(80):
            await keyspace.put("b", f"k{number % 5}", b"v" * 100)
        async with await keyspace.snapshot():
            # The snapshot keeps all segments that the compaction replaces.
            assert await compacted(keyspace, space, store)
            await all_sealed(space)
            values = await values_of(keyspace)
            names = [info.name async for info in store.list(space.parts.names.values)]
            named = (await space.parts.manifest.now()).numbers
            replaced = [each for each in names if space.parts.names.number_of(each) not in named]
            assert len(replaced) > 2
            # A death among their deletions may leave the value of an object, and not its end.
            for each in replaced[1:]:
                await store.segment(each).delete()
            await lose_ledger(store)
            await rebuilt(store, tags=TAGS)
        found = await objects.open_async(store, NAME)
        assert await values_of(found) == values
        assert await found.get("b", "gone") is None


async def test_until_the_end_all_verbs_are_refused_and_a_repeat_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.objects.ledger_rebuild.COMMIT_COUNT", 7)
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        await changed(keyspace, Random(5))
        await all_sealed(space)
        rows = await ledger_rows(store)
        commit, count = store.commit, 0

        async def dies(_: object, *arguments: object) -> object:
            nonlocal count
            count += 1
            if count == 9:
                raise RuntimeError("the process is dead")
            return await commit(*arguments)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(type(store), "commit", dies)
            with pytest.raises(RuntimeError, match="dead"):
                await rebuilt(store)
        with pytest.raises(RebuildingError):
            await keyspace.put("b", "k", b"v")
        with pytest.raises(RebuildingError):
            await keyspace.head("b", "k")
        with pytest.raises(RebuildingError):
            await objects.open_async(store, NAME)
        row = decode_rebuild(await state_row(store), where="state")
        assert row.sqn > 30
    async with await siltstone.open_async(folder) as store:
        with pytest.raises(RebuildingError):
            await objects.open_async(store, NAME)
        report = await rebuilt(store)
        assert report.records == row.state.next_sqn - 1 - row.sqn
        assert await ledger_rows(store) == rows


async def test_a_reader_of_another_process_is_refused_instead_of_finding_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        await changed(keyspace, Random(6), 40)
        await keyspace.put("b", "there", b"v")
        await all_sealed(space)
        async with await siltstone.open_async(folder, read_only=True) as reading:
            reader = await objects.open_async(reading, NAME)
            with pytest.raises(ReadOnlyError):
                await rebuilt(reading)
            assert await reader.head("b", "there") is not None
            before = await store.table(space.parts.names.ledger).version()
            monkeypatch.setattr("siltstone.objects.ledger_rebuild.head_of", _fails)
            with pytest.raises(RuntimeError):
                await rebuilt(store)
            async for _ in reading.table(space.parts.names.ledger).follow(before):
                break  # the ledger is gone
            with pytest.raises(RebuildingError):
                await reader.head("b", "there")
            with pytest.raises(RebuildingError):
                await reader.get("b", "there")
            with pytest.raises(RebuildingError):
                [key async for key in reader.keys("b")]
            with pytest.raises(RebuildingError):
                await reader.snapshot()


def test_a_blocking_reader_is_refused_when_its_own_thread_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store_for_keyspaces(tmp_path)
    with siltstone.open(folder) as store:
        objects.create(store, NAME).put("b", "there", b"v")
        with siltstone.open(folder, read_only=True) as reading:
            reader = objects.open(reading, NAME)
            assert reader.head("b", "there") is not None
            ledger = space_names(NAME).ledger
            before = store.table(ledger).version()
            monkeypatch.setattr("siltstone.objects.ledger_rebuild.head_of", _fails)
            with pytest.raises(RuntimeError):
                objects.rebuild(store, NAME)
            for _ in reading.table(ledger).follow(before):
                break  # the ledger is gone
            with pytest.raises(RebuildingError):
                reader.head("b", "there")
            with pytest.raises(RebuildingError):
                reader.get("b", "there")


def _fails(*_: object) -> None:
    raise RuntimeError("the process is dead")


async def test_what_has_expired_stays_away_when_the_clock_steps_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, _):
        environment = store.environment
        begun = environment.time()
        await keyspace.put("b", "ends", b"v", ttl_s=10, index={"f": ["t"]})
        with monkeypatch.context() as patch:
            patch.setattr(environment, "time", lambda: begun + 100)
            await keyspace.put("b", "later", b"v")
        await rebuilt(store)
        keyspace = await objects.open_async(store, NAME)
        assert [head.key async for head in keyspace.heads("b")] == ["later"]
        assert [each async for each in keyspace.index("b", "f")] == []


async def test_what_has_expired_stays_away_when_the_removal_of_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.objects.ledger_rebuild.COMMIT_BYTES", 1)
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, _):
        environment = store.environment
        begun = environment.time()
        for number in range(4):
            await keyspace.put("b", f"ends{number}", b"v", ttl_s=10)
        with monkeypatch.context() as patch:
            patch.setattr(environment, "time", lambda: begun + 100)
            await keyspace.put("b", "later", b"v")
        commit, left = store.commit, 0

        async def dies(_: object, *arguments: object) -> object:
            nonlocal left
            left -= 1
            if left < 0:
                raise RuntimeError("the process is dead")
            return await commit(*arguments)  # type: ignore[arg-type]

        deaths = 0
        with monkeypatch.context() as patch:
            patch.setattr(type(store), "commit", dies)
            for allowed in range(3, 30):
                left = allowed
                try:
                    await rebuilt(store)
                    break
                except RuntimeError:
                    deaths += 1
        assert deaths > 2
        keyspace = await objects.open_async(store, NAME)
        assert [head.key async for head in keyspace.heads("b")] == ["later"]


def by_size(head: ObjectHead, value: bytes | None) -> dict[str, list[str]]:
    assert value is None
    assert head.index == {}
    return {"size": [str(head.size)]}


def by_value(head: ObjectHead, value: bytes | None) -> dict[str, list[str]]:
    assert value is not None
    return {"first": [chr(value[0])]}


async def test_a_changed_function_indexes_everything_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.objects.ledger_rebuild.COMMIT_COUNT", 3)
    async with await siltstone.open_async(store_for_keyspaces(tmp_path)) as store:
        tags = {"o": "recovr", "photo": "recalc"}
        keyspace = await objects.create_async(store, "again", tags=tags)
        for number in range(10):
            for tag in tags:
                index = {"old": ["term"]}
                value = b"%d" % number * (number + 1)
                await keyspace.put("b", f"k{number}", value, tag=tag, index=index)
        with pytest.raises(UnsupportedError, match="photo"):
            await objects.rebuild_async(store, "again")
        with pytest.raises(UnsupportedError, match="'o'"):
            await objects.rebuild_async(
                store, "again", recalc={"photo": Recalc(index=by_size), "o": Recalc(index=by_size)}
            )
        assert len([each async for each in keyspace.index("b", "old", tag="photo")]) == 10
        await objects.rebuild_async(store, "again", recalc={"photo": Recalc(index=by_size)})
        keyspace = await objects.open_async(store, "again")
        assert [each async for each in keyspace.index("b", "old", tag="photo")] == []
        assert len([each async for each in keyspace.index("b", "old")]) == 10
        sized = [each async for each in keyspace.index("b", "size", tag="photo")]
        assert sorted(sized) == sorted((str(number + 1), f"k{number}") for number in range(10))
        await objects.rebuild_async(
            store, "again", recalc={"photo": Recalc(index=by_value, reads_value=True)}
        )
        keyspace = await objects.open_async(store, "again")
        assert [each async for each in keyspace.index("b", "size", tag="photo")] == []
        found = [each async for each in keyspace.index("b", "first", tag="photo")]
        assert found == [(str(number), f"k{number}") for number in range(10)]


async def test_a_function_that_fails_leaves_a_rebuild_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.objects.ledger_rebuild.COMMIT_COUNT", 3)
    async with await siltstone.open_async(store_for_keyspaces(tmp_path)) as store:
        keyspace = await objects.create_async(store, "again", tags={"o": "recalc"})
        for number in range(10):
            await keyspace.put("b", f"k{number}", b"v")
        asked: list[str] = []

        def fails(head: ObjectHead, _: bytes | None) -> dict[str, list[str]]:
            if head.key == "k7":
                raise RuntimeError("no term")
            asked.append(head.key)
            return {"f": [head.key]}

        with pytest.raises(RuntimeError, match="no term"):
            await objects.rebuild_async(store, "again", recalc={"o": Recalc(index=fails)})
        asked.clear()

        def works(head: ObjectHead, _: bytes | None) -> dict[str, list[str]]:
            asked.append(head.key)
            return {"f": [head.key]}

        await objects.rebuild_async(store, "again", recalc={"o": Recalc(index=works)})
        assert asked == [f"k{number}" for number in range(6, 10)]
        keyspace = await objects.open_async(store, "again")
        assert len([each async for each in keyspace.index("b", "f")]) == 10


async def test_a_tag_that_nothing_names_is_refused_and_can_be_given(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await keyspace.put("b", "k", b"v", tag="log")
        await all_sealed(space)
        await lose_ledger(store)
        with pytest.raises(UnsupportedError, match="log"):
            await rebuilt(store, tags={"o": "recovr"})
        await rebuilt(store, tags=TAGS)
        keyspace = await objects.open_async(store, NAME)
        assert keyspace.tags == dict(sorted(TAGS.items()))
        assert await keyspace.head("b", "k", tag="log") is not None


async def test_a_segment_that_is_named_almost_like_a_value_segment_is_none(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, _):
        await keyspace.put("b", "k", b"v")
        other = f"{space_names(NAME).values}1"
        await store.create(other)
        await store.segment(other).append(b"something else")
        await lose_ledger(store)
        await rebuilt(store, tags=TAGS)
        assert await values_of(await objects.open_async(store, NAME)) == {"k": b"v"}
        assert (await store.segment(other).info()).length == len(b"something else")


async def test_there_is_nothing_to_rebuild_where_nothing_is(tmp_path: Path) -> None:
    async with await siltstone.open_async(store_for_keyspaces(tmp_path)) as store:
        with pytest.raises(KeyspaceNotFoundError):
            await rebuilt(store, tags=TAGS)
        assert [name async for name in store.list_tables()] == []


def test_blocking_applications_rebuild_too(tmp_path: Path) -> None:
    with siltstone.open(store_for_keyspaces(tmp_path)) as store:
        objects.create(store, "photos").put("b", "k", b"v", index={"f": ["t"]})
        assert objects.rebuild(store, "photos").records == 1
        found = objects.open(store, "photos").get("b", "k")
        assert found is not None
        assert (found.value, found.head.index) == (b"v", {"f": ("t",)})
