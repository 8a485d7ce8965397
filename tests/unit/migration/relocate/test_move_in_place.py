"""Stores with objects in place move elsewhere: the names may have had other bytes before."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.migration.relocate.switch import copy_storage, switch_storage
from tests.support.migration.adopted_objects import adopt
from tests.support.migration.adopted_objects import folder as folder
from tests.support.migration.backups import tmp_path as tmp_path
from tests.support.migration.moved_store import moved_settings


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--no-verify",)], ids=["with sums", "without sums"])
def test_a_name_that_comes_again_has_its_own_bytes_at_the_new_place(
    folder: Path, more: tuple[str, ...]
) -> None:
    new = moved_settings(folder, "new.yaml", folder / "elsewhere")
    kept = folder / "chunks" / "kept"
    kept.write_bytes(b"kept")
    with siltstone.open(folder) as store:
        ticket = store.open_import("kept", "b", adoption="kept")
        chunk = siltstone.ImportedChunk(name="kept", length=4, sums=None)
        store.commit_import(ticket, [siltstone.ImportOutput(segment="b", chunks=(chunk,))])
    adopt(folder, b"first!", *more)
    assert copy_storage(folder, new).copied > 0
    assert copy_storage(folder, new).copied == 0
    adopt(folder, b"second", *more)
    copy_storage(folder, new)
    assert (folder / "elsewhere" / "old" / "file").read_bytes() == b"second"
    adopt(folder, b"third!", *more)
    place = folder / "elsewhere" / "kept"
    number = place.stat().st_ino
    switch_storage(folder, new)
    assert place.stat().st_ino == number
    with siltstone.open(folder) as store:
        assert store.segment("a").read(0, 99) == b"third!"
        assert store.segment("b").read(0, 99) == b"kept"
    # Back to the old place, where the bytes are the same: no file is made again.
    files = [folder / "chunks" / "old" / "file", folder / "chunks" / "kept"]
    before = [file.stat().st_ino for file in files]
    old = folder / "old.yaml"
    (folder / "siltstone.yaml.before-switch").rename(old)
    switch_storage(folder, old)
    assert [file.stat().st_ino for file in files] == before
