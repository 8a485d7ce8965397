"""The power fails at every call of a scripted life of a log, and at random calls of random lives.

What may fail: any call, from the cut on; unsynced bytes may be gone or partly there; a sync may
fail and lose its pages. What must hold: the next claimant reads frames that were acknowledged or
shown to a reader; besides these only frames appear that were in flight; the log continues.
"""

from __future__ import annotations

import errno
import itertools
import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from siltstone.core.constants import KIB
from siltstone.core.errors import FencedError, LogError, SiltstoneError
from siltstone.testing.faults.file_layer import KINDS, Call, FileLayer
from siltstone.tier1.file.fenced_log import FileFencedLog
from siltstone.tier1.file.network import FileSystem
from tests.support.file_log.log_world import (
    BIG,
    EXT4,
    FILE_BYTES,
    LINEAGE,
    MEMORY,
    DirectDisk,
    Unsynced,
    bodies,
    claim,
    create,
    log_at,
    put,
    shown,
)
from tests.support.soak import shared

FIRST = "siltstone.tier1.file.growth.FIRST_BYTES"
SPARE = "siltstone.tier1.file.growth.SPARE_BYTES_MIN"
DIRECT = "siltstone.tier1.file.writer.DIRECT_BYTES_MIN"


class Life:
    """What owners and readers of one log were told."""

    def __init__(self, path: Path, disk: DirectDisk, file_system: FileSystem = MEMORY) -> None:
        self.path = path
        self.file_bytes = FILE_BYTES
        self.file_system = file_system
        self.disk = disk
        self.calls = FileLayer(disk)
        self.logs: list[FileFencedLog] = []
        self.sure: dict[int, bytes] = {}
        self.tried: dict[int, set[bytes]] = {}
        self.truncated = 0
        self._names = itertools.count()

    def create(self) -> FileFencedLog:
        log = self._log()
        log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="a")
        return log

    def claim(self) -> FileFencedLog:
        log = self._log()
        log.claim(lineage=LINEAGE, new=False, above=0, takeover=True, owner="b")
        self.see(log.read(log.first()))
        return log

    def _log(self) -> FileFencedLog:
        log = log_at(
            self.path, self.calls, file_bytes=self.file_bytes, file_system=self.file_system
        )
        self.logs.append(log)
        return log

    def append(self, log: FileFencedLog, length: int = 100) -> None:
        body = (b"%d " % next(self._names)).ljust(length, b".")
        self.tried.setdefault(log.end(), set()).add(body)
        index = log.append([body], count=1)
        self.sure[index] = body

    def truncate(self, log: FileFencedLog, index: int) -> None:
        self.truncated = max(self.truncated, index)
        log.truncate(index)

    def look(self) -> None:
        reader = log_at(self.path, self.calls).open_read()
        self.see(reader.read(reader.first()))

    def see(self, frames: object) -> None:
        for frame in frames:  # type: ignore[attr-defined]
            if frame.kind == 1:
                assert frame.body in self.tried[frame.index]
                assert self.sure.setdefault(frame.index, frame.body) == frame.body

    def end(self) -> None:
        for log in self.logs:
            log.abandon()
        self.logs = []

    def check(self) -> None:
        """Claim as the next owner would, and check that every sure frame is there."""
        self.end()
        if not self.sure:
            return
        log = claim(self.path, Unsynced())
        assert log.first() <= self.truncated
        found = {frame.index: frame.body for frame in log.read(log.first()) if frame.kind == 1}
        for index, body in self.sure.items():
            if index >= log.first():
                assert found.get(index) == body, f"frame {index} is lost"
        for index, body in found.items():
            assert body in self.tried[index]
        put(log, b"next")
        assert shown(self.path, Unsynced())[-1] == b"next"
        log.abandon()


def script(life: Life) -> None:
    """Every kind of step once: claim, roll, takeover, a zombie, truncation, a clean close."""
    first = life.create()
    for length in (100, BIG, BIG, BIG):
        life.append(first, length)
    life.look()
    second = life.claim()
    with suppress(FencedError):
        life.append(first)
    life.append(second)
    life.append(second, BIG)
    third = life.claim()
    for _ in range(5):
        life.append(third, BIG)
    life.look()
    life.truncate(third, third.end() - 1)
    life.append(third)
    life.look()
    third.close()
    fourth = life.claim()
    life.append(fourth)


def tended(life: Life) -> None:
    """A life during which files are written with zeros, and used again after truncation."""
    first = life.create()
    for number in range(9):
        life.append(first, BIG)
        first.tend()
        if number % 3 == 2:
            life.truncate(first, first.end() - 1)
    second = life.claim()
    for _ in range(4):
        life.append(second, BIG)
        second.tend()
    life.truncate(second, second.end())
    second.tend()
    life.look()
    life.append(second, BIG)


def direct(life: Life) -> None:
    """The same life with large frames that bypass the page cache, and small ones between them."""
    with patch(DIRECT, 1_000):
        tended(life)
        owner = life.logs[-1]
        for length in (BIG, 100, BIG, 4_000, 100):
            life.append(owner, length)
        life.look()


def growing(life: Life) -> None:
    """Small first files, frames that are larger than the next file, clean and other ends."""
    life.file_bytes = 64 * KIB
    with patch(FIRST, 8 * KIB), patch(SPARE, 8 * KIB):
        first = life.create()
        for length in (100, BIG, 3 * BIG, 100, BIG, 9 * BIG, BIG):
            life.append(first, length)
            first.tend()
        life.look()
        first.close()
        second = life.claim()
        life.append(second, 100)
        life.append(second, 6 * BIG)
        third = life.claim()  # It copies a frame that is larger than its file.
        for length in (BIG, BIG, 100):
            life.append(third, length)
            third.tend()
        life.truncate(third, third.end() - 1)
        third.tend()
        third.close()
        life.look()
        life.append(life.claim(), 100)


def _run(
    root: Path, cut_at: int, keep: float, steps: Callable[[Life], None], system: FileSystem
) -> int:
    root.mkdir()
    disk = DirectDisk(root)
    life = Life(root / "log", disk, system)
    count = 0

    def before(call: Call) -> None:
        nonlocal count
        count += 1
        if count == cut_at:
            disk.cut(keep=keep, seed=cut_at)

    life.calls.before = before
    with suppress(SiltstoneError, OSError):
        steps(life)
        if not 0 < cut_at <= count:  # a disk without power cannot lose it again
            disk.cut(keep=keep, seed=cut_at)
    life.calls.before = lambda call: None
    life.end()
    disk.restart()
    life.check()
    return count


LIVES = pytest.mark.parametrize(
    ("steps", "system"),
    [(script, MEMORY), (tended, EXT4), (direct, EXT4), (growing, MEMORY), (growing, EXT4)],
    ids=["plain", "tended", "direct", "growing", "growing tended"],
)


@pytest.mark.slow
@LIVES
@pytest.mark.parametrize(("keep", "first", "step"), [(0.0, 1, 4), (0.5, 3, 4)])
def test_power_cut_at_every_fourth_call(
    tmp_path: Path,
    keep: float,
    first: int,
    step: int,
    steps: Callable[[Life], None],
    system: FileSystem,
) -> None:
    if steps is growing:
        step *= 3  # It needs much disk, and its steps are mostly those of the other lives.
    numbers = _calls(tmp_path, keep, steps, system)[first - 1 :: step]
    _cut_at(tmp_path, keep, numbers, steps, system)


@pytest.mark.soak
@pytest.mark.timeout(300)
@LIVES
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.7])
def test_power_cut_at_every_call(
    tmp_path: Path, keep: float, steps: Callable[[Life], None], system: FileSystem
) -> None:
    _cut_at(tmp_path, keep, shared(_calls(tmp_path, keep, steps, system)), steps, system)


def _calls(tmp_path: Path, keep: float, steps: Callable[[Life], None], system: FileSystem) -> range:
    count = _run(tmp_path / "whole", 0, keep, steps, system)
    assert count > 300
    return range(1, count + 1)


def _cut_at(
    tmp_path: Path,
    keep: float,
    numbers: Iterable[int],
    steps: Callable[[Life], None],
    system: FileSystem,
) -> None:
    for number in numbers:
        try:
            _run(tmp_path / str(number), number, keep, steps, system)
        except AssertionError as error:
            error.add_note(f"cut at call {number}, keep {keep}")
            raise
        shutil.rmtree(tmp_path / str(number))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_lives(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 4 == 3:
        monkeypatch.setattr(DIRECT, 1_000)
    chance = random.Random(seed)
    disk = DirectDisk(tmp_path)
    life = Life(tmp_path / "log", disk, EXT4 if seed % 2 else MEMORY)
    owner = life.create()
    life.append(owner)
    for _ in range(40):
        step = chance.choice(
            ["append"] * 8 + ["look", "claim", "zombie", "sync", "truncate", "cut", "tend", "tend"]
        )
        with suppress(LogError):
            if step == "append":
                life.append(owner, chance.choice([1, 100, 3000]))
            elif step == "look":
                life.look()
            elif step == "claim":
                owner = life.claim()
            elif step == "zombie" and life.logs:
                life.append(chance.choice(life.logs))
            elif step == "sync":
                life.calls.fail_call(
                    chance.choice(["fdatasync", "fsync", "pwritev"]), chance.randint(1, 4)
                )
            elif step == "truncate":
                life.truncate(owner, chance.randint(0, owner.end()))
            elif step == "tend" and life.logs:
                chance.choice(life.logs).tend()
        if step == "cut":
            life.calls.forget()
            disk.cut(keep=chance.choice([0, 0.3, 0.7, 1]), seed=chance.randint(0, 10**6))
            life.end()
            disk.restart()
        if owner not in life.logs or step in ("sync", "cut") or chance.random() < 0.05:
            with suppress(LogError):
                owner = life.claim()
    life.calls.forget()
    disk.cut(keep=0)
    life.end()
    disk.restart()
    life.check()


def test_a_failed_sync_then_a_takeover_then_a_power_cut(tmp_path: Path) -> None:
    disk = DirectDisk(tmp_path)
    calls = FileLayer(disk)
    old = create(tmp_path / "log", calls)
    put(old, b"a", b"b")
    reader = old.open_read()
    calls.fail_call("fdatasync", error=errno.EIO)
    with pytest.raises(LogError):
        put(old, b"doubtful")
    # The page cache shows the frame and a later sync succeeds, but the disk does not have it.
    assert bodies(reader.read(0)) == [b"a", b"b"]
    new = claim(tmp_path / "log", calls)
    assert bodies(new.read(0)) == [b"a", b"b", b"doubtful"]
    assert bodies(reader.read(0)) == [b"a", b"b", b"doubtful"]
    disk.cut()
    for log in (old, new):
        log.abandon()
    disk.restart()
    # Only the copy of it is left.
    assert shown(tmp_path / "log") == [b"a", b"b", b"doubtful"]
    put(last := claim(tmp_path / "log"), b"c")
    assert bodies(last.read(0)) == [b"a", b"b", b"doubtful", b"c"]
    last.abandon()


def _doubtful(root: Path) -> tuple[DirectDisk, FileLayer]:
    """A log of two frames and a third one that is in the page cache alone."""
    root.mkdir()
    disk = DirectDisk(root)
    calls = FileLayer(disk)
    log = create(root / "log", calls)
    put(log, b"a", b"b")
    calls.fail_call("fdatasync")
    with pytest.raises(LogError):
        put(log, b"doubtful")
    log.abandon()
    return disk, calls


def test_what_a_claim_reads_is_durable_when_it_returns(tmp_path: Path) -> None:
    disk, calls = _doubtful(tmp_path / "disk")
    new = claim(tmp_path / "disk/log", calls)
    assert bodies(new.read(0)) == [b"a", b"b", b"doubtful"]
    disk.cut()
    new.abandon()
    disk.restart()
    last = claim(tmp_path / "disk/log")
    assert bodies(last.read(0)) == [b"a", b"b", b"doubtful"]
    last.abandon()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "seeds"),
    [
        pytest.param(KINDS, 1, id="every call"),
        pytest.param(("fdatasync",), 12, id="every sync"),
    ],
)
def test_a_claim_of_a_doubtful_frame_is_cut(
    tmp_path: Path, kinds: Sequence[str], seeds: int
) -> None:
    for seed in range(seeds):
        for number in itertools.count(1):
            root = tmp_path / f"{seed}-{number}"
            if not _cut_claim(root, kinds, number, seed):
                break
            shutil.rmtree(root)


def _cut_claim(root: Path, kinds: Sequence[str], number: int, seed: int) -> bool:
    """Cut before call ``number`` of those in ``kinds``; false if there are fewer calls."""
    disk, calls = _doubtful(root)
    left = number

    def before(call: Call) -> None:
        nonlocal left
        left -= call.kind in kinds
        if left == 0:
            left = -1
            disk.cut(keep=0.5, seed=seed)

    calls.before = before
    with suppress(LogError):
        claim(root / "log", calls).abandon()
    if left > 0:
        return False
    disk.restart()
    last = claim(root / "log", Unsynced())
    found = bodies(last.read(0))
    assert found in ([b"a", b"b"], [b"a", b"b", b"doubtful"]), number
    put(last, b"c")
    assert shown(root / "log", Unsynced()) == [*found, b"c"]
    last.abandon()
    return True


def test_a_claim_syncs_what_it_reads_before_it_writes(tmp_path: Path) -> None:
    old = create(tmp_path)
    put(old, b"a")
    old.abandon()
    calls = FileLayer()
    claim(tmp_path, calls).abandon()
    older, own = [f"e{epoch:020d}-{0:08d}.log" for epoch in (1, 2)]
    done = [(call.kind, call.target.rpartition("/")[2]) for call in calls.calls]
    steps = [
        done.index(("fdatasync", "marker")),
        done.index(("preadv", "marker")),
        done.index(("pwritev", "marker")),
        len(done) - 1 - done[::-1].index(("fdatasync", "marker")),
        done.index(("fdatasync", older)),
        done.index(("pwritev", own)),
    ]
    assert steps == sorted(steps)


def test_a_poisoned_owner_stays_poisoned(tmp_path: Path) -> None:
    for kind in ("pwritev", "fdatasync", "preadv"):
        calls = FileLayer()
        log = create(tmp_path / kind, calls)
        put(log, b"a")
        calls.fail_call(kind)
        with pytest.raises(LogError):
            put(log, b"b")
        with pytest.raises(LogError, match="poisoned"):
            put(log, b"c")
        log.close()
        assert shown(tmp_path / kind) in ([b"a"], [b"a", b"b"])
