"""Verbs that move a store, and know nothing of its collections, say so or refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.cli.exit_codes import ExitCode
from siltstone.collections import any_collection
from siltstone.migration.relocate import collection_moves, switch
from tests.support.command import Command

COLUMNS = ("--column", "station:string", "--key", "station")
WARNING = "siltstone: warning: the collections of the store are not part of the"

pytestmark = pytest.mark.slow


def elsewhere(folder: Path) -> Path:
    """A settings file with another long-term storage."""
    (folder / "elsewhere").mkdir()
    text = (folder / "siltstone.yaml").read_text(encoding="utf-8")
    new = folder / "new.yaml"
    new.write_text(text.replace("path: ./chunks", "path: ./elsewhere"), encoding="utf-8")
    return new


def test_a_backup_of_a_container_says_that_it_has_no_collections(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    siltstone.open(folder).close()
    place = str(tmp_path / "backups")
    without = command("backup", "create", place, "--json")
    assert (without.values[0]["left_out"], without.err) == ([], "")
    assert command("collection", "create", "gusts", *COLUMNS).code == 0
    whole = command("backup", "create", place, "--json")
    assert (whole.values[0]["left_out"], whole.values[0]["collections"]) == ([], 1)
    assert whole.err == ""
    ran = command("backup", "create", place, "--container", "0", "--json", "--quiet")
    assert (ran.values[0]["left_out"], ran.values[0]["collections"]) == (["collections"], 0)
    assert f"{WARNING} backup" in ran.err


def test_a_copy_without_the_package_says_that_it_has_no_collections(
    command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(b"bytes")
    target = str(siltstone.init(tmp_path / "target"))
    assert command("collection", "create", "gusts", *COLUMNS).code == 0
    monkeypatch.setattr(any_collection, "collections_are_installed", lambda: False)
    assert f"{WARNING} copy" in command("copy", str(folder), target).err
    assert WARNING not in command("copy", str(folder), target, "a").err


def test_a_salvage_says_that_it_has_no_collections(command: Command, folder: Path) -> None:
    siltstone.open(folder).close()
    assert WARNING not in command("salvage").err
    assert command("collection", "create", "gusts", *COLUMNS).code == 0
    assert f"{WARNING} salvage" in command("salvage").err


def test_without_the_package_a_copy_of_storage_says_it_and_a_switch_is_refused(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    siltstone.open(folder).close()
    new = elsewhere(folder)
    assert command("collection", "create", "gusts", *COLUMNS).code == 0
    monkeypatch.setattr(switch, "collections_are_installed", lambda: False)
    monkeypatch.setattr(collection_moves, "collections_are_installed", lambda: False)
    copied = command("storage", "copy", str(new), "--json")
    assert copied.values[0]["left_out"] == ["collections"]
    assert f"{WARNING} copy" in copied.err
    refused = command("storage", "switch", str(new))
    assert refused.code == ExitCode.FAILED
    assert "pip install" in refused.err
    assert command("collection", "ls").out == "gusts\n"
    with siltstone.open(folder) as store:
        assert list(store.list()) == []
