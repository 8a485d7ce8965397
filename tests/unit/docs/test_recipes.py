"""The recipes of docs/operations.md: each one is run, command by command, as the page has it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import siltstone
from siltstone.cli.main import run

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
RECIPES = {
    title: [line.split()[1:] for line in commands.splitlines()]
    for title, commands in re.findall(
        r"(?ms)^### ([^\n]+)\n(?:(?!^#).)*?^```sh\n(.*?)```", PAGE.partition("## Recipes")[2]
    )
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A closed store with flushed and unflushed bytes."""
    folder = tmp_path / "store"
    siltstone.init(folder)
    with siltstone.open(folder) as store:
        segment = store.create("a")
        segment.append(b"flushed")
        store.flush()
        segment.append(b", and not")
    return folder


@pytest.fixture
def follow(capfd: pytest.CaptureFixture[str]) -> Callable[[str, Path], list[tuple[int, str]]]:
    """Run the commands of a recipe; return exit code and output of each."""

    def all_of(title: str, place: Path) -> list[tuple[int, str]]:
        ran = []
        for command in RECIPES[title]:
            code = run(["--store", str(place), *command])
            captured = capfd.readouterr()
            ran.append((code, captured.out + captured.err))
        return ran

    return all_of


Follow = Callable[[str, Path], list[tuple[int, str]]]


def content(place: Path) -> bytes:
    with siltstone.open(place, read_only=True) as store:
        return store.segment("a").read(0, 100)


def test_a_lost_disk(place: Path, follow: Follow) -> None:
    shutil.rmtree(place / "tier1")
    look, done, check = follow("The disk of tier 1 is lost", place)
    assert look[0] == 6
    assert "segment a: bytes 0 to 7" in look[1]
    assert (done[0], check[0]) == (0, 0)
    assert content(place) == b"flushed"


def test_an_older_copy(place: Path, follow: Follow) -> None:
    shutil.copytree(place / "tier1", place / "copy")
    with siltstone.open(place) as store:
        store.create("b")
        store.segment("a").append(b", later")
        store.flush()
        store.segment("a").append(b", and lost")
    shutil.rmtree(place / "tier1")
    (place / "copy").rename(place / "tier1")
    look, done, check = follow("The log was restored from an older copy", place)
    assert (look[0], done[0], check[0]) == (0, 0, 0)
    assert "c0-aside-1" in done[1]
    assert (place / "tier1" / "c0-aside-1" / "marker").exists()
    assert content(place) == b"flushed, and not, later"


def test_a_damaged_checkpoint(place: Path, follow: Follow) -> None:
    newest = max((place / "chunks" / "system" / "c0").glob("e*"))
    damaged = newest / f"journal-{2:020d}"
    damaged.chmod(0o600)
    damaged.write_bytes(damaged.read_bytes()[:-3])
    before, flushed, after = follow("A journal file or an index file is damaged", place)
    assert (before[0], flushed[0], after[0]) == (0, 0, 0)
    assert f"{damaged.name}" in before[1]
    assert "warning" in before[1]
    assert "warning" not in after[1]


def test_a_moved_store(place: Path, follow: Follow) -> None:
    moved = place.with_name("elsewhere")
    place.rename(moved)
    shutil.rmtree(moved / "index")
    assert [code for code, _ in follow("The store has moved", moved)] == [0, 0]
    assert content(moved) == b"flushed, and not"


def test_two_owners(place: Path, follow: Follow) -> None:
    with siltstone.open(place) as store:
        refused, taken = follow("Two owners", place)
        assert refused[0] == 5
        assert "pid=" in refused[1]
        assert taken[0] == 0
        with pytest.raises(siltstone.FencedError):
            store.segment("a").append(b"x")


def test_every_recipe_is_tested() -> None:
    assert set(RECIPES) == {
        "The disk of tier 1 is lost",
        "The log was restored from an older copy",
        "A journal file or an index file is damaged",
        "The store has moved",
        "Two owners",
    }
