"""A reader that stays open while the store goes to another long-term storage is told so."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone.core.errors import OutcomeUnknownError, StoreNotFoundError
from siltstone.migration.relocate.switch import switch_storage
from tests.support.migration.moved_store import moved_settings

pytestmark = pytest.mark.slow

SCHEMA = pyarrow.schema([("n", pyarrow.int64())])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a segment, a table, and a collection of one object in a table."""
    file = siltstone.init(tmp_path / "store")
    file.write_text(f"{file.read_text()}\ncollections: {{consensus: table}}\n")
    with siltstone.open(file) as store, siltstone.open_collections(store) as collections:
        store.create("events").append(bytes(100_000))
        store.create_table("names").put(b"a", b"b")
        made = collections.create("gusts", SCHEMA, key=["n"])
        made.append(pyarrow.table({"n": range(20_000)}))
        store.flush()
    return file.parent


def check_each_read_says_where_to_go(reads: dict[str, Callable[[], object]]) -> None:
    for name, read in reads.items():
        with pytest.raises(StoreNotFoundError) as refused:
            read()
        assert "open it by its new settings" in str(refused.value), name


def test_reads_of_an_old_place_name_the_switch(folder: Path) -> None:
    text = (folder / "siltstone.yaml").read_text()
    (folder / "new.yaml").write_text(text.replace("./chunks", "./elsewhere"))
    with (
        siltstone.open(folder, read_only=True) as store,
        siltstone.open_collections(store) as collections,
    ):
        gusts = collections.collection("gusts")
        switch_storage(folder, folder / "new.yaml")
        shutil.rmtree(folder / "chunks" / "collections")
        check_each_read_says_where_to_go({"an object is gone": lambda: gusts.snapshot().to_arrow()})
        with siltstone.open(folder / "new.yaml") as owner:
            for _ in range(3):
                owner.table("names").put(b"c", bytes(100_000))
                owner.flush()  # The log goes on without what the old place needs of it.
        shutil.rmtree(folder / "chunks" / "data")
        check_each_read_says_where_to_go(
            {
                "rows": lambda: gusts.snapshot().to_arrow(),
                "names": collections.list,
                "a table": lambda: list(store.table("names").scan()),
                "a segment": lambda: store.segment("events").read(0, 10),
            }
        )


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A store that any process changes, with a collection of two objects."""
    folder = siltstone.init(tmp_path / "shared").parent
    siltstone.open(folder).close()
    with siltstone.open_collections(folder) as collections:
        made = collections.create("gusts", SCHEMA, key=["n"])
        for start in (0, 20_000):
            made.append(pyarrow.table({"n": range(start, start + 20_000)}))
    return folder


def leave(folder: Path) -> None:
    """Switch the store to another place, and delete its collections at the old one."""
    switch_storage(folder, moved_settings(folder, "new.yaml", folder / "elsewhere"))
    shutil.rmtree(folder / "chunks" / "collections")


def test_who_had_collections_open_at_an_old_place_that_lost_them_is_told_of_the_switch(
    shared: Path,
) -> None:
    with (
        siltstone.open_collections(shared) as known,
        siltstone.open_collections(shared) as unaware,
    ):
        gusts = known.collection("gusts")
        snapshot = gusts.snapshot()
        leave(shared)
        check_each_read_says_where_to_go(
            {
                "a new snapshot": gusts.snapshot,
                "an old one": snapshot.to_arrow,
                "a follower": gusts.listen,
                "facts": gusts.info,
                "entries": gusts.entries,
                "names": known.list,
                "names for the first time": unaware.list,
                "a name": lambda: unaware.collection("gusts"),
            }
        )
        with pytest.raises(OutcomeUnknownError) as refused:
            gusts.append([{"n": 1}])
        assert "open it by its new settings" in str(refused.value.__cause__)
        with pytest.raises(StoreNotFoundError, match="switched"):
            unaware.create("tides", SCHEMA, key=["n"])
    with siltstone.open_collections(shared) as collections:
        assert collections.collection("gusts").snapshot().to_arrow().num_rows == 40_000


def test_a_worker_with_the_settings_of_an_old_place_is_told_of_the_switch(shared: Path) -> None:
    """Also in the middle of a split, when objects of the old place are deleted."""
    old = shared / "worker.yaml"
    shutil.copy(shared / "siltstone.yaml", old)
    with siltstone.open_collections(shared) as collections:
        (split,) = collections.collection("gusts").snapshot().splits()
    begun = siltstone.read_split(old, split)
    assert next(begun).num_rows == 20_000
    leave(shared)
    check_each_read_says_where_to_go(
        {
            "one that has begun": lambda: list(begun),
            "a new one": lambda: list(siltstone.read_split(old, split)),
        }
    )
    assert sum(batch.num_rows for batch in siltstone.read_split(shared, split)) == 40_000
