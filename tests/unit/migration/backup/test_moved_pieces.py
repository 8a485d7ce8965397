"""Bytes are written while others are still read: damage in transit makes no whole object."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.core.constants import MIB
from siltstone.core.errors import CorruptDataError
from siltstone.core.hooks import load_chunk_storage
from siltstone.core.storage.wrapper import WrappedChunkStorage
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.restore import restore_backup
from siltstone.migration.backup.verify import verify_backups
from siltstone.store.admin import place_settings
from tests.support.migration.backups import content_of, damage, files, noise, tmp_path
from tests.support.stores import make_store

__all__ = ["tmp_path"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a chunk of several pieces."""
    folder = make_store(tmp_path / "store", chunk_bytes=8 * MIB)
    with siltstone.open(folder) as store:
        segment = store.create("s")
        segment.append(noise(3 * MIB))
        segment.append(noise(2 * MIB))
        store.flush()
    return folder


def _chunk(folder: Path) -> Path:
    return max((folder / "chunks").rglob("*"), key=lambda path: path.stat().st_size)


@pytest.mark.slow
def test_damage_after_the_copied_part_leaves_nothing_in_the_place(
    folder: Path, tmp_path: Path
) -> None:
    damage(_chunk(folder), 4 * MIB)
    with pytest.raises(CorruptDataError):
        create_backup(folder, tmp_path / "place")
    assert not [name for name in files(tmp_path / "place") if "/chunks/" in str(name)]


@pytest.mark.slow
def test_damage_after_the_restored_part_makes_no_store(folder: Path, tmp_path: Path) -> None:
    create_backup(folder, tmp_path / "place")
    damage(_large(tmp_path / "place"), 4 * MIB)
    with pytest.raises(CorruptDataError):
        restore_backup(tmp_path / "place", tmp_path / "new")
    assert not (tmp_path / "new" / "siltstone.yaml").exists()
    lengths = [path.stat().st_size for path in (tmp_path / "new" / "chunks").rglob("*")]
    assert max(lengths) < 5 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("position", [0, 4 * MIB + 5])
def test_a_byte_that_changes_on_its_way_from_the_place_is_read_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    create_backup(folder, tmp_path / "place")
    name = str(_large(tmp_path / "place").relative_to(tmp_path / "place"))
    reads: list[int] = []

    class Noisy(WrappedChunkStorage):
        def read_into(self, read: str, offset: int, buffer: memoryview | bytearray) -> int:
            count = super().read_into(read, offset, buffer)
            if read == name and offset <= position < offset + count:
                reads.append(offset)
                if len(reads) == 1:
                    buffer[position - offset] ^= 1
            return count

    with monkeypatch.context() as patch:
        patch.setattr(
            place_settings, "load_chunk_storage", lambda *args: Noisy(load_chunk_storage(*args))
        )
        restore_backup(tmp_path / "place", tmp_path / "new")
        reads.clear()
        report = verify_backups(tmp_path / "place")
    assert content_of(tmp_path / "new") == content_of(folder)
    assert not report.findings
    assert len(reads) == 2


def _large(place: Path) -> Path:
    return max(place.rglob("*"), key=lambda path: path.stat().st_size)
