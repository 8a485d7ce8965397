"""The verbs of ``gc``, against a store on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import siltstone
from tests.support.command import Command


def at_once(folder: Path) -> None:
    """Let garbage be deleted without a delay."""
    settings = folder / "siltstone.yaml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(f"{text}\ngarbage:\n  delay: 0s\n", encoding="utf-8")


@pytest.mark.slow
def test_garbage_is_told_and_deleted(command: Command, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(bytes(100_000))
    command("append", "a", str(file), "--create")
    command("flush")
    command("rm", "a")
    told = command("gc", "status", "--json").values
    assert [value["container"] for value in told] == [0, 1]
    assert sum(value["due"] + value["delayed"] for value in told) >= 1
    assert command("gc", "status").out.splitlines()[0].split()[0] == "CONTAINER"
    assert command("gc", "run", "--json").values == [{"deleted": 0}]
    assert sum(v["delayed"] for v in command("gc", "status", "--json").values) == 1
    at_once(folder)
    assert command("gc", "replay", "--json").values == [{"replayed": 0}]


@pytest.mark.slow
def test_without_a_delay_one_run_is_enough(command: Command, folder: Path, tmp_path: Path) -> None:
    at_once(folder)
    file = tmp_path / "input"
    file.write_bytes(bytes(100_000))
    command("append", "a", str(file), "--create")
    command("flush")
    command("rm", "a")
    command("gc", "run")
    assert not list((folder / "chunks" / "data").rglob("*.chunk"))


@pytest.mark.slow
def test_a_sweep_lists_first_and_deletes_on_request(command: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        segment = store.create("a")
        segment.append(b"kept")
        store.flush()
        segment.append(b"later")
        store.flush()
    (kept,) = (folder / "chunks" / "data").rglob("*.chunk")
    assert command("gc", "sweep").err == "nothing is there that nothing names\n"
    forgotten = kept.with_name(kept.name[:-7] + "3.chunk")
    forgotten.write_bytes(b"forgotten")
    young = kept.with_name(kept.name[:-7] + "4.chunk")
    young.write_bytes(b"young")
    os.utime(forgotten, (1e9, 1e9))
    foreign = kept.with_name("readme")
    foreign.write_bytes(b"x")
    command("append", "a", "/dev/null")
    found = {Path(value["name"]).name: value for value in command("gc", "sweep", "--json").values}
    assert {name: value["kind"] for name, value in found.items()} == {
        forgotten.name: "garbage",
        young.name: "young",
        "readme": "foreign",
    }
    assert forgotten.exists()
    *_, last = command("gc", "sweep", "--delete", "--all", "--json").values
    assert last == {"deleted": 1}
    assert not forgotten.exists()
    assert kept.exists()
    assert young.exists()
    assert foreign.exists()
    assert command("cat", "a").out == "keptlater"
    assert command("check").code == 0
    assert command("gc", "sweep", "--takeover").code == 2
