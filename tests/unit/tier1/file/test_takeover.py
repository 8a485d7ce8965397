"""Two owners of one log, one of them stopped at every step of what it does.

What may happen: a claim at any moment, an owner that continues much later. What must hold: a frame
that was acknowledged is read by every later owner; a frame that was not is read by all of them or
by none.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from siltstone.container.state.log_scan import kept_frames
from siltstone.core.constants import Buffer
from siltstone.core.errors import FencedError, LogError, SiltstoneError
from siltstone.core.posix import FileCalls, PathName
from siltstone.testing.faults.file_layer import Call, FileLayer
from siltstone.tier1.file.fenced_log import FileFencedLog
from tests.support.file_log.log_world import (
    BIG,
    Interrupt,
    Unsynced,
    bodies,
    claim,
    create,
    files,
    log_at,
    put,
    shown,
)

WAIT_S = 120
LETTERS = [bytes([letter]) for letter in b"abcdefgh"]


class Stop(FileLayer):
    """Stops one thread once, at a call of one kind."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.is_armed = False
        self.reached = threading.Event()
        self.proceed = threading.Event()

    def _stop(self, kind: str) -> None:
        if self.is_armed and kind == self.kind:
            self.is_armed = False
            self.reached.set()
            assert self.proceed.wait(WAIT_S)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        self._stop("before the write")
        count = super().pwritev(fd, buffers, offset)
        self._stop("after the write")
        return count

    def fdatasync(self, fd: int) -> None:
        super().fdatasync(fd)
        self._stop("after the sync")

    def unlink(self, path: PathName, *, dir_fd: int | None = None) -> None:
        self._stop("before a file goes")
        super().unlink(path, dir_fd=dir_fd)

    def preadv(self, fd: int, buffers: Sequence[memoryview | bytearray], offset: int) -> int:
        count = super().preadv(fd, buffers, offset)
        self._stop("after the marker was read")
        return count


@pytest.mark.parametrize(
    ("step", "is_read", "is_acknowledged"),
    [
        ("before the write", False, False),
        ("after the write", True, False),
        ("after the sync", True, False),
        ("after the marker was read", True, True),
    ],
)
def test_an_append_that_is_overtaken(
    tmp_path: Path, step: str, is_read: bool, is_acknowledged: bool
) -> None:
    stop = Stop(step)
    old = create(tmp_path, stop)
    put(old, b"a", b"b")
    result: list[int | Exception] = []

    def append() -> None:
        try:
            result.append(old.append([b"doubtful"], count=1))
        except SiltstoneError as error:
            result.append(error)

    stop.is_armed = True
    thread = threading.Thread(target=append)
    thread.start()
    assert stop.reached.wait(WAIT_S)
    new = claim(tmp_path)
    stop.proceed.set()
    thread.join(WAIT_S)

    assert (result == [2]) is is_acknowledged
    assert is_acknowledged or isinstance(result[0], FencedError)
    put(new, b"c")
    expected = [b"a", b"b", b"doubtful", b"c"] if is_read else [b"a", b"b", b"c"]
    assert bodies(new.read(0)) == expected
    assert shown(tmp_path) == expected
    old.close()
    new.abandon()
    last = claim(tmp_path)
    assert bodies(last.read(0)) == expected
    last.close()


def _calls_of_a_claim(path: Path) -> int:
    old = create(path, Unsynced())
    put(old, b"a", b"b")
    counter = Interrupt(0, lambda: None)
    new = claim(path, counter)
    count = counter.count
    new.abandon()
    old.abandon()
    return count


@pytest.mark.slow
def test_a_claim_during_which_the_older_owner_appends(tmp_path: Path) -> None:
    count = _calls_of_a_claim(tmp_path / "count")
    assert count > 30
    for number in range(1, count + 1):
        path = tmp_path / str(number)
        old = create(path, Unsynced())
        put(old, b"a", b"b")
        acknowledged = [b"a", b"b"]

        def append(old: FileFencedLog = old, acknowledged: list[bytes] = acknowledged) -> None:
            with suppress(FencedError):
                put(old, b"late")
                acknowledged.append(b"late")

        new = claim(path, Interrupt(number, append))
        put(new, b"c")
        found = bodies(new.read(0))
        assert found[: len(acknowledged)] == acknowledged, number
        assert found in ([b"a", b"b", b"c"], [b"a", b"b", b"late", b"c"]), number
        assert shown(path, Unsynced()) == found
        old.close()
        new.abandon()


@pytest.mark.slow
def test_a_claim_during_which_another_one_is_faster(tmp_path: Path) -> None:
    count = _calls_of_a_claim(tmp_path / "count")
    for number in range(1, count + 1):
        path = tmp_path / str(number)
        old = create(path, Unsynced())
        put(old, b"a", b"b")
        others: list[FileFencedLog] = []

        def overtake(path: Path = path, others: list[FileFencedLog] = others) -> None:
            other = claim(path, Unsynced())
            put(other, b"x", b"y")
            others.append(other)

        slow = None
        with suppress(LogError):
            slow = claim(path, Interrupt(number, overtake))
        assert others, number
        expected = [b"a", b"b", b"x", b"y"]
        if slow is not None:
            with suppress(FencedError):
                put(slow, b"slow")
                expected.append(b"slow")
            slow.abandon()
        last = claim(path, Unsynced())
        assert bodies(last.read(0)) == expected, number
        assert shown(path, Unsynced()) == expected, number
        last.abandon()
        for other in others:
            other.abandon()
        old.abandon()


def _long(path: Path, calls: FileCalls) -> FileFencedLog:
    """An owner of some files."""
    old = create(path, calls)
    for letter in LETTERS:
        put(old, letter * BIG)
    assert len(files(path)) > 3
    return old


@pytest.mark.slow
def test_a_claim_that_is_overtaken_says_so_whatever_the_faster_one_removed(tmp_path: Path) -> None:
    for number in count(1):
        path = tmp_path / str(number)
        old = _long(path, Unsynced())
        others: list[FileFencedLog] = []

        def overtake(path: Path = path, others: list[FileFencedLog] = others) -> None:
            other = claim(path, Unsynced())
            others.append(other)
            put(other, b"x" * BIG, b"y" * BIG, b"z" * BIG)
            other.truncate(other.end())

        layer = Interrupt(number, overtake)
        slow = None
        with suppress(FencedError):
            slow = claim(path, layer)
        old.abandon()
        for handle in (*others, slow):
            if handle is not None:
                handle.abandon()
        if not others:
            assert slow is not None
            assert number > 30
            return


@pytest.mark.slow
def test_a_claim_while_the_older_owner_continues_with_a_truncation(tmp_path: Path) -> None:
    for number in count(1):
        path = tmp_path / str(number)
        stop = Stop("before a file goes")
        old = _long(path, stop)
        stop.is_armed = True
        thread = threading.Thread(target=old.truncate, args=(old.end() - 1,))
        thread.start()
        assert stop.reached.wait(WAIT_S)

        def proceed(stop: Stop = stop, thread: threading.Thread = thread) -> None:
            stop.proceed.set()
            thread.join(WAIT_S)

        layer = Interrupt(number, proceed)
        new = claim(path, layer)
        found = kept_frames(new, list)
        ended = layer.number
        assert bodies(found)[-1] == LETTERS[-1] * BIG, number
        assert found[0].index == new.first()
        proceed()
        new.abandon()
        old.abandon()
        if ended:
            assert number > 30
            return


def test_a_fenced_owner_that_rolls_writes_into_the_void(tmp_path: Path) -> None:
    old = create(tmp_path)
    put(old, b"a" * 5000, b"b" * 5000)
    new = claim(tmp_path)
    with pytest.raises(FencedError):
        put(old, b"c" * 5000)
    put(new, b"d" * 5000, b"e" * 5000, b"f" * 5000)
    expected = [letter * 5000 for letter in (b"a", b"b", b"d", b"e", b"f")]
    assert shown(tmp_path) == expected
    new.abandon()
    last = claim(tmp_path)
    assert bodies(last.read(0)) == expected
    last.abandon()


def test_a_reader_shows_nothing_new_between_the_marker_and_the_header(tmp_path: Path) -> None:
    old = create(tmp_path)
    reader = old.open_read()
    put(old, b"a", b"b")
    assert reader.end() == 2
    seen: list[tuple[int, list[bytes]]] = []

    def look() -> None:
        with pytest.raises(FencedError):
            put(old, b"doubtful")
        seen.append((reader.end(), shown(tmp_path)))

    layer = FileLayer()

    def before(call: Call) -> None:
        # The first file of the new epoch is made right after the marker.
        if call.kind == "posix_fallocate" and call.target.endswith(".log") and not seen:
            look()

    layer.before = before
    new = claim(tmp_path, layer)
    # A reader that saw two frames keeps them; a new one leaves out what the claim decides on.
    assert seen == [(2, [b"a", b"b"])]
    assert reader.end() == 3
    assert bodies(reader.read(0)) == [b"a", b"b", b"doubtful"] == bodies(new.read(0))
    new.abandon()


def tear(path: Path) -> None:
    """Make the newest frame look as if it is being written."""
    files = [file for file in path.rglob("*.log") if file.read_bytes().strip(b"\0")]
    newest = max(files, key=lambda file: file.name)
    whole = newest.read_bytes()
    newest.write_bytes(whole.rstrip(b"\0")[:-10].ljust(len(whole), b"\0"))


def test_a_reader_tells_of_no_torn_frame_of_an_owner_who_came_meanwhile(tmp_path: Path) -> None:
    old = create(tmp_path / "log", Unsynced())
    put(old, b"a")
    old.abandon()
    for number in count(1):
        path = Path(shutil.copytree(tmp_path / "log", tmp_path / f"{number}"))
        others: list[FileFencedLog] = []

        def come(path: Path = path, others: list[FileFencedLog] = others) -> None:
            others.append(claim(path, Unsynced()))
            put(others[0], b"b" * 1000)
            tear(path)

        layer = Interrupt(number, come)
        reader = log_at(path, layer).open_read()
        assert (number, reader.dropped_tail()) == (number, 0)
        if not others:
            assert number > 5
            return
        others[0].abandon()
        assert (number, reader.dropped_tail() > 0) == (number, True)
