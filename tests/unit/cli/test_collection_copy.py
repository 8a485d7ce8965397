"""The verbs ``copy`` and ``collection copy`` bring collections into another store."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone.cli.exit_codes import ExitCode
from tests.support.collections.stored_objects import paths
from tests.support.command import Command
from tests.support.stores import flip

SCHEMA = pyarrow.schema([("station", pyarrow.string()), ("gust", pyarrow.float64())])

pytestmark = pytest.mark.slow


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(siltstone.init(tmp_path / "target"))


def fill(folder: Path, *names: str, count: int = 1) -> None:
    """Make collections of so many rows."""
    rows = [{"station": f"station {number}", "gust": number} for number in range(count)]
    with siltstone.open_collections(folder) as collections:
        for name in names:
            collections.create(name, SCHEMA, key=["station"]).append(rows)


def listed(command: Command, store: str) -> list[str]:
    return command("collection", "ls", store=store).out.split()


def test_a_copy_of_a_store_has_its_segments_and_its_collections(
    command: Command, folder: Path, target: str
) -> None:
    with siltstone.open(folder) as store:
        store.create("gusts").append(b"bytes")
    fill(folder, "gusts", count=500)
    first = command("copy", str(folder), target, "--verify", "--json")
    assert first.code == 0, first.err
    found = {one["subject"]: one["status"] for one in first.values}
    assert found["collection gusts"] == "ok"
    assert [name for name in found if name.startswith("collections/")], "it was compared"
    again = command("copy", str(folder), target, "--json")
    assert {one["status"] for one in again.values} == {"same"}
    read = command("collection", "read", "gusts", "--format", "csv", store=target)
    assert len(read.out.splitlines()) == 501


def test_an_object_of_a_copy_that_is_damaged_is_seen_by_verify(
    command: Command, folder: Path, target: str
) -> None:
    siltstone.open(folder).close()
    fill(folder, "gusts", count=500)
    assert command("copy", str(folder), target).code == 0
    flip(paths(Path(target).parent, "parts")[0], 200)
    verified = command("copy", str(folder), target, "--verify")
    assert verified.code == ExitCode.DAMAGE
    assert "damaged: collections/" in verified.out


def test_collections_are_copied_by_name_or_by_prefix_or_all(
    command: Command, folder: Path, target: str
) -> None:
    fill(folder, "ages", "gusts", "gales")
    source = str(folder)
    assert command("collection", "copy", source, target, "ages").code == 0
    assert listed(command, target) == ["ages"]
    assert command("collection", "copy", source, target, "--prefix", "ga").code == 0
    assert listed(command, target) == ["ages", "gales"]
    every = command("collection", "copy", source, target)
    assert listed(command, target) == ["ages", "gales", "gusts"]
    assert "1 ok, 2 same" in every.err


def test_bookmarks_come_along_unless_they_are_not_wanted(
    command: Command, folder: Path, target: str
) -> None:
    fill(folder, "ages", "gusts")
    for name in ("ages", "gusts"):
        assert command("collection", "bookmark", "set", name, "bill").code == 0
    assert command("collection", "copy", str(folder), target, "ages").code == 0
    assert command("collection", "copy", str(folder), target, "--no-bookmarks").code == 0
    marks = {
        name: command("collection", "bookmark", "ls", name, "--json", store=target).values
        for name in ("ages", "gusts")
    }
    assert [mark["name"] for mark in marks["ages"]] == ["bill"]
    assert marks["gusts"] == []


def test_bad_input_is_told_with_the_culprit_and_a_way_out(
    command: Command, folder: Path, target: str
) -> None:
    fill(folder, "ages")
    both = command("collection", "copy", str(folder), target, "ages", "--prefix", "a")
    assert (both.code, "not both" in both.err) == (2, True)
    absent = command("collection", "copy", str(folder), target, "tides")
    assert (absent.code, "tides" in absent.err) == (ExitCode.NOT_FOUND, True)
    nowhere = command("collection", "copy", str(folder), f"{target}.not")
    assert (nowhere.code, f"{target}.not" in nowhere.err) == (2, True)
    itself = command("collection", "copy", str(folder), str(folder))
    assert (itself.code, "not copied into itself" in itself.err) == (2, True)
