"""A check finds what is missing, damaged, never counts, or is foreign, and nothing else.

What is done to the objects of a store in a folder stands in each test.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone.collections import check
from siltstone.collections.garbage import GarbageCollector
from siltstone.collections.rows.open_part import check_whole
from siltstone.collections.state.limits import INLINE_MAX
from siltstone.core.records.collection_part import CollectionPart
from tests.support.collections.stored_objects import objects, paths
from tests.support.stores import flip

ROWS = 2_000
CATALOG = "0" * 32


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a collection of two parts, one of them inline, and a bookmark."""
    settings = siltstone.init(tmp_path / "store")
    text = settings.read_text(encoding="utf-8")
    settings.write_text(f"{text}\ncollections:\n  compaction: off\ngarbage:\n  delay: 0s\n")
    with siltstone.open_collections(settings) as collections:
        schema = pyarrow.schema([("n", pyarrow.int64()), ("text", pyarrow.string())])
        gusts = collections.create("gusts", schema, key=["n"], times="count")
        gusts.append(rows(0))
        gusts.append([{"n": -1, "text": "inline"}])
        gusts.bookmark("bill")
    return settings.parent


def rows(start: int) -> pyarrow.Table:
    numbers = list(range(start, start + ROWS))
    return pyarrow.table({"n": numbers, "text": [f"{n * 7919 % 10_007:05}" for n in numbers]})


def found(store: Path, *names: str, deep: bool = False) -> list[tuple[str, str, str]]:
    """What a check tells: severity, the end of the name, and the message."""
    with siltstone.open_collections(store) as collections:
        return [
            (one.severity, one.where.rpartition("/")[2], one.message)
            for one in collections.check(names, deep=deep)
        ]


def collection_id(store: Path) -> str:
    with siltstone.open_collections(store) as collections:
        return collections.collection("gusts").info().id


@pytest.fixture
def part(store: Path) -> Path:
    """The one part that is an object."""
    (path,) = paths(store, "parts")
    return path


@pytest.mark.parametrize("deep", [False, True])
def test_in_a_healthy_store_nothing_is_found(store: Path, deep: bool) -> None:
    before = objects(store)
    assert found(store, deep=deep) == found(store, "gusts", deep=deep) == []
    assert objects(store) == before


def test_a_part_that_is_missing_is_damage(store: Path, part: Path) -> None:
    part.unlink()
    assert found(store) == [("damage", part.name, "missing")]
    assert found(store, deep=True) == [("damage", part.name, "missing")]


def test_a_part_that_is_cut_is_damage(store: Path, part: Path) -> None:
    whole = part.read_bytes()
    part.write_bytes(whole[:-1])
    message = f"{len(whole) - 1:,} bytes, and not {len(whole):,}"
    assert found(store) == [("damage", part.name, message)]


def test_a_changed_byte_is_found_by_reading(store: Path, part: Path) -> None:
    for offset in (0, 100, part.stat().st_size - 1):
        flip(part, offset)
        assert found(store) == []
        ((severity, where, message),) = found(store, deep=True)
        assert (severity, where, "does not match its sum" in message) == ("damage", part.name, True)
        flip(part, offset)
    assert found(store, deep=True) == []


def test_a_rollup_that_is_missing_is_damage(store: Path) -> None:
    (path,) = paths(store, "rollups", collection_id(store))
    path.unlink()
    severities = {severity for severity, _, _ in found(store)}
    assert severities == {"damage"}


@pytest.mark.parametrize("newest", [0, 1, -1])
def test_an_entry_that_is_missing_is_damage(store: Path, newest: int) -> None:
    """The newest one repeats those before it, so a reader does not see that they are gone."""
    chosen = paths(store, "entries", collection_id(store))[newest]
    chosen.unlink()
    told = found(store)
    if newest == 0:  # As if it had never been written: what is left is whole.
        assert [severity for severity, _, _ in told] in ([], ["garbage"])
    else:
        assert ("damage", chosen.name, "missing") in told


def test_a_damaged_entry_is_found(store: Path) -> None:
    newest, *_, oldest = paths(store, "entries", collection_id(store))
    flip(oldest, 40)
    assert found(store) == []
    assert [one[:2] for one in found(store, deep=True)] == [("damage", oldest.name)]
    flip(oldest, 40)
    flip(newest, 40)
    assert [one[:2] for one in found(store)] == [("damage", newest.name)]


def test_what_the_sweep_would_delete_is_garbage(store: Path, part: Path) -> None:
    """A part of a writer that is not there, a rollup that was never linked, a late entry."""
    leaked = part.with_name(part.name.replace("-0-", "-9-"))
    leaked.write_bytes(b"x")
    (rollup,) = paths(store, "rollups", collection_id(store))
    unlinked = rollup.with_name(f"{rollup.name[:20]}-00000000000000ff")
    unlinked.write_bytes(b"x")
    with siltstone.open_collections(store) as collections:
        forget_uploads(collections)
    told = found(store)
    assert {one[:2] for one in told} == {("garbage", leaked.name), ("garbage", unlinked.name)}
    with siltstone.open_collections(store) as collections:
        assert collections.sweep() == 2
    assert found(store) == []
    assert part.exists()


def forget_uploads(collections: siltstone.Collections) -> None:
    """Let nothing be held by uploads of processes that have ended."""
    gusts = collections.collection("gusts")
    for row in gusts.info().writers:
        if row.hold:
            gusts.forget_writer(row.name)


def test_an_upload_that_is_on_its_way_is_no_garbage(store: Path) -> None:
    with siltstone.open_collections(store) as collections:
        gusts = collections.collection("gusts")
        batch = gusts.batch(rows(10_000))
        assert len(paths(store, "parts")) == 2
        assert found(store, deep=True) == []
        gusts.append_batches([batch])
        assert found(store, deep=True) == []


def test_what_was_replaced_is_named_until_it_is_collected(store: Path) -> None:
    with siltstone.open_collections(store) as collections:
        gusts = collections.collection("gusts")
        gusts.append(rows(5_000))
        gusts.compact()
        assert len(paths(store, "parts")) == 3
        assert found(store) == []
        forget_uploads(collections)
        gusts.append([])  # later than all that is to be collected
        assert gusts.collect(dry_run=True) == 2
        assert gusts.collect() == 2
        assert gusts.collect() == 0
    assert len(paths(store, "parts")) == 1
    assert found(store, deep=True) == []


def test_a_part_that_a_reader_holds_has_to_be_there(store: Path, part: Path) -> None:
    with siltstone.open_collections(store) as collections:
        gusts = collections.collection("gusts")
        with gusts.snapshot(lease=True):
            gusts.append(rows(5_000))
            gusts.compact()
            part.unlink()
            assert found(store) == [("damage", part.name, "missing")]
        forget_uploads(collections)
        gusts.append([])
        assert found(store) == []


def append_more(gusts: siltstone.Collection) -> None:
    gusts.append(rows(5_000))


def replace_all(gusts: siltstone.Collection) -> None:
    """Compact, and delete what that replaced."""
    gusts.append(rows(10_000))
    gusts.compact()
    for row in gusts.info().writers:
        if row.hold:
            gusts.forget_writer(row.name)
    gusts.append([])
    assert gusts.collect() >= 2


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(
    "others",
    [
        {"_listed": replace_all},
        {"_look": replace_all},
        {"_listed": append_more, "_look": replace_all},
    ],
    ids=["after the listing", "after the state was read", "what came after the listing"],
)
def test_what_others_replace_and_delete_meanwhile_is_no_damage(
    store: Path,
    part: Path,
    monkeypatch: pytest.MonkeyPatch,
    others: dict[str, Callable[[siltstone.Collection], None]],
    deep: bool,
) -> None:
    left = dict(others)

    def interposed(step: str) -> Callable[[check.CollectionCheck], object]:
        real = getattr(check.CollectionCheck, step)

        def call(self: check.CollectionCheck) -> object:
            before = real(self)
            if self._id.hex() != CATALOG and step in left:
                act = left.pop(step)
                with siltstone.open_collections(store) as collections:
                    act(collections.collection("gusts"))
            return before

        return call

    for step in others:
        monkeypatch.setattr(check.CollectionCheck, step, interposed(step))
    assert found(store, deep=deep) == []
    assert left == {}
    assert not part.exists()


@pytest.mark.parametrize(
    "name",
    [
        "collections/notes",
        "collections/{id}/notes",
        "collections/{id}/entries/notes",
        "collections/{id}/entries/x/fffffffffffffffe",
        "collections/{id}/rollups/1-2",
        "collections/{id}/rollups/x/00000000000000000001-0123456789abcdef",
        "collections/{id}/parts/x.parquet",
    ],
)
def test_a_foreign_name_is_told_and_stays(store: Path, name: str) -> None:
    path = store / "chunks" / name.format(id=collection_id(store))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x")
    ((severity, where, message),) = found(store)
    assert (severity, where, message.startswith("foreign")) == ("warning", path.name, True)
    with siltstone.open_collections(store) as collections, suppress(siltstone.CorruptDataError):
        collections.sweep()
    assert path.exists()


def test_a_collection_whose_drop_was_interrupted_is_told_until_it_is_dropped_again(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def died(*_: object) -> None:
        raise siltstone.ClosedError("between the drop and the rows")

    with siltstone.open_collections(store) as collections, monkeypatch.context() as patch:
        patch.setattr(GarbageCollector, "bury", died)
        with pytest.raises(siltstone.ClosedError):
            collections.drop("gusts")
    ((severity, where, message),) = found(store)
    assert (severity, where) == ("warning", "collection gusts")
    assert "to drop it again ends it" in message
    assert len(paths(store, "parts")) == 1
    with siltstone.open_collections(store) as collections:
        assert collections.collect(dry_run=True) == 1
        assert collections.collect() == 1
        assert paths(store, "parts") == []
        collections.drop("gusts")
        assert collections.list() == []
    assert found(store, deep=True) == []


def test_a_collection_without_a_name_is_told_and_dropped_on_request(store: Path) -> None:
    """As if the row of the catalog had been taken away by other means."""
    with siltstone.open_collections(store) as collections:
        kept = collections.create("kept", pyarrow.schema([("n", pyarrow.int64())]), key=["n"])
        kept.append(pyarrow.table({"n": range(ROWS)}))
        lost = collections.collection("gusts").info().id
    take_name_away(store, "gusts")
    with siltstone.open_collections(store) as collections:
        assert collections.list() == ["kept"]
        collections.sweep()
        assert len(paths(store, "parts")) == 2
        ((severity, where, message),) = found(store)
        assert (severity, where) == ("warning", f"collection {lost}")
        assert "it has no name" in message
        collections.sweep(nameless=True)
        assert found(store) == []
        assert collections.collection("kept").snapshot().to_arrow().num_rows == ROWS
    assert paths(store, "parts", lost) == []
    assert found(store, deep=True) == []


def take_name_away(store: Path, name: str) -> None:
    async def taken() -> None:
        async with await siltstone.open_collections_async(store) as collections:
            catalog = await collections._catalog(name)
            await catalog.remove((await catalog.row(name)).id)

    asyncio.run(taken())


def test_a_lost_catalog_is_damage_and_nothing_is_dropped_for_it(store: Path) -> None:
    shutil.rmtree(store / "chunks" / "collections" / CATALOG)
    ((severity, where, message),) = found(store, deep=True)
    assert (severity, where) == ("damage", "the catalog")
    assert "catalog of collections is gone" in message
    with (
        siltstone.open_collections(store) as collections,
        pytest.raises(siltstone.LostDataError),
    ):
        collections.sweep(nameless=True)
    assert len(paths(store, "parts")) == 1


def test_damage_of_one_collection_hides_no_other(store: Path, part: Path) -> None:
    with siltstone.open_collections(store) as collections:
        schema = pyarrow.schema([("n", pyarrow.int64())])
        for name in ("a", "z"):
            collections.create(name, schema, key=["n"])
    part.unlink()
    for path in paths(store, "entries", collection_id(store)):
        flip(path, 30)
    told = found(store)
    assert [one[0] for one in told] == ["damage"]
    assert found(store, "a") == found(store, "z") == []


def test_a_collection_without_an_entry_was_never_begun(store: Path) -> None:
    ours = store / "chunks" / "collections" / collection_id(store)
    shutil.rmtree(ours / "entries")
    told = found(store)
    assert [one[0] for one in told] == ["warning", *["garbage"] * 2]
    assert "never begun" in told[0][2]


def test_inline_rows_are_compared_too(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def looked(part: CollectionPart, data: bytes, *, where: str) -> None:
        seen.append(len(data))
        check_whole(part, data, where=where)

    monkeypatch.setattr(check, "check_whole", looked)
    assert found(store, deep=True) == []
    assert len(seen) == 2  # the catalog's row, and ours
    assert max(seen) < INLINE_MAX


@pytest.mark.parametrize("deep", [False, True])
def test_progress_grows_to_its_end(store: Path, deep: bool) -> None:
    told: list[float] = []
    with siltstone.open_collections(store) as collections:
        assert list(collections.check(deep=deep, progress=told.append)) == []
    assert told == sorted(told)
    assert told[-1] == 1.0


async def test_asyncio_callers_have_it_too(store: Path) -> None:
    async with await siltstone.open_collections_async(store) as collections:
        assert [one async for one in collections.check(deep=True)] == []
        entries = await (await collections.collection("gusts")).entries()
    assert [entry.seqno for entry in entries] == list(range(1, len(entries) + 1))


def test_a_part_in_the_listing_is_not_asked_for_again(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection of 50,000 parts is checked by its listings."""
    asked: list[object] = []
    monkeypatch.setattr(check.CollectionCheck, "_length", lambda self, name: asked.append(name))
    assert found(store) == []
    assert asked == []
