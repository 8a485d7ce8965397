"""A folder in place of a file, or a file in place of a folder, by a wrong mount or a wrong copy.

What must hold: the message names it, only whole data is shown, and a recovery continues.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import siltstone
from siltstone.container.models.recovery_report import RecoveryState
from siltstone.store.admin.doctor import diagnose
from siltstone.store.admin.recovery import recover_store


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store with flushed bytes, and with bytes that only tier 1 has."""
    made = tmp_path / "store"
    siltstone.init(made)
    with siltstone.open(made) as store:
        segment = store.create("a")
        segment.append(b"flushed ")
        store.flush()
        segment.append(b"in tier 1")
    return made


def _read(place: Path, *, read_only: bool = False) -> bytes:
    with siltstone.open(place, read_only=read_only) as store:
        return store.segment("a").read(0, 99)


def _folder_for(path: Path) -> Path:
    path.unlink()
    path.mkdir()
    return path


def _failed(place: Path) -> list[str]:
    return [probe.detail for probe in diagnose(place) if probe.outcome == "failed"]


@pytest.mark.slow
@pytest.mark.parametrize("which", ["frames", "spare", "marker"])
def test_a_folder_for_a_file_of_tier_1_is_damage(place: Path, which: str) -> None:
    log = place / "tier1" / "c0"
    files = sorted(log.glob("e*.log"))
    path = _folder_for({"frames": files[0], "spare": files[-1], "marker": log / "marker"}[which])
    for read_only in (True, False):
        if which == "marker" and read_only:
            assert _read(place, read_only=True) == b"flushed in tier 1"
            continue
        with pytest.raises(siltstone.CorruptDataError, match="a folder is in the place") as caught:
            _read(place, read_only=read_only)
        assert str(path) in str(caught.value)
    assert any(str(path) in detail for detail in _failed(place))
    (report,) = recover_store(place)
    assert report.state is RecoveryState.LOST
    assert str(path) in report.reason
    (report,) = recover_store(place, accept_loss=True)
    assert report.done
    # Frames in another file are recovered.
    assert _read(place) == (b"flushed " if which == "frames" else b"flushed in tier 1")


@pytest.mark.slow
def test_a_folder_for_the_lock_of_tier_1_is_named(place: Path) -> None:
    path = _folder_for(place / "tier1" / "c0" / "lock")
    assert _read(place, read_only=True) == b"flushed in tier 1"
    with pytest.raises(siltstone.CorruptDataError, match="a folder is in the place") as caught:
        _read(place)
    assert str(path) in str(caught.value)
    assert any(f"remove it: {path}" in detail for detail in _failed(place))
    path.rmdir()
    assert _read(place) == b"flushed in tier 1"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tier1", "tier1/c0"])
def test_a_file_for_a_folder_of_tier_1_is_named(place: Path, name: str) -> None:
    path = place / name
    kept = path.rename(place / "kept")
    path.write_bytes(b"")
    for read_only in (True, False):
        with pytest.raises(siltstone.LogLostError, match="there is no folder") as caught:
            _read(place, read_only=read_only)
        assert f"path={place / 'tier1' / 'c0'}" in str(caught.value)
    path.unlink()
    kept.rename(path)
    assert _read(place) == b"flushed in tier 1"


@pytest.mark.slow
def test_a_file_for_the_folder_of_a_log_is_put_aside_by_a_recovery(place: Path) -> None:
    shutil.rmtree(place / "tier1" / "c0")
    (place / "tier1" / "c0").write_bytes(b"somebody's")
    (report,) = recover_store(place, accept_loss=True)
    assert report.set_aside is not None
    assert Path(report.set_aside).read_bytes() == b"somebody's"
    assert _read(place) == b"flushed "


@pytest.mark.slow
def test_a_folder_for_the_name_of_the_store_is_named_by_a_recovery(place: Path) -> None:
    path = _folder_for(place / "chunks" / "system" / "store")
    with pytest.raises(siltstone.StoreNotFoundError, match="system/store"):
        _read(place)
    with pytest.raises(siltstone.StoreExistsError, match="move it away") as caught:
        recover_store(place, accept_loss=True)
    assert str(path) in str(caught.value)
    path.rmdir()
    recover_store(place, accept_loss=True)
    assert _read(place) == b"flushed in tier 1"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["CURRENT", "LOCK", "rocksdict-config.json", "*.sst", "MANIFEST-*"]
)
def test_a_folder_in_the_local_index_is_no_matter(place: Path, name: str) -> None:
    _folder_for(next((place / "index" / "c0").glob(name)))
    assert _read(place) == b"flushed in tier 1"
    assert _read(place) == b"flushed in tier 1"
