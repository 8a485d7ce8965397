"""What docs/operations.md promises for the day when tier 1 is gone, and about what may go."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import siltstone


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A closed store with flushed and unflushed bytes."""
    folder = tmp_path / "store"
    siltstone.init(folder)
    with siltstone.open(folder) as store:
        segment = store.create("a")
        segment.append(b"flushed ")
        store.flush()
        segment.append(b"and not")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("read_only", [False, True])
def test_without_tier_1_nothing_is_written_and_nothing_shown(place: Path, read_only: bool) -> None:
    shutil.rmtree(place / "tier1")
    with pytest.raises(siltstone.LogLostError):
        siltstone.open(place, read_only=read_only)


@pytest.mark.slow
def test_an_older_copy_of_tier_1_is_refused(place: Path) -> None:
    shutil.copytree(place / "tier1", place / "copy")
    with siltstone.open(place) as store:
        store.segment("a").append(b", later")
        store.flush()
    shutil.rmtree(place / "tier1")
    (place / "copy").rename(place / "tier1")
    for read_only in (False, True):
        with pytest.raises(siltstone.LogLostError):
            siltstone.open(place, read_only=read_only)


def test_the_local_index_may_go(place: Path) -> None:
    shutil.rmtree(place / "index")
    with siltstone.open(place) as store:
        assert store.segment("a").read(0, 100) == b"flushed and not"


def test_a_closed_store_can_be_copied(place: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(place / "siltstone.yaml", copy)
    for name in ("tier1", "chunks"):
        shutil.copytree(place / name, copy / name)
    with siltstone.open(copy) as store:
        assert store.segment("a").read(0, 100) == b"flushed and not"
        assert not [finding for finding in store.check() if finding.severity == "damage"]


def test_the_uuid_may_be_left_out(place: Path) -> None:
    settings = place / "siltstone.yaml"
    lines = settings.read_text(encoding="utf-8").splitlines(keepends=True)
    settings.write_text("".join(line for line in lines if not line.startswith("uuid:")), "utf-8")
    with siltstone.open(place, read_only=True) as store:
        assert store.segment("a").read(0, 100) == b"flushed and not"
