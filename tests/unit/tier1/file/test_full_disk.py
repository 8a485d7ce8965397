"""The disk is full.

What may happen: no more room at any preallocation. What must hold: nothing is lost or poisoned,
frames that help to free room continue in the file that was reserved for them, and a full disk can
be claimed as long as it has log files that were never used.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.core.constants import KIB
from siltstone.core.errors import FencedError, StorageFullError
from siltstone.core.records.frame import OVERHEAD_BYTES
from siltstone.core.records.log_file_header import FRAMES_OFFSET
from siltstone.testing.faults.file_layer import Call, FileLayer, FullDisk
from siltstone.tier1.file.fenced_log import FileFencedLog
from tests.support.file_log.log_world import (
    BIG,
    FILE_BYTES,
    LINEAGE,
    bodies,
    claim,
    create,
    files,
    log_at,
    put,
    shown,
)

PLENTY = 10**9


def _until_full(append: Callable[[bytes], int]) -> list[bytes]:
    written: list[bytes] = []
    for number in range(100):
        body = (b"%d " % number).ljust(BIG, b".")
        try:
            append(body)
        except StorageFullError:
            return written
        written.append(body)
    raise AssertionError("the disk was never full")


def test_frames_of_the_reserve_continue_when_others_do_not(tmp_path: Path) -> None:
    disk = FullDisk(room=PLENTY)
    log = create(tmp_path, disk)
    disk.room = 0
    written = _until_full(lambda body: log.append([body], count=1))
    # The first file is full, the spare one is untouched; smaller frames still fit.
    assert len(written) == 2
    put(log, b"small")
    written.append(b"small")
    more = _until_full(lambda body: log.append([body], count=1, reserve=True))
    assert len(more) == 2
    # Now the reserve is in use, so no other frame is accepted, however small.
    with pytest.raises(StorageFullError):
        put(log, b"small")
    log.append([b"control"], count=1, reserve=True)
    assert shown(tmp_path) == [*written, *more, b"control"]

    log.truncate(3)
    disk.room = 2 * FILE_BYTES
    put(log, b"y" * BIG)
    assert shown(tmp_path) == [*more, b"control", b"y" * BIG]
    log.close()
    again = claim(tmp_path)
    assert bodies(again.read(again.first()))[-1] == b"y" * BIG
    again.abandon()


@pytest.mark.parametrize("number", range(1, 8))
def test_every_preallocation_may_fail(tmp_path: Path, number: int) -> None:
    calls = FileLayer()
    log = create(tmp_path, calls)
    calls.fail_call("posix_fallocate", number, error=errno.ENOSPC)
    written: list[bytes] = []
    refused = 0
    for body in [bytes([n]) * BIG for n in range(12)]:
        try:
            put(log, body)
        except StorageFullError:
            refused += 1
            put(log, body)
        written.append(body)
    assert refused == (1 if number <= 5 else 0)
    assert shown(tmp_path) == written
    log.close()
    again = claim(tmp_path)
    assert bodies(again.read(0)) == written
    again.abandon()


def test_a_full_disk_leaves_the_older_owner_alone(tmp_path: Path) -> None:
    old = create(tmp_path)
    put(old, b"a")
    before = sorted(path.name for path in (tmp_path / "c0").iterdir())
    with pytest.raises(StorageFullError):
        claim(tmp_path, FullDisk(room=0))
    assert sorted(path.name for path in (tmp_path / "c0").iterdir()) == before
    put(old, b"b")
    assert shown(tmp_path) == [b"a", b"b"]
    old.abandon()


def test_a_full_disk_is_claimed_in_the_room_of_a_file_that_was_never_used(tmp_path: Path) -> None:
    class Disk(FullDisk):
        """Frees the room of unlinked files."""

        def unlink(self, path: str | bytes, *, dir_fd: int | None = None) -> None:
            self.room += self.inner.stat(path, dir_fd=dir_fd).st_size
            super().unlink(path, dir_fd=dir_fd)

    old = create(tmp_path)
    put(old, b"a", b"b" * BIG, b"c" * BIG)
    old.abandon()
    assert len(files(tmp_path)) == 2
    disk = Disk(room=1)
    new = claim(tmp_path, disk, takeover=False)
    assert len(files(tmp_path)) == 2
    assert bodies(new.read(0)) == [b"a", b"b" * BIG, b"c" * BIG]
    with pytest.raises(StorageFullError):
        put(new, b"user")
    new.append([b"control"], count=1, reserve=True)
    new.truncate(3)
    disk.room = FILE_BYTES
    put(new, b"user")
    assert shown(tmp_path) == [b"control", b"user"]
    new.abandon()


def test_a_close_leaves_the_reserve_to_the_next_owner(tmp_path: Path) -> None:
    disk = FullDisk(room=PLENTY)
    old = create(tmp_path, disk)
    disk.room = 0
    body = b"." * (FILE_BYTES - FRAMES_OFFSET - 2 * OVERHEAD_BYTES + 1)
    put(old, body)
    old.close()
    assert files(tmp_path)[1].read_bytes() == bytes(FILE_BYTES)
    new = claim(tmp_path)
    assert bodies(new.read(0)) == [body]
    new.abandon()


@pytest.mark.parametrize("room_kib", [40, 16])
def test_a_full_disk_is_claimed_with_a_smaller_file_after_a_used_reserve(
    tmp_path: Path, room_kib: int
) -> None:
    old = log_at(tmp_path, file_bytes=64 * KIB)
    old.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="first")
    old.abandon()
    # No unused file is left.
    for path in files(tmp_path)[1:]:
        path.unlink()
    disk = FullDisk(room=room_kib * KIB)
    new = log_at(tmp_path, disk, file_bytes=64 * KIB)
    new.claim(lineage=LINEAGE, new=False, above=0, takeover=False, owner="next")
    sizes = [path.stat().st_size for path in files(tmp_path)]
    assert sizes == [64 * KIB, {40: 32, 16: 16}[room_kib] * KIB]
    with pytest.raises(StorageFullError):
        put(new, b"user")
    written = _until_full(lambda body: new.append([body], count=1, reserve=True))
    assert len(written) == {40: 5, 16: 2}[room_kib]
    disk.room = PLENTY
    put(new, b"x" * 20 * KIB)
    assert shown(tmp_path) == [*written, b"x" * 20 * KIB]
    new.abandon()
    last = claim(tmp_path)
    assert bodies(last.read(last.first())) == [*written, b"x" * 20 * KIB]
    last.abandon()


def test_a_claim_without_room_may_be_repeated(tmp_path: Path) -> None:
    disk = FullDisk(room=FILE_BYTES // 2)
    log = log_at(tmp_path, disk)
    for _ in range(2):
        with pytest.raises(StorageFullError):
            log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="a")
    disk.room = PLENTY
    log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="a")
    put(log, b"a")
    assert shown(tmp_path) == [b"a"]
    log.abandon()


def test_a_fenced_owner_is_told_so_and_not_that_the_disk_is_full(tmp_path: Path) -> None:
    disk = FullDisk(room=PLENTY)
    old = create(tmp_path, disk)
    new = claim(tmp_path)
    disk.room = 0
    with pytest.raises(FencedError):
        put(old, b"a")
    old.close()
    new.abandon()


def test_two_takeovers_look_for_room_at_the_same_time(tmp_path: Path) -> None:
    old = create(tmp_path)
    others: list[FileFencedLog] = []
    layer = FileLayer()

    def before(call: Call) -> None:
        if call.kind == "unlink" and call.target.endswith("/room") and not others:
            others.append(claim(tmp_path))

    layer.before = before
    last = claim(tmp_path, layer)
    assert [handle.epoch for handle in (*others, last)] == [2, 3]
    for handle in (old, *others, last):
        handle.abandon()


def test_a_fenced_owner_that_finds_room_again_leaves_a_file_that_harms_nothing(
    tmp_path: Path,
) -> None:
    disk = FullDisk(room=PLENTY)
    old = create(tmp_path, disk)
    disk.room = 0
    written = _until_full(lambda body: old.append([body], count=1, reserve=True))
    new = claim(tmp_path)
    put(new, b"x", b"y")
    new.truncate(len(written))
    disk.room = PLENTY
    with pytest.raises(FencedError):
        put(old, b"z" * BIG)
    assert shown(tmp_path) == [b"x", b"y"]
    last = claim(tmp_path)
    assert bodies(last.read(last.first())) == [b"x", b"y"]
    for handle in (old, new, last):
        handle.abandon()
