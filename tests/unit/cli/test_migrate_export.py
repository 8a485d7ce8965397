"""A repeated export into a folder that an earlier one filled: what it may say and overwrite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import siltstone
from tests.support.command import Command


@pytest.fixture
def out(command: Command, folder: Path, tmp_path: Path) -> Path:
    """An export of a segment of two chunks."""
    with siltstone.open(folder) as store:
        segment = store.create("seg")
        segment.append(b"0123456789")
        segment.flush()
        segment.append(b"abc")
    assert command("migrate", "export", str(tmp_path / "out")).code == 0
    return tmp_path / "out"


def texts(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(place.iterdir())}


def made_again(folder: Path, data: bytes) -> None:
    """Replace the segment by another one of the same name."""
    with siltstone.open(folder) as store:
        store.segment("seg").delete()
        store.create("seg").append(data[:10])
        store.segment("seg").flush()
        store.segment("seg").append(data[10:])


@pytest.mark.slow
@pytest.mark.parametrize(
    "data", [b"9876543210cba", b"0123456789cba", b"0123456789a", b"0123456789"]
)
def test_another_segment_of_the_name_is_a_conflict(
    command: Command, folder: Path, out: Path, data: bytes
) -> None:
    before = texts(out)
    made_again(folder, data)
    ran = command("migrate", "export", str(out))
    assert ran.code == 4
    assert "conflict: seg" in ran.out
    assert texts(out) == before


@pytest.mark.slow
def test_a_chunk_that_went_is_written_again(command: Command, out: Path) -> None:
    before = texts(out)
    for name in [name for name in before if not name.endswith("$header")]:
        (out / name).unlink()
        assert command("migrate", "export", str(out)).code == 0
        assert texts(out) == before


@pytest.mark.slow
def test_what_was_appended_since_comes_after_what_is_there(
    command: Command, folder: Path, out: Path
) -> None:
    before = texts(out)
    with siltstone.open(folder) as store:
        store.segment("seg").append(b"def")
    assert command("migrate", "export", str(out)).code == 0
    changed = {name: text for name, text in texts(out).items() if before[name] != text}
    assert list(changed.values()) == [b"abcdef"]


@pytest.mark.slow
def test_what_an_export_made_is_synced_as_it_stays(
    command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with siltstone.open(folder) as store:
        store.create("seg").append(b"0123456789")
        store.segment("seg").seal()
    synced: dict[int, int] = {}
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        found = os.fstat(descriptor)
        synced[found.st_ino] = found.st_mode
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    place = tmp_path / "deep" / "out"
    assert command("migrate", "export", str(place)).code == 0
    files = [path.stat() for path in place.iterdir()]
    assert [found.st_mode & 0o222 for found in files] == [0, 0]
    assert {found.st_ino: found.st_mode for found in files}.items() <= synced.items()
    # So do the folders that were made for them: the folder that names each of them was synced.
    assert {place.parent.stat().st_ino, tmp_path.stat().st_ino} <= synced.keys()
