"""With ``--dry-run`` and next to an owner, a deleting verb only says what it would do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone import objects as keyspaces
from tests.support.collections.stored_objects import objects
from tests.support.command import Command


@pytest.fixture
def owner(folder: Path) -> Iterator[siltstone.Store]:
    """A store that has an owner meanwhile."""
    with siltstone.open(folder) as store:
        for name in ("logs/a", "logs/b", "other"):
            store.create(name).append(b"0123456789")
        store.create_table("t").update({b"a": b"1", b"b": b"2", b"c": b"3"})
        yield store


@pytest.mark.slow
def test_removals_are_told_and_not_made(command: Command, owner: siltstone.Store) -> None:
    ran = command("rm", "--dry-run", "other", "logs/a")
    assert ran.code == 0
    assert ran.out == "would remove other: 10 bytes\nwould remove logs/a: 10 bytes\n"
    assert ran.err == "2 segments would go, 20 bytes\n"
    assert command("rm", "--dry-run", "--prefix", "logs/", "--json").values == [
        {"would_remove": "logs/a", "length": 10},
        {"would_remove": "logs/b", "length": 10},
    ]
    assert command("rm", "--dry-run", "nope").code == 3
    assert [info.name for info in owner.list()] == ["logs/a", "logs/b", "other"]


@pytest.mark.slow
def test_a_truncation_is_told_and_not_made(command: Command, owner: siltstone.Store) -> None:
    assert command("truncate", "other", "4", "--dry-run").out == (
        "would drop 4 bytes of other, from 0 on\n"
    )
    assert command("truncate", "other", "11", "--dry-run").code == 4
    assert owner.segment("other").info().start_offset == 0


@pytest.mark.slow
def test_changes_of_tables_are_told_and_not_made(command: Command, owner: siltstone.Store) -> None:
    assert command("table", "rm", "t", "a", "--dry-run", "--json").values == [
        {"would_remove": "a", "there": True}
    ]
    assert "no such key" in command("table", "rm", "t", "x", "--dry-run").out
    assert (
        command("table", "clear", "t", "--start", "b", "--dry-run").out == "would remove 2 keys\n"
    )
    assert command("table", "clear", "t", "--all", "--dry-run", "--json").values == [
        {"would_remove_keys": 3}
    ]
    ran = command("table", "clear", "t", "--all", "--dry-run", "--expect", "a", "-1")
    assert (ran.code, ran.out) == (4, "")
    assert len(list(owner.table("t").scan())) == 3


@pytest.mark.slow
def test_garbage_is_told_and_stays(command: Command, owner: siltstone.Store) -> None:
    owner.flush()
    owner.segment("other").delete()
    assert command("gc", "run", "--dry-run").out.startswith("would carry out ")
    assert command("gc", "replay", "--dry-run").out == "0 deletions would be tried again\n"
    assert command("gc", "sweep", "--dry-run").code == 0
    assert command("gc", "sweep", "--dry-run", "--delete").code == 2


def test_removals_of_objects_are_told_and_not_made(
    command: Command, owner: siltstone.Store
) -> None:
    photos = keyspaces.create(owner, "photos")
    photos.put("b", "k", b"12345")
    for arguments, out in {
        ("rm", "photos", "b", "k"): "would remove k: 5 bytes\n",
        ("rm", "photos", "b", "no"): "would remove nothing: there is no key no\n",
        ("destroy", "photos"): "would destroy photos: 1 object in 1 segment of 84 bytes\n",
    }.items():
        ran = command("objects", *arguments, "--dry-run")
        assert (ran.code, ran.out) == (0, out)
    assert command("objects", "rm", "photos", "b", "k", "--dry-run", "--json").values == [
        {"would_remove": "k", "there": True}
    ]
    ran = command("objects", "rm", "photos", "b", "k", "--dry-run", "--expect", "2")
    assert (ran.code, "current=1" in ran.err) == (4, True)
    assert command("objects", "destroy", "no", "--dry-run").code == 3
    found = photos.get("b", "k")
    assert found is not None
    assert found.value == b"12345"


@pytest.mark.slow
def test_a_rule_is_told_and_stays(command: Command, owner: siltstone.Store) -> None:
    owner.set_retention("logs/", prefix=True, bytes_max=5)
    ran = command("retention", "remove", "logs/", "--prefix", "--dry-run")
    assert (ran.code, ran.out) == (0, "would remove: keeps 5 bytes by the rule of prefix 'logs/'\n")
    assert command("retention", "remove", "nope", "--dry-run").code == 3
    assert len(list(owner.retention())) == 1


@pytest.mark.slow
def test_a_backup_is_told_and_stays(command: Command, folder: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "backups")
    assert command("backup", "create", place).code == 0
    assert "would remove 1 generation" in command("backup", "remove", place, "1", "--dry-run").err
    assert command("backup", "remove", place, "2", "--dry-run").code == 2
    assert [one["generation"] for one in command("backup", "list", place, "--json").values] == [1]


@pytest.mark.slow
def test_an_adoption_is_told_and_stays(command: Command, folder: Path) -> None:
    (folder / "chunks" / "in").mkdir()
    (folder / "chunks" / "in" / "x").write_bytes(b"12345")
    (folder / "chunks" / "in" / "y").write_bytes(b"678")
    assert command("import", "{path}", str(folder / "chunks" / "in"), "--in-place").code == 0
    assert command("rm", "x").code == 0
    for verb, what in (("finalise", "deleted"), ("release", "released")):
        ran = command("adoption", verb, "files", "--dry-run")
        assert (ran.code, ran.out) == (0, f"1 file of 5 bytes would be {what}\n")
        assert command("adoption", verb, "nope", "--dry-run").code == 3
    (found,) = command("adoption", "ls", "--json").values
    assert (found["finalised"], found["dropped"]) == (False, 1)


@pytest.mark.slow
def test_removals_of_collections_are_told_and_not_made(command: Command, folder: Path) -> None:
    with siltstone.open_collections(folder) as collections:
        schema = pyarrow.schema([("n", pyarrow.int64())])
        gusts = collections.create("gusts", schema, key=["n"], times="count")
        for _ in range(3):
            gusts.writer("w").append([{"n": number} for number in range(3)], sequence=1)
            gusts.append([{"n": number} for number in range(3)])
        gusts.bookmark("bill", since=1)
        length = gusts.info().length
    before = objects(folder)
    for arguments, out in {
        ("drop", "gusts"): f"would drop gusts: 12 rows of {length} bytes\n",
        ("bookmark", "rm", "gusts", "bill"): "would remove the bookmark bill\n",
        ("writer", "rm", "gusts", "w"): "would remove the writer w\n",
        ("advance-since", "gusts", "1"): "would let the since go from 0 to 1\n",
        ("gc",): "would delete 0 objects\n",
        ("gc", "gusts"): "would delete 0 objects\n",
        ("sweep",): "",
        ("sweep", "--nameless"): "",
    }.items():
        ran = command("collection", *arguments, "--dry-run")
        assert (ran.code, ran.out) == (0, out)
    for arguments in (("bookmark", "rm", "gusts", "no"), ("writer", "rm", "gusts", "no")):
        assert command("collection", *arguments, "--dry-run").code == 3
    held = command("collection", "advance-since", "gusts", "2", "--dry-run")
    assert (held.code, "holder=bookmark bill" in held.err) == (4, True)
    assert objects(folder) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("rm", "a"),
        ("truncate", "a", "0"),
        ("table", "rm", "t", "k"),
        ("table", "clear", "t", "--all"),
        ("objects", "rm", "photos", "b", "k"),
        ("objects", "destroy", "photos"),
        ("gc", "run"),
        ("gc", "replay"),
        ("retention", "remove", "a"),
        ("retention", "run"),
        ("backup", "remove", "nowhere", "1"),
        ("adoption", "finalise", "a"),
        ("adoption", "release", "a"),
    ],
)
def test_nothing_is_taken_over_to_show_something(
    command: Command, arguments: tuple[str, ...]
) -> None:
    ran = command(*arguments, "--dry-run", "--takeover")
    assert ran.code == 2
    assert "--takeover and --dry-run exclude each other" in ran.err


@pytest.mark.slow
def test_a_prefix_removes_what_begins_so(command: Command) -> None:
    for name in ("logs/a", "logs/b", "log", "other"):
        command("create", name)
    assert command("rm", "--prefix", "logs/", "--json").values == [
        {"removed": "logs/a"},
        {"removed": "logs/b"},
    ]
    assert command("rm", "--prefix", "logs/").code == 0
    assert [one["name"] for one in command("ls", "--json").values] == ["log", "other"]
    for wrong in ((), ("--prefix", ""), ("other", "--prefix", "log")):
        assert command("rm", *wrong).code == 2
    assert len(command("ls", "--json").values) == 2
