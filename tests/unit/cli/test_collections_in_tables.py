"""The command on a store whose collections are in a table: verbs that read, and those that cannot.

They do the same next to a running owner and without one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

import siltstone
from tests.support.collections.stored_objects import paths
from tests.support.command import Command
from tests.support.stores import flip

pytestmark = pytest.mark.slow

SCHEMA = pyarrow.schema([("n", pyarrow.int64())])
NOTED = ("--executor", "local", "--threads", "2", "--json")


@pytest.fixture(params=["an owner runs", "no owner runs"])
def owned(folder: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A store with a collection of one object and some inline rows, and a bookmark."""
    file = folder / "siltstone.yaml"
    file.write_text(f"{file.read_text()}\ncollections: {{consensus: table}}\n")
    store = siltstone.open(folder)
    with siltstone.open_collections(store) as collections:
        made = collections.create("gusts", SCHEMA, key=["n"], history=10, times="count")
        made.append(pyarrow.table({"n": range(5_000)}))
        made.bookmark("bill")
        updates = pyarrow.table({"n": [7], "_time": [1], "_diff": [1]})
        made.compare_and_append(updates, expected_upper=1, new_upper=5_000)
    if request.param == "no owner runs":
        store.close()
    yield folder
    store.close()


def test_what_is_in_a_table_is_looked_at_and_read(owned: Path, command: Command) -> None:
    (part,) = paths(owned, "parts")
    warned = command("health", "--json").values[0]["collections"]
    assert [(one["collection"], one["kind"]) for one in warned] == [("gusts", "history")]
    probes = [one for one in command("doctor", "--json").values if one["area"] == "collections"]
    assert [(one["name"], one["outcome"]) for one in probes] == [("gusts", "warning")]
    assert command("check").code == 0
    assert command("collection", "ls", "--json").values[0]["collection"] == "gusts"
    assert command("collection", "stat", "gusts", "--json").values[0]["upper"] == 5_000
    assert len(command("collection", "read", "gusts").out.splitlines()) == 5_001
    followed = command(
        "collection", "follow", "gusts", "--from", "1", "--until", "5000", "--no-lease"
    )
    assert (followed.code, followed.values[0]["n"]) == (0, 7)
    assert command("collection", "bookmark", "ls", "gusts", "--json").values[0]["name"] == "bill"
    used = command("collection", "space", "gusts", "--json").values[0]
    assert (used["objects"], used["length"]) == (1, part.stat().st_size)
    assert command("collection", "entries", "gusts").code == 0
    assert command("collection", "gc", "--dry-run", "--json").values == [{"would_delete": 0}]


def test_damage_of_what_is_in_a_table_is_found(
    owned: Path, command: Command, tmp_path: Path
) -> None:
    resumed = ("--resume", str(tmp_path / "kept"))
    sound = command("spark", "scrub", *NOTED, *resumed)
    assert (sound.code, {one["status"] for one in sound.values}) == (0, {"ok"})
    assert not (tmp_path / "kept").exists(), "it came to its end"
    (part,) = paths(owned, "parts")
    name = part.relative_to(owned / "chunks").as_posix()
    assert name in {one["subject"] for one in sound.values}
    flip(part, 1_000)
    scrubbed = command("spark", "scrub", *NOTED)
    wrong = {one["subject"]: one["status"] for one in scrubbed.values if one["status"] != "ok"}
    assert (scrubbed.code, wrong) == (6, {name: "damaged"})
    checked = command("collection", "check", "--deep", "--json")
    assert (checked.code, checked.values[0]["where"]) == (6, name)
    part.unlink()
    assert command("collection", "check").code == 6


CHANGES = [
    ("collection", "compact", "gusts"),
    ("collection", "gc"),
    ("collection", "sweep"),
    ("collection", "upgrade", "gusts"),
    ("collection", "finish", "gusts"),
    ("collection", "rename", "gusts", "storms"),
    ("collection", "evolve", "gusts", "--column", "m:int64"),
    ("collection", "create", "more", "--column", "n:int64", "--key", "n"),
    ("collection", "append", "gusts", "rows.json"),
    ("collection", "bookmark", "set", "gusts", "more"),
    ("collection", "follow", "gusts", "--from", "start"),
    ("collection", "follow", "gusts", "--from", "1"),
    ("spark", "compact-collection", "gusts", "--executor", "local"),
]
TRIED = [  # These have --dry-run.
    ("collection", "drop", "gusts", "--yes"),
    ("collection", "bookmark", "rm", "gusts", "bill"),
    ("collection", "writer", "rm", "gusts", "bill"),
    ("collection", "advance-since", "gusts", "4990"),
    ("collection", "import", "gusts", "rows.parquet"),
    ("collection", "import", "more", "rows.parquet", "--key", "n"),
]


@pytest.mark.parametrize("owned", ["no owner runs"], indirect=True)
def test_what_only_an_owner_can_do_says_so_in_a_dry_run_too(
    owned: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.json").write_text('{"n": 1}\n')
    parquet.write_table(pyarrow.table({"n": [1]}), "rows.parquet")
    before = [path.name for path in paths(owned, "parts")]
    for verb in (*CHANGES, *TRIED, *((*verb, "--dry-run") for verb in TRIED)):
        ran = command(*verb)
        assert (ran.code, ran.out) == (2, ""), verb
        assert "in a table of its owner" in ran.err, verb
        assert "open_collections" not in ran.err, verb
        assert ("--no-lease" in ran.err) == ("follow" in verb)
    assert [path.name for path in paths(owned, "parts")] == before
