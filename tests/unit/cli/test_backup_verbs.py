"""The verbs of ``backup`` and ``storage``, and ``copy``."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone.cli.exit_codes import ExitCode
from tests.support.command import Command


def fill(folder: Path) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(b"flushed")
        store.flush()
        store.segment("a").append(b" and not")


@pytest.mark.slow
def test_backups_are_made_listed_checked_restored_and_removed(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    fill(folder)
    place, new = str(tmp_path / "backups"), str(tmp_path / "new")
    made = command("backup", "create", place, "--rate", "1GiB", "--threads", "2")
    assert made.code == 0
    assert "generation 1: copied 1 fragment of chunks, 7 bytes" in made.out
    (again,) = command("backup", "create", place, "--json").values
    assert (again["generation"], again["copied_fragments"], again["chunks"]) == (2, 0, 1)
    assert again["containers"] == [0, 1]
    listed = command("backup", "list", place)
    assert [line.split()[0] for line in listed.out.splitlines()] == ["GENERATION", "1", "2"]
    assert command("backup", "list", place, "--json").values[1]["segments"] == 1
    checked = command("backup", "verify", place, "2")
    assert (checked.code, checked.out) == (0, "")
    assert "1 generation," in checked.err
    restored = command("backup", "restore", place, new, "--generation", "1")
    assert restored.out == f"made a store of generation 1: {new}/siltstone.yaml\n"
    assert command("cat", "a", store=new).out == "flushed and not"
    assert command("backup", "restore", place, new).code == ExitCode.CONFLICT
    chunk = next((tmp_path / "backups").rglob("*.0-7"))
    chunk.write_bytes(b"damaged")
    checked = command("backup", "verify", place)
    assert checked.code == ExitCode.DAMAGE
    assert checked.out.startswith("damaged: siltstone-backup/")
    assert "generation 1, 2" in checked.out
    failed = command("backup", "restore", place, str(tmp_path / "other"))
    assert (failed.code, failed.out) == (ExitCode.DAMAGE, "")
    assert chunk.name in failed.err
    assert command("backup", "remove", place, "1", "2").code == 0
    assert command("backup", "remove", place, "1").code == ExitCode.USAGE
    assert "would delete" in command("backup", "gc", place, "--dry-run").out
    assert command("backup", "gc", place, "--json").values[0]["objects"] > 3
    assert not list((tmp_path / "backups").rglob("*.0-7"))


@pytest.mark.slow
def test_a_damaged_store_makes_a_backup_only_if_that_is_wanted(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    fill(folder)
    place = str(tmp_path / "backups")
    next((folder / "chunks" / "data").rglob("*.chunk")).unlink()
    failed = command("backup", "create", place)
    assert failed.code == ExitCode.DAMAGE
    assert "1 chunk of the store cannot be read" in failed.err
    made = command("backup", "create", place, "--allow-missing")
    assert made.code == ExitCode.DAMAGE
    assert "missing: data/" in made.out
    assert command("backup", "list", place).code == 0
    assert command("backup", "restore", place, str(tmp_path / "new")).code == ExitCode.FAILED
    for wrong in (["--rate", "0"], ["--rate", "much"], ["--container", "7"]):
        assert command("backup", "create", place, *wrong).code == ExitCode.USAGE


@pytest.mark.slow
def test_a_restore_says_that_its_backup_lacks_collections(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    with siltstone.open_collections(folder) as collections:
        collections.create("gusts", pyarrow.schema([("k", pyarrow.int64())]), key=["k"])
    place, old, new = (str(tmp_path / name) for name in ("backups", "old", "new"))
    made = command("backup", "create", place, "--container", "0", "--json")
    assert made.values[0]["left_out"] == ["collections"]
    assert "not part of the backup" in made.err
    assert command("backup", "create", place, "--json").values[0]["left_out"] == []
    listed = command("backup", "list", place, "--json").values
    assert [one["left_out"] for one in listed] == [["collections"], []]
    lacking = command("--quiet", "backup", "restore", place, old, "--generation", "1", "--json")
    assert (lacking.code, lacking.values[0]["left_out"]) == (0, ["collections"])
    assert "the backup lacks collections of its store" in lacking.err
    whole = command("--quiet", "backup", "restore", place, new, "--json")
    assert (whole.code, whole.values[0]["left_out"], whole.err) == (0, [], "")


@pytest.mark.slow
def test_what_a_backup_lacks_is_restored_only_if_that_is_wanted(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    fill(folder)
    place, new, log = str(tmp_path / "backups"), str(tmp_path / "new"), tmp_path / "log"
    assert command("backup", "create", place).code == 0
    next((tmp_path / "backups").rglob("*.chunk.*")).unlink()
    line = ["backup", "restore", place, new, "--log-option", f"path={log}"]
    assert command(*line).code == ExitCode.DAMAGE
    made = command(*line, "--allow-missing")
    assert (made.code, made.out.count("missing: data/")) == (ExitCode.DAMAGE, 1)
    assert list(log.iterdir())


@pytest.mark.slow
def test_segments_are_copied_and_compared(command: Command, folder: Path, tmp_path: Path) -> None:
    fill(folder)
    target = siltstone.init(tmp_path / "target")
    made = command("copy", str(folder), str(target), "--verify", "--rate", "1GiB")
    assert made.code == 0
    assert "copy: 1 ok" in made.err
    assert "verify: 1 ok" in made.err
    assert command("cat", "a", store=str(target)).out == "flushed and not"
    assert "copy: 1 same" in command("copy", str(folder), str(target)).err
    assert command("append", "a", str(target), store=str(target)).code == 0
    assert command("copy", str(folder), str(target)).code == ExitCode.CONFLICT
    (chunk,) = (folder / "chunks" / "data").rglob("*.chunk")
    chunk.chmod(0o644)
    chunk.write_bytes(b"damaged")
    made = command("copy", str(folder), str(siltstone.init(tmp_path / "other")), "--verify")
    assert made.code == ExitCode.DAMAGE
    assert made.out.startswith("unreadable: a: ")


@pytest.mark.slow
def test_a_store_is_switched_to_another_place(command: Command, folder: Path) -> None:
    fill(folder)
    (folder / "elsewhere").mkdir()
    text = (folder / "siltstone.yaml").read_text(encoding="utf-8")
    new = folder / "new.yaml"
    new.write_text(text.replace("path: ./chunks", "path: ./elsewhere"), encoding="utf-8")
    (copied,) = command("storage", "copy", str(new), "--rate", "1GiB", "--json").values
    assert copied["copied"] == copied["objects"]
    switched = command("storage", "switch", str(new))
    assert switched.code == 0
    assert switched.out.endswith(f"switched: {folder}/siltstone.yaml\n")
    assert command("cat", "a").out == "flushed and not"
    repeated = command("storage", "switch", str(new))
    assert (repeated.code, repeated.out.splitlines()[-1]) == (
        0,
        f"switched: {folder}/siltstone.yaml",
    )
    assert command("cat", "a").out == "flushed and not"


def test_an_unknown_binding_of_a_restore_is_named(command: Command, tmp_path: Path) -> None:
    ran = command("backup", "restore", str(tmp_path), str(tmp_path / "new"), "--binding", "nope")
    assert ran.code == 2
    assert "no plugin is called 'nope'" in ran.err
