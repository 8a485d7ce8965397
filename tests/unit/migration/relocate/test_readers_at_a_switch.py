"""A reader that stays open while the store goes to another long-term storage is told so."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone.core.errors import StoreNotFoundError
from siltstone.migration.relocate.switch import switch_storage

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
