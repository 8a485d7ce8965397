"""``objects diff`` and ``objects sync``: two keyspaces compared and made equal."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from tests.support.command import Command
from tests.support.objects.damaged_values import damage_values


def filled(store: siltstone.Store, name: str, own: str, shared: bytes) -> None:
    """A keyspace with an object of its own, one that differs, and one that is the same."""
    keyspace = objects.create(store, name)
    keyspace.put("b", own, b"own")
    keyspace.put("b", "shared", shared)
    keyspace.put("b", "same", b"same")


@pytest.fixture
def other(folder: Path, tmp_path: Path) -> str:
    """The folder of another store; both have the keyspace."""
    there = siltstone.init(tmp_path / "other").parent
    with siltstone.open(folder) as store:
        filled(store, "photos", "left", b"from left")
    with siltstone.open(there) as store:
        filled(store, "photos", "right", b"from the right")
    return str(there)


def values(command: Command, store: str | None = None, name: str = "photos") -> dict[str, str]:
    """What a keyspace has."""
    listed = command("objects", "keys", name, "b", store=store).out.splitlines()
    return {key: command("objects", "get", name, "b", key, store=store).out for key in listed}


def test_differences_are_listed_and_end_with_1(command: Command, other: str) -> None:
    ran = command("objects", "diff", "photos", other)
    assert (ran.code, ran.err) == (1, "3 differ\n")
    assert ran.out == (
        "< bucket=b key=left tag=o\n> bucket=b key=right tag=o\n! bucket=b key=shared tag=o\n"
    )
    *found, total = command("objects", "diff", "photos", other, "--json").values
    sizes = [
        tuple(None if each[side] is None else each[side]["size"] for side in ("ours", "theirs"))
        for each in found
    ]
    assert sizes == [(3, None), (None, 3), (9, 14)]
    assert (total["differences"], total["exchanged_bytes"] > 0) == (3, True)
    ends = ("--bucket", "b", "--start", "m", "--end", "s")
    assert command("objects", "diff", "photos", other, *ends).out == "> bucket=b key=right tag=o\n"
    ran = command("objects", "diff", "photos", other, "--start", "m")
    assert (ran.code, "give --bucket" in ran.err) == (2, True)
    assert command("objects", "diff", "photos", other, "none").code == 3
    ran = command("objects", "diff", "photos", other, "--bucket", "none")
    assert (ran.code, ran.err) == (0, "both are the same\n")


def test_a_sync_is_told_and_made(command: Command, other: str) -> None:
    sync = ("objects", "sync", "photos", other, "--prefer", "left")
    told = "3 differences, 1 copied to left, 2 copied to right\n"
    assert command(*sync, "--dry-run").out == f"would be: {told}"
    assert command("objects", "diff", "photos", other).code == 1
    ran = command(*sync)
    assert (ran.code, ran.out) == (0, told)
    wanted = {"left": "own", "right": "own", "shared": "from left", "same": "same"}
    assert values(command) == values(command, other) == wanted
    assert command(*sync).out == "both are the same\n"
    assert command("objects", "diff", "photos", other).code == 0


def test_one_way_changes_one_side_and_claims_no_other(
    command: Command, other: str, folder: Path
) -> None:
    sync = ("objects", "sync", "photos", other, "--prefer", "left", "--json")
    with siltstone.open(folder):
        assert command(*sync).code == 5
        (told,) = command(*sync, "--one-way", "--dry-run").values
        assert (told["copied_to_left"], told["left_out"], told["dry_run"]) == (0, 1, True)
        (done,) = command(*sync, "--one-way").values
    counts = ("differences", "copied_to_left", "copied_to_right", "left_out")
    assert [done[each] for each in counts] == [told[each] for each in counts] == [3, 0, 2, 1]
    assert "right" not in values(command)
    (done,) = command(*sync, "--one-way", "--deletes").values
    assert (done["removed_from_right"], done["left_out"]) == (1, 0)
    assert values(command) == values(command, other)


def test_two_keyspaces_of_one_store_are_made_equal(command: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        filled(store, "one", "left", b"older")
        filled(store, "two", "right", b"newer")
    settings = str(folder / "siltstone.yaml")
    assert command("objects", "diff", "one", settings, "two").code == 1
    assert command("objects", "sync", "one", settings, "two", "--prefer", "newest").code == 0
    assert values(command, name="one") == values(command, name="two")
    assert values(command, name="one")["shared"] == "newer"
    assert command("objects", "diff", "one", settings, "two").code == 0


def test_what_a_sync_cannot_do_is_told(command: Command, other: str) -> None:
    for options, code, text in (
        ((), 2, "--prefer"),
        (("--prefer", "newest", "--deletes"), 2, "need --prefer left or right"),
        (("--prefer", "newest", "--one-way"), 2, "need --prefer left or right"),
        (("--prefer", "left", "--takeover", "--dry-run"), 2, "exclude each other"),
        (("none", "--prefer", "left"), 3, "keyspace=none"),
        (("--prefer", "left", "--tag", "x"), 2, "no tag 'x'"),
    ):
        ran = command("objects", "sync", "photos", other, *options)
        assert (ran.code, ran.out, text in ran.err) == (code, "", True), ran.err


@pytest.mark.parametrize(("lost", "code"), [(0, 1), (1, 6)])
def test_what_did_not_come_over_is_told_by_the_exit_code(
    command: Command, other: str, monkeypatch: pytest.MonkeyPatch, lost: int, code: int
) -> None:
    report = objects.SyncReport(
        differences=2, lost=lost, too_long=1, too_long_names=(("o", "b", "k"),), exchanged_bytes=9
    )
    monkeypatch.setattr(objects.Keyspace, "sync", lambda *_, **__: report)
    sync = ("objects", "sync", "photos", other, "--prefer", "left")
    ran = command(*sync)
    assert (ran.code, "1 too long" in ran.out) == (code, True)
    assert ran.out.startswith("too long for the other side: bucket=b key=k tag=o\n")
    (told,) = command(*sync, "--json").values
    assert told["too_long_names"] == [{"bucket": "b", "key": "k", "tag": "o"}]
    assert set(told) == {field.name for field in dataclasses.fields(report)} | {"dry_run"}


def test_a_deep_sync_gives_lost_values_back(command: Command, other: str, folder: Path) -> None:
    command("objects", "sync", "photos", other, "--prefer", "left")
    with siltstone.open(folder) as store:
        store.flush()
    damage_values(folder, "photos", ["same"])
    sync = ("objects", "sync", "photos", other, "--prefer", "right")
    assert command(*sync).out == "both are the same\n"
    assert command("objects", "get", "photos", "b", "same").code == 6
    assert command(*sync, "--deep").out == "1 repaired\n"
    assert command("objects", "get", "photos", "b", "same").out == "same"
    (told,) = command(*sync, "--deep", "--json").values
    assert (told["repaired"], told["differences"]) == (0, 0)
