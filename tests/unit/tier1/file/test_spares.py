"""Log files that are prepared during the appends: written with zeros, and used again.

What may happen: any call fails, the disk is full, an owner dies or is fenced in between. What must
hold: a file with the name of a log file holds only zeros and the frames of its current use; frames
are unchanged; room of files that wait to be used again counts as room.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.core.constants import KIB
from siltstone.core.errors import LogError, LogTruncatedError, StorageFullError
from siltstone.core.posix import PathName, SystemFileCalls
from siltstone.testing.faults.file_layer import Call, FileLayer, FullDisk
from siltstone.tier1.file.fenced_log import FileFencedLog
from siltstone.tier1.file.spares import KEPT_MAX
from tests.support.file_log.log_world import (
    BIG,
    EXT4,
    FILE_BYTES,
    LINEAGE,
    Unsynced,
    bodies,
    claim,
    create,
    files,
    log_at,
    put,
    shown,
)


def made(path: Path, calls: FileLayer | None = None, file_bytes: int = FILE_BYTES) -> FileFencedLog:
    log = log_at(path, calls or FileLayer(Unsynced()), file_bytes=file_bytes, file_system=EXT4)
    log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="first")
    return log


def body(number: int) -> bytes:
    return (b"%d " % number).ljust(BIG, b".")


def tend(log: FileFencedLog) -> None:
    for _ in range(8):
        log.tend()


def old_files(path: Path) -> list[Path]:
    return sorted((path / "c0").glob("*.old"))


def live(log: FileFencedLog, first: int, count: int, kept: int = 3) -> None:
    """Append frames, truncate after each of them, and tend the log all the time."""
    for number in range(first, first + count):
        put(log, body(number))
        tend(log)
        log.truncate(max(log.first(), log.end() - kept))


def test_a_log_that_is_truncated_needs_no_new_files(tmp_path: Path) -> None:
    calls = FileLayer(Unsynced())
    log = made(tmp_path, calls)
    live(log, 0, 20)
    calls.forget()
    live(log, 20, 40)
    assert not calls.targets("posix_fallocate")
    assert not calls.targets("unlink")
    assert len(files(tmp_path)) + len(old_files(tmp_path)) <= KEPT_MAX + 3
    assert bodies(log.read(log.first()))[-3:] == [body(57), body(58), body(59)]
    assert shown(tmp_path) == bodies(log.read(log.first()))
    log.abandon()
    again = claim(tmp_path)
    assert bodies(again.read(again.first()))[-1] == body(59)
    assert again.dropped_tail() == 0
    again.abandon()


def test_a_log_file_was_all_zeros_when_it_got_its_name(tmp_path: Path) -> None:
    found: list[bytes] = []

    def before(call: Call) -> None:
        if call.kind == "rename" and call.target.endswith(".log"):
            waiting = {path.name: path.read_bytes() for path in old_files(tmp_path)}
            found.append(min(waiting.values(), key=lambda content: len(content.strip(b"\0"))))

    calls = FileLayer(Unsynced())
    calls.before = before
    log = made(tmp_path, calls)
    live(log, 0, 30)
    assert len(found) > 5
    assert all(content == bytes(FILE_BYTES) for content in found)
    log.abandon()


@pytest.mark.parametrize("suffix", [".old", ".log"])
def test_no_room_for_a_name_costs_the_file_and_nothing_else(tmp_path: Path, suffix: str) -> None:
    """As on ext4, where a new name may need one more block for the folder."""
    refused: list[str] = []

    def before(call: Call) -> None:
        if call.kind == "rename" and call.target.endswith(suffix):
            refused.append(call.target)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    calls = FileLayer(Unsynced())
    log = made(tmp_path, calls)
    live(log, 0, 10)
    calls.before = before
    live(log, 10, 30)
    assert len(refused) > 5
    assert len(files(tmp_path)) + len(old_files(tmp_path)) <= KEPT_MAX + 3
    calls.before = lambda _: None
    live(log, 40, 20)
    assert shown(tmp_path) == bodies(log.read(log.first()))
    log.abandon()
    again = claim(tmp_path)
    assert bodies(again.read(again.first()))[-3:] == [body(57), body(58), body(59)]
    again.abandon()


@pytest.mark.usefixtures("whole_files")
def test_frames_continue_in_a_file_that_is_written_already(tmp_path: Path) -> None:
    log = made(tmp_path, file_bytes=1024 * KIB)
    written = [bytes([number]) * 64 * KIB for number in range(15)]
    put(log, *written)
    tend(log)
    assert len(files(tmp_path)) == 3
    put(log, b"small")  # It would still fit into the first file.
    first, second, third = files(tmp_path)
    assert b"small" not in first.read_bytes()
    assert b"small" in second.read_bytes()
    assert not any(third.read_bytes())
    assert shown(tmp_path) == [*written, b"small"]
    log.abandon()


def test_an_owner_who_appends_little_writes_no_zeros(tmp_path: Path) -> None:
    calls = FileLayer(Unsynced())
    log = made(tmp_path, calls, file_bytes=1024 * KIB)
    put(log, b"a")
    calls.forget()
    tend(log)
    assert {call.kind for call in calls.calls} == {"stat"}  # whether its files are still there
    log.abandon()


@pytest.mark.parametrize("kind", ["rename", "pwritev", "fdatasync", "fsync", "open", "fstat"])
def test_a_call_that_fails_during_the_appends_poisons(tmp_path: Path, kind: str) -> None:
    calls = FileLayer(Unsynced())
    log = made(tmp_path, calls)
    live(log, 0, 20)
    for number in range(20, 30):
        put(log, body(number))
    with pytest.raises(LogError):  # noqa: PT012 - the first call of a kind may be of either
        calls.fail_call(kind)
        log.truncate(log.end() - 1)
        tend(log)
        tend(log)
    with pytest.raises(LogError, match="poisoned"):
        put(log, b"more")
    log.abandon()
    again = claim(tmp_path)
    assert bodies(again.read(again.first()))[-1] == body(29)
    again.abandon()


def test_nothing_is_done_before_the_claim_and_after_the_end(tmp_path: Path) -> None:
    calls = FileLayer(Unsynced())
    log = log_at(tmp_path, calls, file_system=EXT4)
    assert log.tend() > 0
    log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="first")
    put(log, body(0), body(1))
    log.close()
    calls.forget()
    assert log.tend() > 0
    assert not calls.calls


def test_the_next_owner_removes_what_waits_to_be_used_again(tmp_path: Path) -> None:
    log = made(tmp_path)
    for number in range(8):
        put(log, body(number))
    log.truncate(7)
    assert old_files(tmp_path)
    log.abandon()
    assert shown(tmp_path)[-1] == body(7)
    new = claim(tmp_path)
    put(new, b"first", b"second")
    assert not old_files(tmp_path)
    assert shown(tmp_path)[-3:] == [body(7), b"first", b"second"]
    new.abandon()


class Room(FullDisk):
    """Frees the room of unlinked files."""

    def unlink(self, path: str | bytes, *, dir_fd: int | None = None) -> None:
        self.room += self.inner.stat(path, dir_fd=dir_fd).st_size
        super().unlink(path, dir_fd=dir_fd)


def test_what_waits_to_be_used_again_is_room(tmp_path: Path) -> None:
    disk = Room(Unsynced(), room=10 * FILE_BYTES)
    log = made(tmp_path, disk)
    for number in range(8):
        put(log, body(number))
    disk.room = 1
    log.truncate(7)
    waiting = len(old_files(tmp_path))
    assert waiting > 1
    for number in range(8, 10):
        put(log, body(number))
    assert len(old_files(tmp_path)) < waiting
    log.abandon()

    full = log_at(tmp_path, Room(Unsynced(), room=1), file_system=EXT4)
    old = log_at(tmp_path, Unsynced(), file_system=EXT4)
    old.claim(lineage=LINEAGE, new=False, above=0, takeover=True, owner="next")
    put(old, body(10), body(11), body(12), body(13), body(14), body(15))
    old.truncate(old.end())
    assert old_files(tmp_path)
    old.abandon()
    full.claim(lineage=LINEAGE, new=False, above=0, takeover=True, owner="last")
    assert not old_files(tmp_path)
    full.abandon()


def test_a_full_disk_stops_no_care(tmp_path: Path) -> None:
    disk = Room(Unsynced(), room=10 * FILE_BYTES)
    log = made(tmp_path, disk)
    put(log, body(0), body(1))
    disk.room = 0
    tend(log)
    put(log, b"small")
    with pytest.raises(StorageFullError):
        put(log, body(2))
    assert shown(tmp_path) == [body(0), body(1), b"small"]
    log.abandon()


def test_a_file_that_was_larger_is_not_used_again(tmp_path: Path) -> None:
    first = create(tmp_path, Unsynced())
    put(first, b"x" * 12_000)
    first.abandon()
    calls = FileLayer(Unsynced())
    log = log_at(tmp_path, calls, file_bytes=16 * KIB - 4096, file_system=EXT4)
    log.claim(lineage=LINEAGE, new=False, above=0, takeover=True, owner="next")
    for number in range(8):
        put(log, body(number)[:3000])
        tend(log)
    log.truncate(log.end())
    tend(log)
    assert {path.stat().st_size for path in files(tmp_path)} == {16 * KIB - 4096}
    log.abandon()


def test_every_rename_is_durable_before_anything_else_happens(tmp_path: Path) -> None:
    calls = FileLayer(Unsynced())
    log = made(tmp_path, calls)
    live(log, 0, 20)
    folder = str(tmp_path / "c0")
    places = [number for number, call in enumerate(calls.calls) if call.kind == "rename"]
    assert len(places) > 4
    for place in places:
        around = [(call.kind, call.target) for call in calls.calls[place - 1 : place + 3]]
        # It is opened in advance: a rename that cannot be synced would end the owner.
        assert [around[0], *around[2:]] == [("open", folder), ("fsync", folder), ("close", folder)]
    log.abandon()


def test_a_file_is_taken_only_between_two_slices(tmp_path: Path) -> None:
    calls = FileLayer(Unsynced())
    log = made(tmp_path, calls)
    put(log, body(0), body(1), body(2))
    rolled = threading.Thread(target=put, args=(log, body(3), body(4)))

    def before(call: Call) -> None:
        if call.kind == "pwritev" and threading.current_thread() is not rolled:
            calls.before = lambda call: None
            rolled.start()
            rolled.join(0.3)  # It cannot end before these zeros are written.

    calls.before = before
    log.tend()
    rolled.join()
    assert shown(tmp_path) == [body(number) for number in range(5)]
    log.abandon()


@pytest.mark.timeout(120)
def test_appends_truncations_and_care_at_the_same_time(tmp_path: Path) -> None:
    log = made(tmp_path, file_bytes=64 * KIB)
    stop = threading.Event()
    failed: list[LogError] = []

    def care() -> None:
        try:
            while not stop.is_set():
                log.tend()
        except LogError as error:
            failed.append(error)

    thread = threading.Thread(target=care)
    thread.start()
    written: list[bytes] = []
    try:
        for number in range(600):
            written.append(b"%d " % number + os.urandom(8000))
            log.append([written[-1]], count=1)
            if number % 25 == 0:
                log.truncate(max(log.first(), log.end() - 10))
    finally:
        stop.set()
        thread.join()
    assert not failed
    found = bodies(log.read(log.first()))
    assert found == written[-len(found) :]
    assert len(found) >= 10
    log.abandon()
    assert shown(tmp_path) == found


@pytest.mark.usefixtures("whole_files")
@pytest.mark.parametrize("later", [0, 1, 40])
def test_a_reader_in_a_file_that_is_used_again_hears_that_it_was_truncated(
    tmp_path: Path, later: int
) -> None:
    """It has the file open, which then holds zeros or frames of its next use."""
    log = made(tmp_path, file_bytes=512 * KIB)
    large = [b"%d " % number + os.urandom(60_000) for number in range(20)]
    for data in large:
        log.append([data], count=1)
    reader = log_at(tmp_path).open_read()
    frames = reader.read(0)
    assert bodies([next(frames)]) == large[:1]
    first = min((tmp_path / "c0").glob("*.log"))
    inode = first.stat().st_ino
    log.truncate(log.end())
    log.tend()
    assert not first.exists()
    assert inode in {path.stat().st_ino for path in (tmp_path / "c0").iterdir()}
    for number in range(later):
        log.append([b"%d" % number + bytes(60_000)], count=1)
        log.tend()
    with pytest.raises(LogTruncatedError):
        list(frames)
    assert len(bodies(reader.read(reader.first()))) >= later
    reader.close()
    log.abandon()


class StoppingCalls(SystemFileCalls):
    """Calls ``act`` once after it has opened a file of this name."""

    def __init__(self) -> None:
        self.name = ""
        self.act: Callable[[], None] = lambda: None

    def open(
        self, path: PathName, flags: int, mode: int = 0o666, *, dir_fd: int | None = None
    ) -> int:
        fd = super().open(path, flags, mode, dir_fd=dir_fd)
        if self.name and str(path).endswith(self.name):
            self.name = ""
            self.act()
        return fd


def test_a_look_at_the_newest_file_while_it_is_used_again_begins_again(tmp_path: Path) -> None:
    """At the place where the reader continues there is a frame of the file's next use."""
    log = made(tmp_path)
    put(log, body(0))
    calls = StoppingCalls()
    reader = log_at(tmp_path, calls).open_read()
    assert reader.end() == log.end()
    newest = max(path for path in files(tmp_path) if path.read_bytes().strip(b"\0"))
    inode = newest.stat().st_ino

    def use_again() -> None:
        number = 1
        while not any(
            path.stat().st_ino == inode and path != newest and path.read_bytes().count(b" .") > 1
            for path in files(tmp_path)
        ):
            assert number < 100
            live(log, number, 1, kept=1)
            number += 1

    calls.name, calls.act = newest.name, use_again
    assert reader.end() == log.end()
    assert not calls.name
    reader.close()
    log.abandon()
