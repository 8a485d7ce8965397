"""Objects whose newest change lies in damaged bytes are named, and never taken from older ones."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import siltstone
from siltstone import objects
from siltstone.core.errors import LostDataError
from siltstone.objects.large_tasks import do_large_tasks
from siltstone.objects.ledger_rebuild import LedgerRebuild
from siltstone.objects.records.footer import PIECE_BYTES
from siltstone.objects.space_names import space_names
from tests.support.objects.rebuilt import all_sealed, bytes_at, flip_all, rebuilt
from tests.support.objects.small_segments import (
    LIMITS,
    NAME,
    small_keyspace,
    store_for_keyspaces,
    values_of,
)
from tests.support.objects.streams_to_put import LARGE
from tests.support.objects.three_segments import NOTE, made


def expected(lost: set[str]) -> dict[str, bytes]:
    """The values that are there when some are doubtful."""
    found = {f"k{number:02}": b"1" for number in range(30)}
    found |= {f"k{number:02}": b"2" for number in range(30, 90)}
    return {key: value for key, value in found.items() if key not in lost}


@pytest.mark.parametrize("damaged", ["piece", "directory", "trailer"])
async def test_a_damaged_footer_takes_nothing_away_while_records_are_whole(
    tmp_path: Path, damaged: str
) -> None:
    folder = store_for_keyspaces(tmp_path)
    places = await made(folder)
    flip_all(folder, [getattr(places, damaged)])
    async with await siltstone.open_async(folder) as store:
        report = await rebuilt(store)
        assert (report.doubtful, report.unnamed) == ((), 0)
        keyspace = await objects.open_async(store, NAME)
        assert await values_of(keyspace) == expected(set())


async def test_a_damaged_record_takes_nothing_away_while_the_footer_is_whole(
    tmp_path: Path,
) -> None:
    folder = store_for_keyspaces(tmp_path)
    places = await made(folder)
    flip_all(folder, [places.records["k05"]])
    async with await siltstone.open_async(folder) as store:
        report = await rebuilt(store)
        assert (report.doubtful, report.unnamed) == ((), 0)
        keyspace = await objects.open_async(store, NAME)
        assert len([key async for key in keyspace.keys("b")]) == 90


async def test_what_footer_and_records_do_not_tell_is_doubtful_unless_it_is_newer_elsewhere(
    tmp_path: Path,
) -> None:
    folder = store_for_keyspaces(tmp_path)
    places = await made(folder)
    # The first piece has the keys up to k21 or so; records of it can be read up to k10.
    flip_all(folder, [places.piece, places.records["k10"]])
    count = PIECE_BYTES // len(NOTE) + 1
    async with await siltstone.open_async(folder) as store:
        report = await rebuilt(store)
        lost = {each.key for each in report.doubtful}
        assert {"k10", "k11", "k20"} <= lost <= {f"k{number:02}" for number in range(10, count)}
        assert {(each.bucket, each.tag, each.number) for each in report.doubtful} == {("b", "o", 2)}
        assert report.unnamed == 0
        keyspace = await objects.open_async(store, NAME)
        assert await values_of(keyspace) == expected(lost)
        assert [each async for each in keyspace.doubtful()] == list(report.doubtful)
        told = [each async for each in keyspace.check() if "doubtful" in each.message]
        assert {each.severity for each in told} == {"warning"}
        assert len(told) == len(lost)
        assert not [each async for each in keyspace.check() if "unknown" in each.message]
        await keyspace.put("b", "k10", b"again")
        assert (await values_of(keyspace))["k10"] == b"again"
        assert (await rebuilt(store)).doubtful == tuple(
            each for each in report.doubtful if each.key != "k10"
        )


async def test_objects_of_which_nothing_else_is_known_are_counted(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        for number in range(60):
            await keyspace.put("b", f"k{number}", b"v" * 100)
        await all_sealed(space)
        await store.flush()
        row = (await space.parts.manifest.now()).rows[0]
        segment = space.parts.names.value_segment(row.number)
        places = [await bytes_at(store, segment, at) for at in (20, row.length + 20)]
        records = row.records
    flip_all(folder, places)
    async with await siltstone.open_async(folder) as store:
        report = await rebuilt(store)
        assert (report.doubtful, report.unnamed) == ((), records)
        keyspace = await objects.open_async(store, NAME)
        assert len(await values_of(keyspace)) == 60 - records


async def test_damage_that_hides_its_objects_is_refused_unless_older_records_are_to_count(
    tmp_path: Path,
) -> None:
    folder = store_for_keyspaces(tmp_path)
    places = await made(folder)
    flip_all(folder, [places.directory, places.records["k10"]])
    async with await siltstone.open_async(folder) as store:
        for _ in range(2):
            with pytest.raises(LostDataError, match="hides") as failed:
                await rebuilt(store)
            assert "values/00000002" in str(failed.value)
        report = await rebuilt(store, accept_loss=True)
        assert report.doubtful == ()
        assert report.unknown == (f"objects/{{{NAME}}}/values/00000002",)
        values = await values_of(await objects.open_async(store, NAME))
        assert (values["k09"], values["k10"], values["k60"]) == (b"1", b"0", b"2")


async def test_a_damaged_record_of_a_segment_without_footer_hides_its_objects(
    tmp_path: Path,
) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        for number in range(10):
            await keyspace.put("b", f"k{number}", b"%d" % number * 60)
        await store.flush()
        head = await keyspace.head("b", "k6")
        assert head is not None
        offset = head._head.offset
        place = await bytes_at(store, space.parts.names.value_segment(1), offset + 30)
    flip_all(folder, [place])
    async with await siltstone.open_async(folder) as store:
        with pytest.raises(LostDataError, match="hides"):
            await rebuilt(store)
        report = await rebuilt(store, accept_loss=True)
        assert len(report.unknown) == 1
        values = await values_of(await objects.open_async(store, NAME))
        assert sorted(values) == [f"k{number}" for number in range(6)]


async def test_large_values_of_hidden_records_stay_when_the_rebuild_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder, LARGE) as (store, keyspace, space):
        for number in range(10):
            await keyspace.put("b", f"k{number}", b"%d" % number * (5_000 if number > 6 else 60))
        await store.flush()
        head = await keyspace.head("b", "k6")
        assert head is not None
        segment = space.parts.names.value_segment(1)
        place = await bytes_at(store, segment, head._head.offset + 30)
    flip_all(folder, [place])
    async with await siltstone.open_async(folder) as store:
        with monkeypatch.context() as patch:
            patch.setattr(LedgerRebuild, "_end_large", _dies)
            with pytest.raises(RuntimeError, match="dead"):
                await rebuilt(store, accept_loss=True)
        assert (await rebuilt(store)).unknown == (segment,)
        keyspace = await objects.open_async(store, NAME)
        await do_large_tasks(keyspace._space.parts)
        names = space_names(NAME)
        assert len([info async for info in store.list(names.large_values)]) == 3


async def _dies(*_: object) -> None:
    raise RuntimeError("the process is dead")


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_bit_of_a_footer_flips_no_older_value_is_shown(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    folder = store_for_keyspaces(tmp_path)
    model: dict[str, bytes] = {}
    places: list[tuple[str, int]] = []
    async with small_keyspace(folder, LIMITS) as (store, keyspace, space):
        for number in range(150):
            key = f"k{random.randrange(40)}"
            model[key] = b"%d" % number * random.randrange(1, 30)
            await keyspace.put("b", key, model[key])
        await all_sealed(space)
        await store.flush()
        for row in (await space.parts.manifest.now()).rows[:-1]:
            segment = space.parts.names.value_segment(row.number)
            for start, end in ((0, row.length), (row.length, row.footer_end)):
                if random.random() < 0.5:
                    places.append(await bytes_at(store, segment, random.randrange(start, end)))
    flip_all(folder, places)
    async with await siltstone.open_async(folder) as store:
        try:
            report = await rebuilt(store)
        except LostDataError:
            return
        lost = {each.key for each in report.doubtful}
        keyspace = await objects.open_async(store, NAME)
        for key, value in model.items():
            try:
                found = await keyspace.get("b", key)
            except objects.LostObjectError:
                continue  # its value is damaged, and its head is there
            assert found is None or found.value == value
            assert found is not None or key in lost or report.unnamed
