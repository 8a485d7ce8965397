"""``spark compact-collection`` on threads of this process."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

from siltstone.collections.blocking import open_collections
from siltstone.collections.place import CollectionSettings
from tests.support.command import Command

LOCAL = ("--executor", "local", "--threads", "2")
SCHEMA = pyarrow.schema([pyarrow.field("k", pyarrow.int64(), nullable=False)])


@pytest.fixture
def numbers(folder: Path) -> None:
    """Two collections of three batches each."""
    with open_collections(folder, settings=CollectionSettings(compacts=False)) as opened:
        for name in ("odd", "even"):
            made = opened.create(name, SCHEMA, key=["k"], times="count")
            for number in range(3):
                made.append([{"k": number}])


@pytest.mark.usefixtures("numbers")
def test_collections_become_one_batch_each(command: Command) -> None:
    ran = command("spark", "compact-collection", "odd", "even", *LOCAL)
    assert (ran.code, ran.out) == (0, ""), ran
    assert "compact-collection: 4 ok" in ran.err
    ran = command("spark", "compact-collection", "odd", *LOCAL, "--json")
    assert ran.values == [
        {"subject": "odd", "status": "same", "length": 0, "message": "it is one batch"}
    ]
    assert command("collection", "read", "odd").out.count("\n") == 3


@pytest.mark.usefixtures("numbers")
def test_a_collection_that_is_not_there_is_told_before_any_work(command: Command) -> None:
    ran = command("spark", "compact-collection", "odd", "nowhere", *LOCAL, "--json")
    assert (ran.code, ran.out) == (3, ""), ran
    assert "nowhere" in ran.err


@pytest.mark.usefixtures("numbers")
def test_a_damaged_collection_is_told(command: Command, folder: Path) -> None:
    with open_collections(folder, settings=CollectionSettings(compacts=False)) as opened:
        opened.collection("odd").append(pyarrow.table({"k": range(9_000)}))
    (path,) = folder.rglob("*.parquet")
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-9])
    ran = command("spark", "compact-collection", "odd", *LOCAL)
    assert (ran.code, ran.out.startswith("damaged: odd: range 1 of 1:")) == (6, True), ran
