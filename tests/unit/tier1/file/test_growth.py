"""Files are small at first, and become as large as the appended bytes require.

What must hold: a short life takes little of the disk and leaves less; any frame up to the largest
size fits at any time; a full disk refuses what does not fit, harms nothing, and can be claimed.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.core.constants import KIB, MIB
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import StorageFullError
from siltstone.core.records.frame import OVERHEAD_BYTES
from siltstone.testing.faults.file_layer import FileLayer, FullDisk
from siltstone.tier1.file.fenced_log import FileFencedLog
from siltstone.tier1.file.growth import (
    FACTOR,
    FIRST_BYTES,
    HELD_S,
    RESERVE_PART,
    SPARE_BYTES_MIN,
    Growth,
)
from tests.support.file_log.log_world import (
    EXT4,
    LINEAGE,
    MEMORY,
    Unsynced,
    bodies,
    files,
    log_at,
    put,
    shown,
)

LARGEST = 64 * MIB


class Clock(SystemEnvironment):
    """A clock that the test advances."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


class Room(FullDisk):
    """Frees the room of bytes that are unlinked or cut off."""

    def unlink(self, path: str | bytes, *, dir_fd: int | None = None) -> None:
        self.room += self.inner.stat(path, dir_fd=dir_fd).st_size
        super().unlink(path, dir_fd=dir_fd)


def opened(
    path: Path,
    calls: FileLayer | None = None,
    *,
    clock: Clock | None = None,
    new: bool = False,
    file_bytes: int = LARGEST,
) -> FileFencedLog:
    log = log_at(
        path,
        calls or FileLayer(Unsynced()),
        file_bytes=file_bytes,
        file_system=MEMORY if clock is None else EXT4,
        environment=clock,
    )
    try:
        log.claim(lineage=LINEAGE, new=new, above=0, takeover=True, owner="o")
    except StorageFullError:
        log.abandon()
        raise
    return log


def sizes(path: Path) -> list[int]:
    return [file.stat().st_size for file in files(path)]


def kept(path: Path) -> int:
    """Bytes of all files in the folder."""
    return sum(file.stat().st_size for file in (path / "c0").iterdir())


def test_a_short_life_takes_little_and_leaves_less(tmp_path: Path) -> None:
    log = opened(tmp_path, new=True)
    put(log, b"abc")
    assert sizes(tmp_path) == [FIRST_BYTES, SPARE_BYTES_MIN]
    log.close()
    assert sizes(tmp_path) == [8 * KIB, SPARE_BYTES_MIN]
    assert shown(tmp_path) == [b"abc"]


@pytest.mark.slow
def test_many_short_lives_take_little(tmp_path: Path) -> None:
    opened(tmp_path, new=True).close()
    for number in range(50):
        log = opened(tmp_path)
        put(log, b"%d" % number, b"second")
        log.close()
    assert kept(tmp_path) < MIB
    assert shown(tmp_path)[-2:] == [b"49", b"second"]


@pytest.mark.slow
@pytest.mark.parametrize("ends", [FileFencedLog.close, FileFencedLog.abandon])
def test_two_files_are_left_when_all_is_flushed(tmp_path: Path, ends: object) -> None:
    opened(tmp_path, new=True).close()
    for number in range(20):
        log = opened(tmp_path)
        put(log, b"%d" % number, b"second", bytes(40_000))
        ends(log)  # type: ignore[operator]
    log = opened(tmp_path)
    put(log, b"row", b"checkpoint")
    log.truncate(log.end())
    log.close()
    assert len(files(tmp_path)) == 2
    assert kept(tmp_path) < 2 * SPARE_BYTES_MIN


def test_a_quick_epoch_has_files_of_the_largest_size_soon(tmp_path: Path) -> None:
    clock = Clock()
    log = opened(tmp_path, clock=clock, new=True)
    for _ in range(60):
        log.append([bytes(2 * MIB)], count=1)
        log.truncate(log.end())
        clock.now += 0.1
        log.tend()
    found = sizes(tmp_path)
    assert set(found[-2:]) == {LARGEST}
    log.abandon()


def test_a_file_is_at_most_a_fixed_multiple_of_the_one_before(tmp_path: Path) -> None:
    log = opened(tmp_path, new=True)
    for _ in range(200):
        log.append([bytes(100_000)], count=1)
    found = sizes(tmp_path)
    assert found[0] == FIRST_BYTES
    assert max(found) >= 4 * MIB
    for before, after in itertools.pairwise(found):
        assert before <= after <= FACTOR * before
    log.abandon()


def test_a_slow_epoch_keeps_small_files_and_writes_no_zeros(tmp_path: Path) -> None:
    clock, calls = Clock(), FileLayer(Unsynced())
    log = opened(tmp_path, calls, clock=clock, new=True)
    for number in range(3_000):
        log.append([b"%d " % number + bytes(1_000)], count=1)
        clock.now += 1.0
        if number % 10 == 0:
            log.tend()
    calls.forget()
    for _ in range(20):
        clock.now += 1.0
        log.tend()
    assert not calls.targets("pwritev")
    assert set(sizes(tmp_path)[1:]) <= {SPARE_BYTES_MIN, 4 * SPARE_BYTES_MIN}
    log.truncate(log.end())
    log.close()
    assert kept(tmp_path) < 4 * MIB


def test_an_epoch_that_becomes_slow_gets_small_files_again(tmp_path: Path) -> None:
    clock = Clock()
    growth = Growth(LARGEST, clock.monotonic)
    appended = 0
    for _ in range(30):
        appended += 20 * MIB
        clock.now += 1.0
        growth.look(appended)
    assert growth.next_bytes(LARGEST) == LARGEST
    assert growth.is_worth_zeros(LARGEST)
    for _ in range(30):
        appended += 1_000
        clock.now += 1.0
        growth.look(appended)
    assert growth.next_bytes(LARGEST) == SPARE_BYTES_MIN
    assert not growth.is_worth_zeros(SPARE_BYTES_MIN)


@pytest.mark.parametrize("rate", [10_000, 100_000, 1_000_000])
def test_a_file_takes_what_comes_in_some_seconds(rate: int) -> None:
    clock = Clock()
    growth = Growth(LARGEST, clock.monotonic)
    for second in range(40):
        clock.now += 1.0
        growth.look(rate * second)
    assert rate * HELD_S <= growth.next_bytes(LARGEST) <= max(SPARE_BYTES_MIN, 45 * rate)


def test_the_reserve_goes_with_what_the_log_holds(tmp_path: Path) -> None:
    old = opened(tmp_path, new=True)
    for _ in range(10):
        old.append([bytes(4 * MIB)], count=1)
    held = kept(tmp_path)
    old.close()
    log = opened(tmp_path)
    assert sizes(tmp_path)[-2] == FIRST_BYTES
    assert 40 * MIB // RESERVE_PART <= sizes(tmp_path)[-1] < held
    log.truncate(log.end())
    log.close()
    assert sizes(tmp_path)[-1] <= held // RESERVE_PART * FACTOR
    last = opened(tmp_path)
    put(last, b"a", b"b")
    last.truncate(last.end())
    last.close()
    assert sizes(tmp_path) == [8 * KIB, SPARE_BYTES_MIN]


LENGTHS = st.one_of(
    st.integers(0, 300),
    st.sampled_from(
        [
            size + change - 4 * KIB - OVERHEAD_BYTES
            for size in (FIRST_BYTES, SPARE_BYTES_MIN, MIB)
            for change in (-1, 0, 1)
            if size + change <= MIB
        ]
    ),
    st.integers(0, MIB - 4 * KIB - OVERHEAD_BYTES),
)
LIFE = st.lists(LENGTHS, max_size=6)


@pytest.mark.slow
@settings(max_examples=40)
@given(lives=st.lists(st.tuples(LIFE, st.booleans(), st.booleans()), min_size=1, max_size=4))
def test_any_frame_fits_at_any_time(
    tmp_path_factory: pytest.TempPathFactory, lives: list[tuple[list[int], bool, bool]]
) -> None:
    path = tmp_path_factory.mktemp("log")
    expected: list[bytes] = []
    for number, (lengths, clean, tended) in enumerate(lives):
        log = opened(path, clock=Clock(), new=not number, file_bytes=MIB)
        assert bodies(log.read(log.first())) == expected
        assert log.dropped_tail() == 0
        for length in lengths:
            expected.append((b"%d " % len(expected)).ljust(length, b"x"))
            put(log, expected[-1])
            if tended:
                log.tend()
        assert shown(path) == expected
        (FileFencedLog.close if clean else FileFencedLog.abandon)(log)
        if clean:
            assert shown(path) == expected


def test_a_frame_for_which_there_is_no_room_harms_nothing(tmp_path: Path) -> None:
    disk = Room(Unsynced(), room=FIRST_BYTES + 3 * SPARE_BYTES_MIN)
    log = opened(tmp_path, disk, new=True)
    put(log, b"a", b"b")
    for _ in range(2):
        with pytest.raises(StorageFullError):
            put(log, bytes(2 * MIB))
    before = sizes(tmp_path)
    put(log, b"c")
    log.append([bytes(100_000)], count=1, reserve=True)
    assert sizes(tmp_path) == before
    log.abandon()
    again = opened(tmp_path)
    assert bodies(again.read(0)) == [b"a", b"b", b"c", bytes(100_000)]
    again.abandon()


@pytest.mark.parametrize("ends", [FileFencedLog.close, FileFencedLog.abandon])
def test_a_full_disk_can_be_claimed(tmp_path: Path, ends: object) -> None:
    disk = Room(Unsynced(), room=10**9)
    log = opened(tmp_path, disk, new=True)
    put(log, b"a")
    disk.room = 100  # enough for a lock and nothing else
    ends(log)  # type: ignore[operator]
    for body in (b"b", b"c"):
        log = opened(tmp_path, disk)
        log.append([body], count=1, reserve=True)
        with pytest.raises(StorageFullError):
            log.append([b"no relief"], count=1)
        ends(log)  # type: ignore[operator]
    assert shown(tmp_path)[:2] == [b"a", b"b"]


def test_the_copy_of_a_large_frame_takes_the_room_of_what_was_never_used(tmp_path: Path) -> None:
    disk = Room(Unsynced(), room=10**9)
    log = opened(tmp_path, disk, new=True)
    put(log, b"a", bytes(3 * MIB))
    log.abandon()
    assert sizes(tmp_path)[-1] >= SPARE_BYTES_MIN
    large = files(tmp_path)[-1]
    with large.open("r+b") as file:
        file.truncate(4 * MIB)
    disk.room = FIRST_BYTES
    again = opened(tmp_path, disk)
    assert not large.exists()
    assert bodies(again.read(0)) == [b"a", bytes(3 * MIB)]
    again.abandon()
    assert bodies(opened(tmp_path).read(0)) == [b"a", bytes(3 * MIB)]


def test_no_room_for_the_copy_of_a_large_frame_is_told_and_may_pass(tmp_path: Path) -> None:
    disk = Room(Unsynced(), room=10**9)
    log = opened(tmp_path, disk, new=True)
    put(log, b"a", bytes(3 * MIB))
    log.abandon()
    files(tmp_path)[-1].unlink()  # It was never used, so its room could be taken.
    disk.room = FIRST_BYTES
    with pytest.raises(StorageFullError):
        opened(tmp_path, disk)
    disk.room = 10**9
    again = opened(tmp_path, disk)
    assert bodies(again.read(0)) == [b"a", bytes(3 * MIB)]
    again.abandon()
