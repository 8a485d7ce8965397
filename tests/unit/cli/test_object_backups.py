"""``objects`` and places of backups: backups made, listed, read, restored and removed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.objects.records.keys import SPACE
from siltstone.objects.space_names import space_names
from tests.support.command import Command
from tests.support.objects.damaged_values import damage_values
from tests.support.objects.rebuilt import flip_all
from tests.support.objects.small_segments import NAME, store_for_keyspaces
from tests.support.objects.three_segments import made
from tests.support.stores import flip


@pytest.fixture
def photos(command: Command, folder: Path, tmp_path: Path) -> Command:
    """The command, with a keyspace of two objects that has two backups in a place."""
    with siltstone.open(folder) as store:
        keyspace = objects.create(store, "photos", tags={"o": "recovr", "log": "retain"})
        for number in range(2):
            keyspace.put("b", f"k{number}", b"v" * 500, index={"f": ["t"]})
            keyspace.backup(tmp_path / "place")
    return command


def objects_in(place: Path) -> list[Path]:
    """The files with values, the oldest first."""
    found = place.rglob("siltstone-keyspaces/*/*/values/*")
    return sorted((each for each in found if each.is_file()), key=lambda each: each.name)


def test_a_backup_is_made_listed_and_restored(photos: Command, tmp_path: Path) -> None:
    place = str(tmp_path / "place")
    ran = photos("objects", "backup", "photos", place)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("generation 3: 2 value segments and 0 large values up to SQN 2, ")
    assert ran.out.endswith("copied 0, 0 bytes\n")
    (report,) = photos("objects", "backup", "photos", place, "--json", "--rate", "20MiB").values
    assert (report["generation"], report["sqn"], report["copied"]) == (4, 2, 0)
    listed = photos("objects", "backups", place, "--json").values
    assert [(each["keyspace"], each["generation"], each["sqn"]) for each in listed] == [
        ("photos", 1, 1),
        ("photos", 2, 2),
        ("photos", 3, 2),
        ("photos", 4, 2),
    ]
    shown = photos("objects", "backups", place, "--of", listed[0]["store"]).out.splitlines()
    assert (len(shown), shown[0].split()[:4]) == (5, ["KEYSPACE", "STORE", "GENERATION", "MADE"])
    ran = photos("objects", "restore", place, "old", "--generation", "1", "--keyspace", "photos")
    assert (ran.code, ran.out) == (0, "old: rebuilt from 1 record\n")
    assert photos("objects", "keys", "old", "b").out == "k0\n"
    assert photos("objects", "restore", place, "new", "--json").values == [
        {
            **{"keyspace": "new", "records": 2, "doubtful": 0, "unnamed": 0, "unknown": []},
            "missing": [],
        }
    ]
    assert photos("objects", "index", "new", "b", "f").out == "t\tk0\nt\tk1\n"
    ran = photos("objects", "restore", place, "new")
    assert (ran.code, "objects restore needs a new name" in ran.err) == (4, True)
    assert photos("objects", "restore", place, "x", "--keyspace", "films").code == 2
    assert photos("objects", "backups", str(tmp_path / "nowhere")).code == 2
    assert photos("objects", "backup", "films", place).code == 3


def test_backups_are_removed_with_what_no_other_needs(photos: Command, tmp_path: Path) -> None:
    place = tmp_path / "place"
    assert photos("objects", "backup", "photos", str(place)).code == 0
    remove = ("objects", "remove-backups", str(place))
    before = sorted(place.rglob("*"))
    assert (
        photos(*remove, "1", "--dry-run").out == "would remove generations: 1; 0 objects, 0 bytes\n"
    )
    (told,) = photos(*remove, "1", "2", "3", "--dry-run", "--json").values
    lengths = sum(each.stat().st_size for each in objects_in(place))
    assert told == {"generations": [1, 2, 3], "objects": 2, "size": lengths, "removed": False}
    assert photos(*remove, "9", "--dry-run").code == 2
    assert photos(*remove, "1", "--dry-run", "--takeover").code == 2
    assert sorted(place.rglob("*")) == before
    assert photos(*remove, "2", "3").out == (
        f"removed generations: 2, 3; 1 object, {objects_in(place)[0].stat().st_size} bytes\n"
    )
    assert [
        each["generation"] for each in photos("objects", "backups", str(place), "--json").values
    ] == [1]
    assert photos(*remove, "9").code == 2
    assert photos(*remove).out == "removed generations: none; 0 objects, 0 bytes\n"


def test_every_byte_of_backups_is_compared(photos: Command, tmp_path: Path) -> None:
    place = tmp_path / "place"
    verify = ("objects", "verify-backups", str(place))
    ran = photos(*verify)
    first, second = objects_in(place)
    size = first.stat().st_size + second.stat().st_size
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"verify: 2 generations, 2 objects, {size:,} bytes, 0 findings\n"
    assert photos(*verify, "3").code == 2
    flip(second, 100)
    ran = photos(*verify)
    where = second.relative_to(next(place.rglob("siltstone-keyspaces")).parent)
    told = f"damage: photos: generation 2: object of a backup is damaged where={where}\n"
    assert (ran.code, ran.out) == (6, told)
    first.unlink()
    ran = photos(*verify, "--keyspace", "photos", "--json")
    *found, total = ran.values
    assert [(each["generations"], Path(each["where"]).name) for each in found] == [
        ([1, 2], first.name),
        ([2], second.name),
    ]
    assert (ran.code, total["damage"], total["generations"]) == (6, 2, 2)
    assert photos(*verify, "1", "--json").values[-1]["damage"] == 1


def test_a_damaged_record_is_told_by_lists_and_verified(photos: Command, tmp_path: Path) -> None:
    place = tmp_path / "place"
    for record in place.rglob(f"siltstone-keyspaces/*/*/generations/{1:020}*"):
        flip(record, 30)
    ran = photos("objects", "backups", str(place))
    assert (ran.code, ran.out.count("generation 1: ")) == (6, 2)
    ran = photos("objects", "verify-backups", str(place))
    assert (ran.code, ran.out.count("damage: photos: generation 1: ")) == (6, 2)
    assert photos("objects", "remove-backups", str(place), "2", "--dry-run").code == 6
    assert photos("objects", "remove-backups", str(place), "1").code == 0
    assert photos("objects", "verify-backups", str(place)).code == 0


def test_a_lost_ledger_is_made_again(photos: Command, folder: Path) -> None:
    assert photos("objects", "rebuild", "photos").out == "photos: rebuilt from 2 records\n"
    with siltstone.open(folder) as store:
        store.table(space_names("photos").ledger, force=True).remove(SPACE)
    ran = photos("objects", "rebuild", "photos")
    assert (ran.code, "--tag TAG:STRATEGY" in ran.err) == (6, True)
    ran = photos("objects", "rebuild", "photos", "--tag", "o", "--tag", "log:retain")
    assert (ran.code, "TAG:STRATEGY" in ran.err) == (2, True)
    tags = ("--tag", "o:recovr", "--tag", "log:retain")
    assert photos("objects", "rebuild", "photos", *tags, "--json").values == [
        {"keyspace": "photos", "records": 2, "doubtful": 0, "unnamed": 0, "unknown": []}
    ]
    assert photos("objects", "keys", "photos", "b").out == "k0\nk1\n"
    assert photos("objects", "doubtful", "photos").code == 0
    assert photos("objects", "rebuild", "none").code == 3


def test_a_backup_of_damaged_values_is_made_and_restored_on_demand(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    place = str(tmp_path / "place")
    with siltstone.open(folder) as store:
        keyspace = objects.create(store, "photos")
        for number in range(3):
            keyspace.put("b", f"k{number}", b"v" * 500)
        store.flush()
    damage_values(folder, "photos", ["k1"])
    backup = ("objects", "backup", "photos", place)
    ran = command(*backup)
    assert (ran.code, ran.out) == (6, "")
    for part in ("allow_missing", "segments=values/00000001", "block does not match its sum"):
        assert part in ran.err
    ran = command(*backup, "--allow-missing")
    assert (ran.code, ran.out.count("missing: values/00000001: bytes 0 to ")) == (6, 1)
    (report,) = command(*backup, "--allow-missing", "--json").values
    lacks = report["missing"]
    # It took records until now, and damage keeps it from getting a footer.
    assert [(each["number"], each["is_large"], each["start"]) for each in lacks] == [
        (1, False, lacks[0]["stop"]),
        (1, False, 0),
    ]
    shown = command("objects", "backups", place).out.splitlines()
    assert [line.split()[-1] for line in shown] == ["MISSING", "2", "2"]
    ran = command("objects", "verify-backups", place)
    told = "damage: photos: generation 1, 2: missing since it was made: values/00000001: bytes"
    assert (ran.code, ran.out.count(told), ran.out.count("damage: ")) == (6, 2, 2)
    restore = ("objects", "restore", place, "new")
    ran = command(*restore)
    assert (ran.code, "allow_missing" in ran.err) == (1, True)
    ran = command(*restore, "--allow-missing", "--json")
    assert (ran.code, ran.values[0]["missing"]) == (6, lacks)
    assert command("objects", "keys", "new", "b").out == "k0\nk1\nk2\n"
    assert [command("objects", "get", "new", "b", f"k{each}").code for each in range(3)] == [
        *(0, 6, 0)
    ]


def test_a_keyspace_that_is_not_whole_yet_is_busy(photos: Command, tmp_path: Path) -> None:
    place = tmp_path / "place"
    damaged = objects_in(place)[0]
    flip(damaged, 100)
    assert photos("objects", "restore", str(place), "new").code == 6
    ran = photos("objects", "get", "new", "b", "k0")
    assert (ran.code, "the same objects restore, goes on" in ran.err) == (4, True)
    flip(damaged, 100)
    assert photos("objects", "restore", str(place), "new").code == 0
    assert photos("objects", "get", "new", "b", "k0").code == 0


def test_doubtful_objects_are_named_and_end_with_6(command: Command, tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    places = asyncio.run(made(folder))
    flip_all(folder, [places.piece, places.records["k05"]])

    ran = command("objects", "rebuild", NAME, store=str(folder))
    *named, last = ran.out.splitlines()
    assert (ran.code, last.startswith(f"{NAME}: rebuilt from ")) == (6, True)
    assert "doubtful: bucket=b key=k05 tag=o: value segment 2 is damaged" in named
    ran = command("objects", "doubtful", NAME, "--json", store=str(folder))
    assert ran.code == 6
    assert {"doubtful": {"bucket": "b", "key": "k05", "tag": "o", "segment": 2}} in ran.values
    assert len(ran.values) == len(named)
    assert command("objects", "get", NAME, "b", "k05", store=str(folder)).code == 3
