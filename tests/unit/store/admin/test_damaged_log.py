"""The newest frame of a log, damaged or torn: what an open, a check and a recovery do then."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import siltstone
from siltstone.container.models.recovery_report import RecoveryState
from siltstone.store.admin.recovery import recover_store

APPENDS = [b"first " * 20, b"second " * 20, b"third " * 20]


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A store as the death of its owner leaves it, with all appends in tier 1 only."""
    place = tmp_path / "store"
    siltstone.init(place)
    with siltstone.open(place) as store:
        segment = store.create("a")
        for data in APPENDS:
            segment.append(data)
        for part in ("tier1", "chunks"):
            shutil.copytree(place / part, tmp_path / part)
    for part in ("tier1", "chunks"):
        shutil.rmtree(place / part)
        (tmp_path / part).rename(place / part)
    shutil.rmtree(place / "index")
    return place


def _change(place: Path, found: bytes, by: bytes) -> Path:
    for file in (place / "tier1" / "c0").glob("*.log"):
        content = file.read_bytes()
        if found in content:
            file.write_bytes(content.replace(found, by))
            return file
    raise AssertionError("no file of the log has these bytes")


@pytest.mark.slow
def test_a_flipped_bit_of_the_newest_append_is_an_error_and_not_a_loss(killed: Path) -> None:
    file = _change(killed, b"third third", b"third tHird")
    for read_only in (True, False):
        with pytest.raises(siltstone.CorruptDataError, match="there as a whole") as caught:
            siltstone.open(killed, read_only=read_only)
        assert str(file) in str(caught.value)
    _change(killed, b"third tHird", b"third third")
    with siltstone.open(killed) as store:
        assert store.segment("a").read(0, 999) == b"".join(APPENDS)


@pytest.mark.slow
@pytest.mark.parametrize("damaged", [1, 2])
def test_a_recovery_keeps_all_that_stands_before_a_damaged_frame(
    killed: Path, damaged: int
) -> None:
    _change(killed, APPENDS[damaged], APPENDS[damaged].upper())
    (report,) = recover_store(killed)
    assert report.state is RecoveryState.LOST
    assert "index=" in report.reason
    (report,) = recover_store(killed, accept_loss=True)
    assert report.done
    with siltstone.open(killed) as store:
        assert store.segment("a").read(0, 999) == b"".join(APPENDS[:damaged])
        assert not list(store.check())


@pytest.mark.slow
@pytest.mark.parametrize("read_only", [True, False])
def test_a_frame_of_which_the_end_is_missing_is_dropped_and_told(
    killed: Path, read_only: bool
) -> None:
    file = _change(killed, APPENDS[2], APPENDS[2])
    end = len(file.read_bytes().rstrip(b"\0"))
    with file.open("r+b") as opened:
        opened.seek(end - 40)
        opened.write(bytes(40))
    with siltstone.open(killed, read_only=read_only) as store:
        assert store.segment("a").read(0, 999) == b"".join(APPENDS[:2])
        (stats,) = store.stats()
        assert any("torn frame" in warning for warning in stats.warnings)
        assert any("torn frame" in finding.message for finding in store.check())
    with siltstone.open(killed) as store:
        store.segment("a").append(b"more")
    with siltstone.open(killed) as store:
        assert store.stats()[0].warnings == ()
