"""The verbs of ``objects`` that look at a keyspace as a whole: stat, compact, check, destroy."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from shutil import copytree

import pytest

import siltstone
from siltstone import objects
from siltstone.objects.records.keys import STATE, IndexEntry, ObjectKey, index_keys
from siltstone.objects.records.space_rows import ValueStatus
from siltstone.objects.space_names import space_names
from tests.support.command import Command
from tests.support.objects.small_segments import NAME, small_keyspace
from tests.support.stores import chunk_path, flip

NAMES = space_names(NAME)


class Terminal(io.StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


async def fill(folder: Path) -> None:
    """Objects in several value segments, of which most is not needed."""
    async with small_keyspace(folder) as (store, keyspace, space):
        for number in range(90):
            await keyspace.put("b", f"k{number % 12}", b"v" * 100, index={"f": ["t"]})
        while any(
            row.status is ValueStatus.ROLLING for row in (await space.parts.manifest.now()).rows
        ):
            await store.environment.sleep(0.005)
        await store.flush()


@pytest.fixture
def small(command: Command, folder: Path) -> Command:
    """The command, with that keyspace."""
    asyncio.run(fill(folder))
    return command


def test_what_a_keyspace_holds_is_shown(small: Command) -> None:
    (info,) = small("objects", "stat", NAME, "--json").values
    assert (info["name"], info["tags"]) == (NAME, {"log": "retain", "o": "recovr"})
    assert (info["objects"], info["index_entries"], info["value_bytes"]) == (12, 12, 1200)
    assert (info["next_sqn"], info["expired"], info["waiting"]) == (91, 0, 0)
    assert [each["records"] for each in info["segments"]] == [17] * 5 + [5]
    assert info["length"] == info["live_bytes"] + info["waste_bytes"]
    assert [each["status"] for each in info["segments"]] == ["sealed"] * 5 + ["active"]
    shown = small("objects", "stat", NAME).out
    for line in ("objects:       12, with 1,200 bytes of values", "next SQN:      91", "SEGMENT "):
        assert line in shown
    assert f"{NAMES.value_segment(1)}  sealed       17" in shown


def test_compaction_goes_on_until_nothing_is_worth_it(small: Command) -> None:
    (before,) = small("objects", "stat", NAME, "--json").values
    ran = small("objects", "compact", NAME, "--once")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{NAME}: 4 segments of ")
    ran = small("objects", "compact", NAME)
    assert (ran.code, ran.out, ran.err) == (0, "", "nothing more is worth it\n")
    (after,) = small("objects", "stat", NAME, "--json").values
    assert after["waste_bytes"] < before["waste_bytes"]
    assert (after["objects"], after["live_bytes"]) == (12, before["live_bytes"])
    assert small("objects", "check", "--deep", NAME).code == 0


def test_a_compaction_is_told_as_json(small: Command) -> None:
    (report,) = small("objects", "compact", NAME, "--json").values
    assert report["run"] == [1, 2, 3, 4]
    assert report["records"] == 68


def test_a_compaction_by_several_workers_is_told_as_by_one_process(
    small: Command, folder: Path, tmp_path: Path
) -> None:
    other = str(copytree(folder, tmp_path / "other"))
    line = ("objects", "compact", NAME, "--json")
    alone = small(*line).values
    assert small(*line, "--threads", "2", store=other).values == alone
    ran = small("objects", "compact", NAME, "--rate", "1MiB", store=other)
    assert (ran.code, ran.out, ran.err) == (0, "", "nothing more is worth it\n")
    assert small("objects", "check", "--deep", NAME, store=other).code == 0
    ran = small("objects", "compact", NAME, "--master", "local[2]")
    assert (ran.code, "are for --on spark: add it" in ran.err) == (2, True)


def test_a_whole_keyspace_has_no_findings(small: Command) -> None:
    ran = small("objects", "check")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "everything is there; --deep also reads it\n"
    assert small("objects", "check", "--deep").err == "everything is as it was written\n"
    assert small("objects", "check", NAME, "--json").values == [
        {"found": {"damage": 0, "garbage": 0, "warning": 0}, "deep": False}
    ]
    assert small("objects", "check", "--quiet").err == ""
    assert small("objects", "check", NAME, "none").code == 3
    ran = small("objects", "check", "--threads", "2")
    assert (ran.code, "are for --deep: add it" in ran.err) == (2, True)


def test_damage_is_told_with_the_object_and_ends_with_6(small: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        segment = store.segment(NAMES.value_segment(6), force=True)
        (chunk,) = segment.chunks()
        table = store.table(NAMES.ledger, force=True)
        (row,) = index_keys(ObjectKey(b"o", b"b", b"k3"), [IndexEntry(b"f", b"t")])
        table.remove(row)
    flip(chunk_path(folder, chunk.chunk), chunk.chunk_offset + 30)
    ran = small("objects", "check")
    assert ran.code == 6
    where = f"keyspace={NAME} tag=o bucket=b key=k3"
    assert ran.out == f"damage: {where}: it is not found under its term 't' of 'f'\n"
    assert ran.err == "found 1 damage\n"
    ran = small("objects", "check", "--deep", "--json")
    assert ran.code == 6
    assert ran.values[-1]["found"]["damage"] >= 2
    on_threads = small("objects", "check", "--deep", "--json", "--threads", "2", "--rate", "1GiB")
    assert (on_threads.code, on_threads.values) == (6, ran.values)
    assert all(set(each) == {"severity", "where", "message"} for each in ran.values[:-1])


def test_a_keyspace_that_does_not_open_is_checked_and_destroyed(
    small: Command, folder: Path
) -> None:
    with siltstone.open(folder) as store:
        store.table(NAMES.ledger, force=True).remove(STATE)
    ran = small("objects", "stat", NAME)
    assert (ran.code, "check --deep" in ran.err) == (6, True)
    assert small("objects", "check").code == 6
    ran = small("objects", "destroy", NAME, "--dry-run")
    assert (ran.code, ran.out.endswith(", damaged\n")) == (0, True)
    assert small("objects", "destroy", NAME, "--yes").code == 0
    assert small("objects", "ls").out == ""


def test_a_destroy_asks_first(small: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = small("objects", "destroy", NAME, "--dry-run")
    assert ran.out.startswith(f"would destroy {NAME}: 12 objects in 6 segments of ")
    (told,) = small("objects", "destroy", NAME, "--dry-run", "--json").values
    assert (told["would_destroy"], told["objects"], told["segments"]) == (NAME, 12, 6)
    ran = small("objects", "destroy", NAME)
    assert (ran.code, "give --yes" in ran.err) == (2, True)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    ran = small("objects", "destroy", NAME)
    assert (ran.code, f"destroy {NAME}, 12 objects in 6 segments" in ran.err) == (1, True)
    assert small("objects", "ls").out == f"{NAME}\n"
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert small("objects", "destroy", NAME, "--json").values == [
        {"destroyed": NAME, "segments": 6, "length": told["length"]}
    ]
    assert small("objects", "ls").out == ""
    ran = small("objects", "destroy", NAME, "--yes")
    assert (ran.code, f"keyspace={NAME} (objects ls lists them" in ran.err) == (3, True)


def test_an_interrupted_destroy_is_ended_by_the_next_one(small: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        store.table(NAMES.ledger, force=True).remove_range()
    assert small("objects", "ls").out == ""
    assert small("objects", "stat", NAME).code == 3
    ran = small("objects", "destroy", NAME, "--dry-run")
    assert ran.out.endswith(", of which the rows are gone\n")
    (told,) = small("objects", "destroy", NAME, "--yes", "--json").values
    assert told["segments"] == 6
    with siltstone.open(folder) as store:
        assert list(store.list("objects/")) == []
        assert list(objects.names(store)) == []


def test_a_damaged_segment_stays_and_is_told_until_its_loss_is_accepted(
    small: Command, folder: Path
) -> None:
    async def one_of_many() -> None:
        async with small_keyspace(folder) as (store, keyspace, space):
            for number in range(12):
                await keyspace.delete("b", f"k{number}")
            await keyspace.put("b", "kept", b"this one is needed")
            for size in (300_000, 100):  # the footer of its segment is in another block
                await keyspace.put("b", "often", bytes(size))
            while any(
                row.status is ValueStatus.ROLLING for row in (await space.parts.manifest.now()).rows
            ):
                await store.environment.sleep(0.005)
            await store.flush()

    asyncio.run(one_of_many())
    with siltstone.open(folder) as store:
        for info in store.list(NAMES.values):
            segment = store.segment(info.name)
            at = segment.read(0, info.length).find(b"this one is needed")
            if at >= 0:
                break
        chunk = next(one for one in segment.chunks() if at < one.start + one.length)
    flip(chunk_path(folder, chunk.chunk), chunk.chunk_offset + at - chunk.start)
    number = int(segment.name[-8:])
    ran = small("objects", "compact", NAME)
    assert (ran.code, f"value segment {number} of {NAME} is damaged" in ran.err) == (6, True)
    assert "--accept-loss drops what is lost" in ran.err
    ran = small("objects", "compact", NAME, "--accept-loss")
    assert (ran.code, "dropped bucket=b key=kept sqn=103" in ran.out) == (0, True)
    assert small("objects", "get", NAME, "b", "kept").code == 3
    assert small("objects", "check", "--deep").code == 0
