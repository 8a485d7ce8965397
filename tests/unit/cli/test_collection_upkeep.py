"""``collection compact``, ``gc``, ``sweep``, ``entries`` and ``check``, from outside."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone.collections.garbage import GarbageCollector
from siltstone.collections.state import compaction_plan
from tests.support.collections.stored_objects import paths
from tests.support.command import Command
from tests.support.stores import flip

ROWS = 2_000


@pytest.fixture
def gusts(command: Command, folder: Path) -> Command:
    """The command, with a collection of three parts, and garbage that goes at once."""
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write("\ngarbage:\n  delay: 0s\n")
    with siltstone.open_collections(folder) as collections:
        schema = pyarrow.schema([("n", pyarrow.int64())])
        target = collections.create("gusts", schema, key=["n"], times="count")
        for start in range(0, 3 * ROWS, ROWS):
            target.append(pyarrow.table({"n": range(start, start + ROWS)}))
        for row in target.info().writers:
            target.forget_writer(row.name)
    return command


def test_batches_are_merged_and_what_they_were_is_collected(gusts: Command, folder: Path) -> None:
    (merged,) = gusts("collection", "compact", "gusts", "--json").values
    assert (merged["collection"], merged["rows"], merged["parts"]) == ("gusts", 3 * ROWS, 1)
    assert "6,000 rows of" in gusts("collection", "compact", "gusts").out
    assert len(paths(folder, "parts")) == 4
    assert gusts("collection", "gc", "gusts", "--dry-run").out == "would delete 3 objects\n"
    assert gusts("collection", "gc", "gusts", "--json").values == [{"deleted": 3}]
    assert gusts("collection", "gc").out == "deleted 0 objects\n"
    shown = gusts("collection", "read", "gusts").values
    assert [row["n"] for row in shown] == list(range(3 * ROWS))


def test_the_rows_of_a_dropped_collection_are_deleted(gusts: Command, folder: Path) -> None:
    """At once, whatever readers have: nobody can read them any more."""
    settings = folder / "siltstone.yaml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("delay: 0s", "delay: 1h"), encoding="utf-8")
    assert gusts("collection", "drop", "gusts", "--yes").code == 0
    assert paths(folder, "parts") == []
    assert gusts("collection", "ls").out == ""
    assert gusts("collection", "check", "--deep").code == 0


def test_a_drop_that_was_interrupted_is_ended_by_another_one(
    gusts: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def died(*_: object) -> None:
        raise siltstone.ClosedError("between the drop and the rows")

    with monkeypatch.context() as patch:
        patch.setattr(GarbageCollector, "bury", died)
        assert gusts("collection", "drop", "gusts", "--yes").code != 0
    assert len(paths(folder, "parts")) == 3
    assert gusts("collection", "ls").out == "gusts\n"
    told = gusts("collection", "drop", "gusts", "--dry-run", "--json").values
    assert told == [{"would_drop": "gusts", "rows": 0, "length": 0}]
    assert gusts("collection", "drop", "gusts", "--yes").code == 0
    assert paths(folder, "parts") == []
    assert gusts("collection", "ls").out == ""


def test_what_died_processes_left_is_swept(gusts: Command, folder: Path) -> None:
    part = paths(folder, "parts")[0]
    leaked = part.with_name(part.name.replace("-0-", "-9-"))
    leaked.write_bytes(b"x")
    name = leaked.relative_to(folder / "chunks").as_posix()
    ran = gusts("collection", "sweep", "--dry-run")
    assert (ran.code, ran.err) == (0, "1 object would go\n")
    assert ran.out.startswith(f"would delete {name}: ")
    told = gusts("collection", "sweep", "gusts", "--dry-run", "--json").values
    assert told == [{"would_delete": name}]
    assert leaked.exists()
    assert gusts("collection", "sweep").out == "deleted 1 object\n"
    assert not leaked.exists()
    assert gusts("collection", "sweep", "gusts", "--json").values == [{"deleted": 0}]
    assert gusts("collection", "sweep", "--nameless").out == "deleted 0 objects\n"


def test_entries_are_shown_in_words(gusts: Command) -> None:
    shown = gusts("collection", "entries", "gusts").out
    assert "  batch [0, 1): 2,000 rows in 1 part of " in shown
    found = gusts("collection", "entries", "gusts", "--json").values
    assert [entry["seqno"] for entry in found] == list(range(1, len(found) + 1))
    assert "pid=" in found[0]["actor"]
    some = gusts("collection", "entries", "gusts", "--from", "2", "--limit", "2", "--json").values
    assert some == found[-2:]
    assert gusts("collection", "entries", "gusts", "--from", "99").out == ""


def test_a_check_exits_with_6_on_damage_alone(gusts: Command, folder: Path) -> None:
    ran = gusts("collection", "check")
    assert (ran.code, ran.out, ran.err) == (0, "", "everything is there; --deep also reads it\n")
    assert gusts("collection", "check", "--deep").err == "everything is as it was written\n"
    (folder / "chunks/collections/notes").write_bytes(b"x")
    ran = gusts("collection", "check", "--json")
    assert ran.code == 0
    assert ran.values[0]["severity"] == "warning"
    assert ran.values[1] == {"found": {"damage": 0, "garbage": 0, "warning": 1}, "deep": False}
    assert gusts("collection", "check", "gusts").out == ""
    first, second, _ = paths(folder, "parts")
    flip(first, 10)
    assert gusts("collection", "check", "gusts").code == 0
    ran = gusts("collection", "check", "gusts", "--deep")
    assert (ran.code, ran.err) == (6, "found 1 damage\n")
    assert ran.out.startswith("damage: collections/")
    second.unlink()
    ran = gusts("collection", "check", "gusts")
    assert (ran.code, ran.out.endswith(f"{second.name}: missing\n")) == (6, True)
    assert gusts("collection", "read", "gusts").code in (1, 6)


@pytest.mark.slow
def test_a_life_of_commands_alone_stays_in_order(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs between them, so each does what is due."""
    monkeypatch.setattr(compaction_plan, "LOWEST_FACTOR", 32)
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write("\ngarbage:\n  delay: 0s\n")
    columns = ("--column", "n:int64", "--key", "n", "--times", "count")
    assert command("collection", "create", "a", *columns).code == 0
    rows = folder / "rows.jsonl"
    for number in range(40):
        rows.write_text(f'{{"n": {number}}}\n')
        assert command("collection", "append", "a", str(rows)).out == f"{number} 1\n"
    (found,) = command("collection", "stat", "a", "--json").values
    assert (found["rows"], found["writers"]) == (40, [])
    assert found["batches"] < 32
    for old, new in [("a", "b"), ("b", "a")] * 17:
        assert command("collection", "rename", old, new).code == 0
    newest = paths(folder, "rollups", "0" * 32)[-1].name  # of the names
    assert int(newest.partition("-")[0]) >= 64
    assert command("collection", "check", "--deep").code == 0


def test_the_format_is_raised_on_request_and_shown(gusts: Command) -> None:
    assert gusts("collection", "upgrade", "gusts").out == "gusts: format 1\n"
    assert gusts("collection", "upgrade", "gusts", "--json").values == [
        {"collection": "gusts", "format": 1}
    ]
    assert "format:          1\n" in gusts("collection", "stat", "gusts").out
    assert gusts("collection", "upgrade", "none").code == 3


def test_the_space_of_collections_is_shown_and_part_of_that_of_the_store(
    command: Command, folder: Path
) -> None:
    siltstone.open(folder).close()
    assert command("collection", "space").out.splitlines() == [
        "COLLECTION  OBJECTS  BYTES  ENTRIES  ROLLUPS  PARTS  OTHERS"
    ]
    columns = ("--column", "station:string", "--key", "station")
    assert command("collection", "create", "gusts", *columns).code == 0
    (shown,) = command("collection", "space", "gusts", "--json").values
    (made,) = command("collection", "stat", "gusts", "--json").values
    assert (shown["name"], shown["id"], shown["part_bytes"]) == ("gusts", made["id"], 0)
    of_it = list((folder / "chunks/collections" / made["id"]).rglob("*"))
    sizes = [path.stat().st_size for path in of_it if path.is_file()]
    assert (shown["objects"], shown["length"]) == (len(sizes), sum(sizes))
    ran = command("collection", "space")
    assert [line.split()[0] for line in ran.out.splitlines()] == ["COLLECTION", "catalog", "gusts"]
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write("\nspace:\n  used_max: 1GiB\n")
    stored = [path for path in (folder / "chunks").rglob("*") if path.is_file()]
    found = command("health", "--json").values[0]["containers"][0]
    assert found["used_bytes"] == sum(path.stat().st_size for path in stored)
