"""A foreign file in a place of backups is no store, no turn and no generation."""

from __future__ import annotations

from pathlib import Path

import pytest

from siltstone.migration.backup.admin import collect_backups, list_backups, remove_backups
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.verify import verify_backups
from tests.support.migration.backups import tmp_path
from tests.support.stores import make_store

__all__ = ["tmp_path"]


@pytest.mark.parametrize(
    "theirs",
    [
        "2024/report.csv",
        "{upper}/x",
        "{id}/turns/README",
        "{id}/generations/7",
        "{id}/generations/README.txt",
        "{id}/generations/999999999999999999999999.old",
    ],
)
def test_a_file_of_another_program_changes_nothing(tmp_path: Path, theirs: str) -> None:
    folder, place = make_store(tmp_path / "store", containers=1), tmp_path / "backups"
    create_backup(folder, place)
    (root,) = (place / "siltstone-backup").iterdir()
    file = root.parent / theirs.format(id=root.name, upper=root.name.upper())
    file.parent.mkdir(exist_ok=True)
    file.write_text("theirs")
    assert create_backup(folder, place).backup.generation == 2
    assert [found.number for found in list_backups(place)] == [1, 2]
    assert verify_backups(place).generations == (1, 2)
    remove_backups(place, [1])
    collect_backups(place)
    assert [found.number for found in list_backups(place)] == [2]
    assert file.read_text() == "theirs"
