"""Backups of objects in place: one name may stand for other bytes at another time."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.cli.main import run
from siltstone.migration.backup.admin import collect_backups, remove_backups
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.place import BackupPlace
from siltstone.migration.backup.restore import restore_backup
from siltstone.migration.backup.verify import verify_backups
from tests.support.migration.adopted_objects import adopt, drop
from tests.support.migration.adopted_objects import folder as folder
from tests.support.migration.backups import Died, damage
from tests.support.migration.backups import tmp_path as tmp_path

CONTENTS = (b"first!", b"second", b"a third one")


def write_on(folder: Path, data: bytes) -> None:
    """Let the store make a segment again in a legacy layout, where files are named by offsets."""
    layout = folder / "chunks" / "old"
    if layout.exists():
        drop(folder)
    else:
        layout.mkdir()
        (layout / "b$header").write_text("maxsize=99&")
        command = ["--store", str(folder), "migrate", "legacy", str(layout), "--mode", "code_only"]
        assert run(command) == 0
    with siltstone.open(folder) as store:
        store.create("a").append(data)
        store.flush()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["with sums", "without sums", "code_only"])
def test_a_name_that_comes_again_has_bytes_of_its_own_in_each_generation(
    folder: Path, tmp_path: Path, way: str
) -> None:
    place = tmp_path / "place"
    for data in CONTENTS:
        if way == "code_only":
            write_on(folder, data)
        else:
            adopt(folder, data, *(["--no-verify"] if way == "without sums" else []))
        assert create_backup(folder, place).copied_bytes == len(data)
        assert create_backup(folder, place).copied_bytes == 0
    remove_backups(place, [2, 3, 4])
    assert collect_backups(place).size >= len(CONTENTS[1])
    assert verify_backups(place).findings == ()
    for generation, data in ((1, CONTENTS[0]), (5, CONTENTS[2])):
        restored = tmp_path / f"{generation}"
        restore_backup(place, restored, generation)
        with siltstone.open(restored) as store:
            assert store.segment("a").read(0, 99) == data


@pytest.mark.slow
def test_what_is_left_of_an_object_without_sums_is_copied_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise Died

    place = tmp_path / "place"
    adopt(folder, CONTENTS[0], "--no-verify")
    with monkeypatch.context() as patch:
        patch.setattr(BackupPlace, "state", die)
        with pytest.raises(Died):
            create_backup(folder, place)
    damage(next(place.rglob("file.c*")), 3)
    report = create_backup(folder, place)
    assert (report.found_fragments, report.copied_fragments) == (0, 1)
    restore_backup(place, tmp_path / "new")
    with siltstone.open(tmp_path / "new") as store:
        assert store.segment("a").read(0, 99) == CONTENTS[0]
