"""Objects in place that a store adopts."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.cli.main import run
from tests.support.migration.backups import tmp_path as tmp_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a new store that collects garbage at once."""
    settings = siltstone.init(tmp_path / "store", containers=2)
    with settings.open("a") as file:
        file.write("\ngarbage:\n  delay: 0s\n")
    return settings.parent


def drop(folder: Path) -> None:
    with siltstone.open(folder) as store:
        store.segment("a").delete()
        for _ in range(3):
            store.flush()
            store.collect()


def adopt(folder: Path, data: bytes, *more: str) -> None:
    file = folder / "chunks" / "old" / "file"
    if file.exists():
        drop(folder)
        assert run(["--store", str(folder), "adoption", "release", "files"]) == 0
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data)
    assert run(["--store", str(folder), "import", "a", str(file), "--in-place", *more]) == 0
