"""``health`` and ``doctor`` tell what is to be looked at in the collections of a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.chunk_storage import ChunkStat
from tests.support.collections.stored_objects import paths
from tests.support.command import Command
from tests.support.stores import flip

pytestmark = pytest.mark.slow

SCHEMA = pyarrow.schema([("n", pyarrow.int64())])
UPDATES = pyarrow.table({"n": [1], "_time": [0], "_diff": [1]})


@pytest.fixture
def held(folder: Path) -> Path:
    """A store in which a bookmark holds the history of one collection, and not of the other."""
    siltstone.open(folder).close()
    with siltstone.open_collections(folder) as collections:
        for name in ("held", "sound"):
            made = collections.create(name, SCHEMA, key=["n"], history=10, times="count")
            if name == "held":
                made.bookmark("bill")
            made.compare_and_append(UPDATES, expected_upper=0, new_upper=5_000)
        collections.settle()
    return folder


def test_a_bookmark_that_holds_history_is_told_and_changes_no_exit_code(
    held: Path, command: Command
) -> None:
    ran = command("health", "--json")
    (row,) = ran.values[0]["collections"]
    assert (ran.code, row["collection"], row["kind"]) == (0, "held", "history")
    assert row["message"].startswith("bookmark bill keeps 500.0 times the history")
    shown = command("health").out
    assert f"collection held: {row['message']}\n" in shown
    probes = [one for one in command("doctor", "--json").values if one["area"] == "collections"]
    assert [(one["name"], one["outcome"]) for one in probes] == [("held", "warning")]
    assert probes[0]["detail"] == row["message"]


def test_collections_in_good_order_have_no_warning(held: Path, command: Command) -> None:
    assert command("collection", "bookmark", "rm", "held", "bill").code == 0
    assert command("health", "--json").values[0]["collections"] == []
    (probe,) = [one for one in command("doctor", "--json").values if one["area"] == "collections"]
    assert (probe["outcome"], probe["detail"]) == ("ok", "nothing to look at")


def test_a_collection_that_cannot_be_opened_hides_no_other(held: Path, command: Command) -> None:
    with siltstone.open_collections(held) as collections:
        sound = collections.collection("sound").info().id
    for entry in paths(held, "entries", sound):
        flip(entry, 100)
    ran = command("health", "--json")
    found = {row["collection"]: row["kind"] for row in ran.values[0]["collections"]}
    assert (ran.code, found) == (0, {"held": "history", "sound": "unreadable"})


def test_collections_that_are_not_there_cost_no_listing(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    siltstone.open(folder).close()
    prefixes: list[str] = []
    listed = NfsChunkStorage.list

    def noted(
        storage: NfsChunkStorage, prefix: str = "", start_after: str = ""
    ) -> Iterator[ChunkStat]:
        prefixes.append(prefix)
        return listed(storage, prefix, start_after)

    monkeypatch.setattr(NfsChunkStorage, "list", noted)
    assert command("health", "--json").values[0]["collections"] == []
    assert prefixes
    assert not [one for one in prefixes if "collections/".startswith(one) or "collections" in one]


def test_doctor_names_an_object_of_rows_that_is_gone(held: Path, command: Command) -> None:
    with siltstone.open_collections(held) as collections:
        collections.collection("sound").append(pyarrow.table({"n": range(5_000)}))
    (part,) = paths(held, "parts")
    part.unlink()
    ran = command("doctor", "--json")
    probes = [one for one in ran.values if one["area"] == "collections"]
    outcomes = {one["name"]: one["outcome"] for one in probes}
    name = part.relative_to(held / "chunks").as_posix()
    assert (ran.code, outcomes) == (1, {name: "failed", "held": "warning"})
