"""Legacy layouts as users have them: copied without modes, with the original's books and links."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from tests.support.command import Command
from tests.support.migration.migrated_layout import (
    MANY,
    MANY_SHOWN,
    fingerprint,
    rolling,
    shown,
    written,
)

BOOKS = "_system/containers/metadata_0"


def one_chunk(segment: str, text: str) -> dict[str, str]:
    """The files of an open segment of one chunk."""
    return {f"{segment}$header": f"maxsize=9&0={segment}$offset.0&", f"{segment}$offset.0": text}


def laid(place: Path, files: dict[str, str]) -> Path:
    """Write files, also in the folders that their names contain."""
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


# --- modes that a copy lost -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", [(), ("--in-place",)], ids=["copy", "in place"])
def test_a_file_tells_what_is_sealed_in_a_copy_without_modes(
    command: Command, folder: Path, tmp_path: Path, way: tuple[str, ...]
) -> None:
    place = written(folder / "chunks" / "old", MANY)
    told = tmp_path / "sealed"
    told.write_text("b$header\nb$offset.0\n")
    before = fingerprint(place)
    assert command("migrate", "legacy", str(place), *way, "--sealed", str(told)).code == 0
    assert shown(folder) == MANY_SHOWN
    assert command("migrate", "verify", str(place), "--sealed", str(told)).code == 0
    assert fingerprint(place) == before


@pytest.mark.slow
@pytest.mark.parametrize("way", [("--dry-run",), ()], ids=["plan", "bringing"])
def test_a_key_that_is_told_to_be_sealed_and_names_no_file_is_told(
    command: Command, tmp_path: Path, way: tuple[str, ...]
) -> None:
    place = written(tmp_path / "old", MANY)
    told = tmp_path / "sealed"
    told.write_text("b$header\nold/b$offset.0\n\nc\t$header\n")
    ran = command("migrate", "legacy", str(place), *way, "--sealed", str(told))
    assert ran.code == 0
    named = [line for line in ran.err.splitlines() if "--sealed" in line]
    assert named == [
        f"named by --sealed, and no such file: {key}" for key in (r"c\t$header", "old/b$offset.0")
    ]


@pytest.mark.slow
def test_what_was_sealed_since_goes_back_with_what_is_told(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    place = written(tmp_path / "old", MANY)
    told = tmp_path / "sealed"
    told.write_text("b$header\nb$offset.0\n")
    assert command("migrate", "legacy", str(place), "--sealed", str(told)).code == 0
    with siltstone.open(folder) as store:
        store.segment("a").append(b"!")
        store.segment("a").seal()
    assert command("migrate", "rollback", str(place), "--sealed", str(told)).code == 0
    assert rolling(place).read("a") == (0, 6, True, b"abcde!")
    assert shown(folder) == {}


# --- files of a running system --------------------------------------------------------------------


@pytest.mark.slow
def test_the_books_of_the_original_are_not_missed(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    place = laid(tmp_path / "old", {**one_chunk("s/t/0", "abc"), **one_chunk(BOOKS, "books")})
    ran = command("migrate", "legacy", str(place))
    assert (ran.code, list(shown(folder))) == (0, ["s/t/0"])
    assert f"left: {BOOKS}" in ran.out
    assert command("migrate", "verify", str(place)).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("header", ["nonsense", "maxsize=9&0=lost&"])
def test_books_are_left_in_whatever_state_they_are(
    command: Command, folder: Path, tmp_path: Path, header: str
) -> None:
    """They would not be imported in either case, so nothing is missing."""
    place = laid(tmp_path / "old", {**one_chunk("s/t/0", "abc"), f"{BOOKS}$header": header})
    ran = command("migrate", "legacy", str(place))
    assert (ran.code, f"left: {BOOKS}" in ran.out, list(shown(folder))) == (0, True, ["s/t/0"])
    assert command("migrate", "verify", str(place)).code == 0


@pytest.mark.slow
def test_books_that_came_under_other_names_are_compared(command: Command, tmp_path: Path) -> None:
    place = laid(tmp_path / "old", {**one_chunk("s/t/0", "abc"), **one_chunk(BOOKS, "books")})
    assert command("migrate", "legacy", str(place), "--under", "old/").code == 0
    assert command("migrate", "verify", str(place)).code == 0
    assert command("rm", f"old/{BOOKS}").code == 0
    ran = command("migrate", "verify", str(place))
    assert (ran.code, f"missing: {BOOKS}" in ran.out) == (6, True)


@pytest.mark.slow
def test_a_reserved_name_says_how_it_can_come_in(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    name = "_system/_tables/x"
    place = laid(tmp_path / "old", one_chunk(name, "abc"))
    ran = command("migrate", "legacy", str(place))
    assert (ran.code, "--under" in ran.out, shown(folder)) == (6, True, {})
    assert command("migrate", "legacy", str(place), "--under", "old/").code == 0
    assert shown(folder) == {f"old/{name}": (0, 3, False, b"abc")}


@pytest.mark.slow
@pytest.mark.parametrize("given", ["above", "below"])
def test_a_folder_from_which_headers_name_no_files(
    command: Command, folder: Path, tmp_path: Path, given: str
) -> None:
    """All segments would get names that the original does not know."""
    files = {**one_chunk("s/t/0", "abc"), **one_chunk("s/t/1", ""), "s/t/bare": "bare"}
    place = laid(tmp_path / "up" / "old", {**files, "s/t/new$header": "maxsize=9&"})
    wrong = {"above": place.parent, "below": place / "s"}[given]
    ran = command("migrate", "legacy", str(wrong))
    assert (ran.code, ran.out) == (2, "")
    assert "headers name their files from another folder" in ran.err
    assert "named=s/t/0$offset.0" in ran.err
    assert shown(folder) == {}
    assert command("migrate", "legacy", str(place)).code == 0


@pytest.mark.slow
def test_one_segment_that_lists_files_of_another_folder_stops_no_others(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    moved = {"up/a$header": "maxsize=9&0=a$offset.0&", "up/a$offset.0": "abc"}
    place = laid(tmp_path / "old", {**one_chunk("s/t/0", "abc"), **moved})
    ran = command("migrate", "legacy", str(place))
    assert (ran.code, list(shown(folder))) == (6, ["s/t/0"])
    assert "refused: up/a: missing-last-chunk" in ran.out
