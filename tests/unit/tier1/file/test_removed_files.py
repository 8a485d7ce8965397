"""Files of a log that are removed, emptied, or brought from another log by others.

What must hold: a claim and a reader see every frame up to the newest one or report the damage.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.core.errors import CorruptDataError, LogError, LogLostError
from siltstone.core.posix import PathName
from tests.support.file_log.log_world import (
    BIG,
    FILE_BYTES,
    Unsynced,
    bodies,
    claim,
    create,
    files,
    log_at,
    put,
)

COUNT = 8
"""Frames of each owner: two and a half files."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three owners that died, the last one in its third file, with a spare file after it."""
    path = tmp_path / "log"
    owner = create(path, Unsynced())
    for number in range(3):
        put(owner, *(bytes([number * COUNT + frame]) * BIG for frame in range(COUNT)))
        owner.abandon()
        if number < 2:
            owner = claim(path, Unsynced())
    assert all(file.stat().st_size == FILE_BYTES for file in files(path))
    return path


def ends(path: Path) -> list[int]:
    """The newest frames that a reader and a claim see; none if damage is reported.

    Without a later claim, a reader may show all frames except the last one.
    """
    found = []
    for look in (log_at(path, Unsynced()).open_read, lambda: claim(path, Unsynced())):
        try:
            seen = look()
            found.append(bodies(seen.read(seen.first()))[-1][0])
        except (CorruptDataError, LogLostError):
            continue
        seen.close()
    return found


def test_all_is_seen_of_a_whole_log(log: Path) -> None:
    assert ends(log) == [3 * COUNT - 1] * 2


@pytest.mark.parametrize("harm", [Path.unlink, lambda file: os.truncate(file, 0)])
@pytest.mark.parametrize("place", range(1, 10))
def test_no_newest_frame_goes_unnoticed(
    log: Path, place: int, harm: Callable[[Path], None]
) -> None:
    found = files(log)
    assert len(found) > 9
    harm(found[-place])
    assert set(ends(log)) <= {3 * COUNT - 1}


def test_the_first_file_of_the_newest_owner_is_missed(tmp_path: Path) -> None:
    owner = create(tmp_path, Unsynced())
    put(owner, b"a", b"b")
    owner.close()
    owner = claim(tmp_path, Unsynced())
    put(owner, b"c", b"d")
    owner.abandon()
    newest, spare = files(tmp_path)[-2:]
    assert newest.name.endswith("2-00000000.log")
    newest.unlink()
    with pytest.raises(CorruptDataError, match=f"the file before it is missing .*{spare.name}"):
        claim(tmp_path, Unsynced())
    with pytest.raises(CorruptDataError, match="the file before it is missing"):
        log_at(tmp_path, Unsynced()).open_read().end()


def test_an_owner_whose_files_are_all_gone_claimed_nothing(tmp_path: Path) -> None:
    owner = create(tmp_path, Unsynced())
    put(owner, b"a", b"b")
    owner.close()
    owner = claim(tmp_path, Unsynced())
    reader = log_at(tmp_path, Unsynced()).open_read()
    assert reader.epoch() == 2
    owner.abandon()
    for file in files(tmp_path)[-2:]:
        file.unlink()
    # An owner that wrote a journal in that epoch had a file; the container compares the epochs.
    assert log_at(tmp_path, Unsynced()).open_read().epoch() == 1
    assert log_at(tmp_path, Unsynced()).newest_epoch() == 2


class DyingClaimant(Unsynced):
    """Finds no room for its file, and dies after it has removed an unused one."""

    removed: str = ""

    def posix_fallocate(self, fd: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    def unlink(self, path: PathName, *, dir_fd: int | None = None) -> None:
        if self.removed:
            raise OSError(errno.EIO, "dead")
        super().unlink(path, dir_fd=dir_fd)
        if "0004-" not in str(path):  # its own file
            self.removed = str(path)


def test_a_claim_that_dies_while_it_makes_room_leaves_no_gap(log: Path) -> None:
    newest = files(log)[-1]
    spare = newest.with_name(f"{newest.name[:-12]}{int(newest.name[-12:-4]) + 1:08d}.log")
    shutil.copy(newest, spare)
    claimant = DyingClaimant()
    with pytest.raises(LogError):
        claim(log, claimant)
    assert claimant.removed == str(spare)
    assert newest.exists()
    assert ends(log)[-1] == 3 * COUNT - 1


def test_a_lost_marker_is_told_without_a_claim(log: Path) -> None:
    assert log_at(log, Unsynced()).condition().damage == ""
    marker = log / "c0" / "marker"
    os.truncate(marker, 0)
    assert log_at(log, Unsynced()).condition().damage.startswith("the marker was lost")
    marker.unlink()
    assert log_at(log, Unsynced()).condition().damage.startswith("the marker was lost")
    assert log_at(log.parent / "new", Unsynced()).condition().damage == ""
