"""Collections in a table of the store that has them, in the process that owns the store."""

from __future__ import annotations

import asyncio
import pickle
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import siltstone
from siltstone.collections.blocking import open_collections
from siltstone.collections.consensus.table import TableConsensus
from siltstone.collections.place import CollectionSettings
from siltstone.core.errors import (
    ClosedError,
    CollectionError,
    SegmentNameError,
    SiltstoneError,
    UpperMismatchError,
)
from siltstone.core.records.collection_choice import decode_choice
from siltstone.pipelines.store_view import store_view
from siltstone.store.admin.recovery import recover_store
from tests.support.collections.collections_world import NAME, SCHEMA, many_rows, pairs_of, rows
from tests.support.memory_folder import folder_in_memory
from tests.support.services.table_places import kept, table_store

AT_ONCE = CollectionSettings(consensus="table", garbage_delay_ms=0, compacts=False)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A store whose collections are in a table, and that no process has open."""
    with folder_in_memory(tmp_path) as made:
        table_store(made)
        yield made


def objects(folder: Path) -> list[str]:
    """Names of all objects of collections, without folders."""
    root = folder / "chunks" / "collections"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_collection_in_a_table_is_changed_and_read_like_any_other(folder: Path) -> None:
    with siltstone.open(folder) as store, open_collections(store) as collections:
        gusts = collections.create(NAME, SCHEMA, key=["k"], times="count")
        first = gusts.append(rows(("a", 1), ("b", 2)))
        gusts.append(rows(("a", 3)), remove=rows(("a", 1)), expected_upper=first.upper)
        with pytest.raises(UpperMismatchError):
            gusts.append(rows(("c", 1)), expected_upper=first.upper)
        loader = gusts.writer("loader")
        assert [loader.append(rows(("d", 4)), sequence=7).repeated for _ in range(2)] == [
            False,
            True,
        ]
        gusts.append_batches([pickle.loads(pickle.dumps(gusts.batch(many_rows(700))))])
        assert gusts.snapshot(as_of=first.time).to_arrow().num_rows == 2
        assert pairs_of(gusts.snapshot().to_arrow())[:3] == [("a", 3), ("b", 2), ("d", 4)]
        bill = gusts.bookmark("billing")
        uppers = [step.upper for step in gusts.subscribe(as_of=first.time, until=4)]
        bill.advance(uppers[-1] - 1)
        gusts.compact()
        gusts.collect()
        collections.rename(NAME, "squalls")
        assert collections.list() == ["squalls"]
        assert list(collections.check(deep=True)) == []
        assert gusts.snapshot().to_arrow().num_rows == 703
        collections.drop("squalls")
        assert collections.sweep() == 0
        assert list(store.list_tables()) == []


def test_entries_and_rollups_are_rows_and_only_parts_are_objects(folder: Path) -> None:
    with siltstone.open(folder) as store, open_collections(store, settings=AT_ONCE) as collections:
        assert objects(folder) == [], "who only opens makes nothing"
        gusts = collections.create(NAME, SCHEMA, key=["k"], times="count")
        for number in range(200):
            gusts.append(rows(("a", number)))
        gusts.append(many_rows(700))
        collections.settle()
        gusts.collect()
        assert len(gusts.entries()) < 100
        rows_of = kept(store)
        assert rows_of["e"] < 100, "entries below a rollup are removed"
        assert rows_of["h"] == 2, "of the catalog, too"
        assert rows_of["r"] <= 5
    found = objects(folder)
    assert [name for name in found if "/parts/" not in name] == ["consensus"]
    record = folder / "chunks" / "collections" / "consensus"
    assert decode_choice(record.read_bytes(), where="the record") == "table"


def test_all_that_was_acknowledged_is_there_when_the_store_is_opened_again(folder: Path) -> None:
    for number in range(3):
        with siltstone.open(folder) as store, open_collections(store) as collections:
            if not number:
                collections.create(NAME, SCHEMA, key=["k"], times="count")
            gusts = collections.collection(NAME)
            gusts.append(rows(("a", number)))
            gusts.append(many_rows(600, number * 600))
            assert gusts.snapshot().to_arrow().num_rows == 601 * (number + 1)


async def test_appends_in_flight_go_together_and_several_handles_see_one_another(
    folder: Path,
) -> None:
    async with await siltstone.open_async(folder) as store:
        mine = await siltstone.open_collections_async(store)
        others = await siltstone.open_collections_async(store)
        gusts = await mine.create(NAME, SCHEMA, key=["k"], times="count")
        theirs = await others.collection(NAME)
        handles = [gusts, theirs]
        await asyncio.gather(*(handles[n % 2].append(rows(("a", n))) for n in range(60)))
        for handle in handles:
            table = await (await handle.snapshot()).to_arrow()
            assert sorted(table["v"].to_pylist()) == list(range(60))
        assert len(await gusts.entries()) < 40


def test_a_path_is_refused_where_the_collections_have_an_owner(folder: Path) -> None:
    with pytest.raises(CollectionError, match="open the store there") as caught:
        open_collections(folder)
    assert "consensus=table" in str(caught.value)
    with siltstone.open(folder) as store, open_collections(store) as collections:
        collections.create(NAME, SCHEMA, key=["k"])
    with pytest.raises(CollectionError, match="open the store there"):
        open_collections(folder)
    file = folder / "siltstone.yaml"
    file.write_text(file.read_text().replace("consensus: table", "consensus: objects"))
    with pytest.raises(CollectionError, match="uses=table wanted=objects"):
        open_collections(folder)


def test_an_open_store_is_refused_where_the_collections_have_no_owner(tmp_path: Path) -> None:
    file = siltstone.init(tmp_path / "store", containers=1)
    with open_collections(file) as collections:
        collections.create(NAME, SCHEMA, key=["k"])
    with (
        siltstone.open(file) as store,
        pytest.raises(CollectionError, match="the path of the settings") as caught,
    ):
        open_collections(store)
    assert "consensus=objects" in str(caught.value)
    file.write_text(f"{file.read_text()}\ncollections: {{consensus: table}}\n")
    with (
        siltstone.open(file) as store,
        pytest.raises(CollectionError, match="uses=objects wanted=table"),
    ):
        open_collections(store)


def test_no_application_reaches_the_table(folder: Path) -> None:
    with siltstone.open(folder) as store, open_collections(store) as collections:
        collections.create(NAME, SCHEMA, key=["k"])
        with pytest.raises(SegmentNameError, match="reserved"):
            store.table("_system/collections")
        with pytest.raises(SegmentNameError, match="reserved"):
            store.create_table("_system/others")


def test_an_owner_that_was_taken_over_acknowledges_nothing_and_says_nothing_old(
    folder: Path,
) -> None:
    with siltstone.open(folder) as first, open_collections(first) as before:
        old = before.create(NAME, SCHEMA, key=["k"], times="count")
        old.append(rows(("before", 1)))
        with siltstone.open(folder, takeover=True) as second, open_collections(second) as after:
            new = after.collection(NAME)
            upper = new.append(rows(("new", 1))).upper
            for call in (
                lambda: old.snapshot(),
                lambda: old.append(rows(("old", 1))),
                lambda: old.append(rows(("old", 2)), expected_upper=upper),
                lambda: old.append(many_rows(600)),
                lambda: before.create("another", SCHEMA, key=["k"]),
            ):
                with pytest.raises(SiltstoneError) as caught:
                    call()
                assert not isinstance(caught.value, UpperMismatchError), "it knows no upper"
            new.append(rows(("new", 2)))
            shown = pairs_of(new.snapshot().to_arrow())
            assert shown == [("before", 1), ("new", 1), ("new", 2)]
            assert after.list() == [NAME]


def test_splits_are_read_when_no_process_has_the_store_open(folder: Path) -> None:
    with siltstone.open(folder) as store, open_collections(store) as collections:
        gusts = collections.create(NAME, SCHEMA, key=["k"], times="count")
        gusts.append(rows(("a", 1)))
        gusts.append(many_rows(600))
        splits = pickle.dumps(list(gusts.snapshot().splits()))
    shown = [
        table.num_rows
        for split in pickle.loads(splits)
        for table in siltstone.read_split(folder, split)
    ]
    assert sum(shown) == 601


def test_a_store_that_is_closed_closes_its_collections(folder: Path) -> None:
    store = siltstone.open(folder)
    collections = open_collections(store)
    gusts = collections.create(NAME, SCHEMA, key=["k"])
    gusts.append(rows(("a", 1)))
    store.close()
    with pytest.raises(ClosedError):
        gusts.append(rows(("b", 1)))
    collections.close()
    with pytest.raises(ClosedError):
        open_collections(store)


def test_collections_are_closed_before_the_store_and_opened_again(folder: Path) -> None:
    with siltstone.open(folder) as store:
        with open_collections(store) as collections:
            collections.create(NAME, SCHEMA, key=["k"]).append(rows(("a", 1)))
        with pytest.raises(ClosedError):
            collections.list()
        with open_collections(store) as again:
            assert again.collection(NAME).snapshot().to_arrow().num_rows == 1


def test_no_part_is_deleted_that_a_reader_pins_just_before(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been shown, without tier 1, what the table said before it was made secure."""
    secure = TableConsensus.secure
    with ExitStack() as readers:

        def secure_later(consensus: TableConsensus) -> None:
            readers.enter_context(store_view(folder))
            secure(consensus)

        with (
            siltstone.open(folder) as store,
            open_collections(store, settings=AT_ONCE) as collections,
        ):
            gusts = collections.create(NAME, SCHEMA, key=["k"], times="count")
            for number in range(3):
                gusts.append(many_rows(600, number * 600))
            gusts.compact()
            before = objects(folder)
            with monkeypatch.context() as patch:
                patch.setattr(TableConsensus, "secure", secure_later)
                assert gusts.collect() == 0
            assert objects(folder) == before
            readers.close()
            assert gusts.collect() == 3


def test_no_part_is_deleted_that_a_store_without_its_tier_1_needs(folder: Path) -> None:
    with siltstone.open(folder) as store, open_collections(store, settings=AT_ONCE) as collections:
        gusts = collections.create(NAME, SCHEMA, key=["k"], times="count")
        for number in range(3):
            gusts.append(many_rows(600, number * 600))
        store.flush()
        gusts.compact()
        assert gusts.collect() == 3
        shutil.copytree(folder / "chunks", folder.with_name("left"))
    shutil.rmtree(folder / "chunks")
    folder.with_name("left").rename(folder / "chunks")
    shutil.rmtree(folder / "tier1")
    recover_store(folder, accept_loss=True)
    with siltstone.open(folder) as store, open_collections(store) as collections:
        assert collections.collection(NAME).snapshot().to_arrow().num_rows == 1800
        assert list(collections.check(deep=True)) == []
