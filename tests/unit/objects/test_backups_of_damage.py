"""Backups of keyspaces that have lost bytes: refused, or made on demand with what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.core.errors import CorruptDataError, StoreError
from siltstone.objects import AsyncKeyspace, LostObjectError
from siltstone.objects.ledger_rebuild import LedgerRebuild
from siltstone.objects.space_names import space_names
from siltstone.objects.value_segments import RollLimits
from tests.support.objects.rebuilt import all_sealed, bytes_at, flip_all
from tests.support.objects.small_segments import NAME, small_keyspace, store_for_keyspaces
from tests.support.stores import chunk_path, flip

COPY = "copy"
LARGE = RollLimits(length=3_000, records=20, value=10_000)
NAMES = space_names(NAME)


def value_of(number: int) -> bytes:
    return b"value %d " % number * 10


async def filled(folder: Path) -> tuple[str, int]:
    """Make 30 objects in several segments, flushed; return where a byte of a value of k3 lies."""
    async with small_keyspace(folder) as (store, keyspace, space):
        for number in range(30):
            await keyspace.put("b", f"k{number}", value_of(number))
        await all_sealed(space)
        await store.flush()
        head = await keyspace.head("b", "k3")
        assert head is not None
        place = await space.parts.ledger.head(space.parts.key_of("o", "b", "k3"))
        assert place is not None
        end = place.offset + place.length
        return await bytes_at(store, NAMES.value_segment(place.number), end - 8)


async def values(keyspace: AsyncKeyspace) -> dict[str, bytes | None]:
    """Each value by key; ``None`` for one that is lost."""
    found: dict[str, bytes | None] = {}
    async for key in keyspace.keys("b"):
        try:
            each = await keyspace.get("b", key)
        except LostObjectError:
            found[key] = None
        else:
            assert each is not None
            found[key] = each.value
    return found


def first_object(place: Path) -> Path:
    """The first bytes of values in a place."""
    found = place.rglob("siltstone-keyspaces/*/*/values/*")
    return min((each for each in found if each.is_file()), key=lambda each: each.name)


async def test_a_lost_value_is_named_and_all_others_are_restored(tmp_path: Path) -> None:
    folder, place = store_for_keyspaces(tmp_path / "one"), tmp_path / "place"
    damaged = await filled(folder)
    flip_all(folder, [damaged])
    async with small_keyspace(folder) as (store, keyspace, _):
        with pytest.raises(CorruptDataError, match=r"allow_missing.*segments=values/00000001"):
            await keyspace.backup(place)
        assert objects.list_backups(place) == []
        report = await keyspace.backup(place, allow_missing=True)
        (lack,) = report.missing
        assert (lack.segment, lack.is_large, lack.number) == ("values/00000001", False, 1)
        assert "values/00000001: bytes 0 to " in str(lack)
        (listed,) = objects.list_backups(place)
        assert (listed.missing, listed.damage) == (1, ())
        (told,) = objects.verify_backups(place).damage
        assert (told.keyspace, told.generations) == (NAME, (1,))
        assert str(lack) in told.text
        with pytest.raises(StoreError, match=r"allow_missing.*values/00000001"):
            await objects.restore_async(store, COPY, place)
        restored = await objects.restore_async(store, COPY, place, allow_missing=True)
        assert (restored.missing, restored.unknown) == ((lack,), ())
        expected = {f"k{number}": value_of(number) for number in range(30)}
        assert await values(await objects.open_async(store, COPY)) == expected | {"k3": None}


async def test_a_segment_that_is_whole_again_is_copied_again(tmp_path: Path) -> None:
    folder, place = store_for_keyspaces(tmp_path / "one"), tmp_path / "place"
    damaged = await filled(folder)
    flip_all(folder, [damaged])
    async with small_keyspace(folder) as (_, keyspace, _space):
        before = await keyspace.backup(place, allow_missing=True)
    flip_all(folder, [damaged])
    async with small_keyspace(folder) as (store, keyspace, _space):
        report = await keyspace.backup(place)
        assert (report.missing, report.copied) == ((), 1)
        told = objects.verify_backups(place).damage
        assert [each.generations for each in told] == [(before.generation,)]
        await objects.restore_async(store, COPY, place)
        assert None not in (await values(await objects.open_async(store, COPY))).values()
        objects.remove_backups(place, [before.generation])
        assert objects.verify_backups(place).damage == ()


async def test_bytes_that_are_gone_are_missing_and_no_older_value_is_taken_unsaid(
    tmp_path: Path,
) -> None:
    folder, place = store_for_keyspaces(tmp_path / "one"), tmp_path / "place"
    chunk, _ = await filled(folder)
    chunk_path(folder, chunk).unlink()
    async with small_keyspace(folder) as (store, keyspace, _):
        lost = {key for key, value in (await values(keyspace)).items() if value is None}
        assert "k3" in lost
        report = await keyspace.backup(place, allow_missing=True)
        assert {each.segment for each in report.missing} == {"values/00000001"}
        restored = await objects.restore_async(store, COPY, place, allow_missing=True)
        assert restored.unknown == (space_names(COPY).value_segment(1),)
        copy = await values(await objects.open_async(store, COPY))
        assert None not in copy.values()
        assert set(copy) == {f"k{number}" for number in range(30)} - lost


async def test_a_value_segment_that_is_gone_is_missing_as_a_whole(tmp_path: Path) -> None:
    folder, place = store_for_keyspaces(tmp_path / "one"), tmp_path / "place"
    await filled(folder)
    async with small_keyspace(folder) as (store, keyspace, _):
        await store.segment(NAMES.value_segment(1)).delete()
        with pytest.raises(CorruptDataError, match="segments=values/00000001"):
            await keyspace.backup(place)
        report = await keyspace.backup(place, allow_missing=True)
        assert [each.segment for each in report.missing] == ["values/00000001"]
        again = await keyspace.backup(place, allow_missing=True)
        assert again.missing == report.missing
        objects.remove_backups(place, [report.generation])
        await objects.restore_async(store, COPY, place, allow_missing=True)
        copy = await values(await objects.open_async(store, COPY))
        assert "k3" not in copy
        assert copy["k29"] == value_of(29)


@pytest.mark.parametrize("what", ["damaged", "gone"])
async def test_a_large_value_that_is_lost_takes_no_other_away(tmp_path: Path, what: str) -> None:
    folder, place = store_for_keyspaces(tmp_path / "one"), tmp_path / "place"
    async with small_keyspace(folder, LARGE) as (store, keyspace, space):
        for name in ("film", "other"):
            await keyspace.put("b", name, name.encode() * 20_000)
        await store.flush()
        head = await space.parts.ledger.head(space.parts.key_of("o", "b", "film"))
        assert head is not None
        assert head.large is not None
        segment = NAMES.large_segment(head.large.number)
        damaged = await bytes_at(store, segment, 70_000)
        if what == "gone":
            await store.segment(segment).delete()
    if what == "damaged":
        flip_all(folder, [damaged])
    async with small_keyspace(folder, LARGE) as (store, keyspace, _):
        with pytest.raises(CorruptDataError, match="segments=large/"):
            await keyspace.backup(place)
        report = await keyspace.backup(place, allow_missing=True)
        assert {each.segment for each in report.missing} == {segment.removeprefix(NAMES.prefix)}
        await objects.restore_async(store, COPY, place, allow_missing=True)
        copy = await objects.open_async(store, COPY)
        assert await values(copy) == {"film": None, "other": b"other" * 20_000}


async def test_damage_in_the_place_takes_only_what_is_damaged_if_that_is_allowed(
    tmp_path: Path,
) -> None:
    folder, place = store_for_keyspaces(tmp_path / "one"), tmp_path / "place"
    chunk = (await filled(folder))[0]
    assert chunk
    async with small_keyspace(folder) as (store, keyspace, space):
        await keyspace.backup(place)
        head = await space.parts.ledger.head(space.parts.key_of("o", "b", "k3"))
        assert head is not None
        first = first_object(place)
        flip(first, head.offset + head.length - 8)
        with pytest.raises(CorruptDataError, match=first.name):
            await objects.restore_async(store, COPY, place)
        report = await objects.restore_async(store, COPY, place, allow_missing=True)
        assert [each.segment for each in report.missing] == ["values/00000001"]
        expected = {f"k{number}": value_of(number) for number in range(30)}
        assert await values(await objects.open_async(store, COPY)) == expected | {"k3": None}


@pytest.mark.parametrize("end", ["the values", "the ledger"])
async def test_a_restore_that_goes_on_names_what_an_earlier_try_did_not_find(
    tmp_path: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, place = store_for_keyspaces(tmp_path / "one"), tmp_path / "place"
    await filled(folder)

    class EndedError(Exception):
        """The restore ends here."""

    async def fail(_: object) -> None:
        raise EndedError

    def stop(done: int, total: int) -> None:
        if end == "the values" and done == total:
            raise EndedError

    async with small_keyspace(folder) as (store, keyspace, _):
        await keyspace.backup(place)
        flip(first_object(place), 100)
        monkeypatch.setattr(LedgerRebuild, "run", fail)
        with pytest.raises(EndedError):
            await objects.restore_async(store, COPY, place, allow_missing=True, progress=stop)
        monkeypatch.undo()
        told: list[tuple[int, int]] = []
        report = await objects.restore_async(
            store, COPY, place, allow_missing=True, progress=lambda *each: told.append(each)
        )
        assert [each.segment for each in report.missing] == ["values/00000001"]
        assert told[-1][0] == told[-1][1]


def test_progress_of_backups_restores_and_rebuilds_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    shares: list[float] = []

    def tell(done: int, total: int) -> None:
        told.append((done, total))

    with siltstone.open(store_for_keyspaces(tmp_path / "one")) as store:
        photos = objects.create(store, "photos")
        for number in range(3):
            photos.put("b", f"k{number}", b"v" * 1_000)
        report = photos.backup(tmp_path / "place", progress=tell)
        assert told == [(report.size, report.size)]
        photos.put("b", "new", b"w" * 2_000)
        told.clear()
        second = photos.backup(tmp_path / "place", progress=tell)
        assert told == [(second.size - report.size,) * 2]
        told.clear()
        objects.restore(store, COPY, tmp_path / "place", progress=tell)
        assert told == [(report.size, second.size), (second.size, second.size)]
        objects.rebuild(store, "photos", progress=shares.append)
        assert shares == sorted(shares)
        assert (shares[0] > 0, shares[-1]) == (True, 1.0)
