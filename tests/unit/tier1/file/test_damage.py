"""A file is cut short or has one wrong byte.

What may happen: any single change. What must hold: the log shows written frames, in order and from
the first one on, or it reports the damage; it never shows other bytes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from siltstone.core.checksums import crc32c
from siltstone.core.errors import CorruptDataError, FormatError, LogError
from siltstone.core.records.frame import OVERHEAD_BYTES
from siltstone.core.records.log_file_header import FRAMES_OFFSET, HEADER_BYTES
from siltstone.core.records.marker_slot import SLOT_BYTES
from siltstone.tier1.file.fenced_log import FileFencedLog
from tests.support.file_log.log_world import (
    Unsynced,
    bodies,
    claim,
    create,
    files,
    log_at,
    put,
    shown,
)

BODIES = [b"first", b"second" * 3, b"", b"fourth", b"fifth!"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Three frames of a first owner, two of a second one, both crashed."""
    old = create(tmp_path / "log")
    put(old, *BODIES[:3])
    new = claim(tmp_path / "log")
    put(new, *BODIES[3:])
    old.abandon()
    new.abandon()
    return tmp_path / "log"


def _read(path: Path) -> list[bytes] | None:
    """What a reader and then a claimant see; ``None`` when either reports damage."""
    try:
        seen = shown(path, Unsynced())
        log = claim(path, Unsynced())
    except (CorruptDataError, FormatError, LogError):
        return None
    try:
        found = bodies(log.read(log.first()))
        assert found[: len(seen)] == seen
        put(log, b"next")
        assert shown(path, Unsynced()) == [*found, b"next"]
    except CorruptDataError:
        return None
    finally:
        log.abandon()
    return found


def _used(path: Path) -> int:
    return len(path.read_bytes().rstrip(b"\0"))


@pytest.mark.slow
def test_every_truncation_of_the_last_file(small: Path, tmp_path: Path) -> None:
    last = files(small)[-2]  # The spare file comes after it.
    name = last.relative_to(small)
    lengths = []
    points = [0, 1, HEADER_BYTES, FRAMES_OFFSET, *range(FRAMES_OFFSET, _used(last) + 1)]
    for size in points:
        path = shutil.copytree(small, tmp_path / "cut")
        with (path / name).open("r+b") as file:
            file.truncate(size)
        found = _read(path)
        if found is not None:
            assert found == BODIES[: len(found)], size
            lengths.append(len(found))
        shutil.rmtree(path)
    # Damage is reported only while the header is cut; the longer the file, the more is read.
    assert lengths == sorted(lengths)
    assert lengths[0] == 3
    assert lengths[-1] == 5


def test_every_truncation_leaves_a_dropped_tail(small: Path, tmp_path: Path) -> None:
    last = files(small)[-2]
    size = OVERHEAD_BYTES + len(BODIES[-1])
    whole = last.read_bytes()
    end = _used(last)
    for cut in range(1, size):
        path = shutil.copytree(small, tmp_path / "cut")
        kept = whole[: end - cut]
        (path / last.relative_to(small)).write_bytes(kept.ljust(len(whole), b"\0"))
        reader = log_at(path).open_read()
        log = claim(path, Unsynced())
        assert log.end() == 4
        assert log.dropped_tail() == len(kept.rstrip(b"\0")) - (end - size)
        log.abandon()
        # It is reported once: the next owner finds a file that this one has ended.
        again = claim(path, Unsynced())
        assert again.dropped_tail() == 0
        assert reader.dropped_tail() == 0
        again.abandon()
        shutil.rmtree(path)


@pytest.mark.slow
def test_every_flip_of_a_byte(small: Path) -> None:
    outcomes = set()
    for file in [*files(small), small / "c0" / "marker"]:
        whole = file.read_bytes()
        used = [n for n in range(_used(file)) if n < HEADER_BYTES + 16 or n >= FRAMES_OFFSET]
        for place in used:
            damaged = bytearray(whole)
            damaged[place] ^= 1 << place % 8
            file.write_bytes(damaged)
            try:
                found: list[bytes] | None = shown(small, Unsynced())
            except (CorruptDataError, FormatError):
                found = None
            outcomes.add("damage" if found is None else len(found))
            assert found is None or found == BODIES[: len(found)], (file.name, place)
        file.write_bytes(whole)
    # A flip in the last frame is damage too: the frame is complete, so it was not torn.
    assert outcomes == {"damage", 5}


@pytest.mark.slow
def test_flips_of_a_header_or_the_marker_before_a_claim(small: Path, tmp_path: Path) -> None:
    places = [(small / "c0" / "marker", n) for n in range(0, 2 * SLOT_BYTES, 7)]
    places += [(file, n) for file in files(small) for n in range(0, HEADER_BYTES, 7)]
    for file, place in places:
        path = shutil.copytree(small, tmp_path / "flipped")
        damaged = bytearray(file.read_bytes())
        damaged[place] ^= 1 << place % 8
        (path / file.relative_to(small)).write_bytes(damaged)
        found = _read(path)
        assert found in (None, BODIES), (file.name, place)
        if file.name == "marker":
            assert found == BODIES, place
        shutil.rmtree(path)


def test_a_damaged_slot_falls_back_on_the_other(small: Path) -> None:
    marker = small / "c0" / "marker"
    whole = marker.read_bytes()
    for slot in (0, 1):
        damaged = bytearray(whole)
        damaged[slot * SLOT_BYTES + 20] ^= 1
        marker.write_bytes(damaged)
        assert shown(small) == BODIES
        log = claim(small)
        assert log.epoch > 2
        log.abandon()


def test_two_damaged_slots_are_reported(small: Path) -> None:
    marker = small / "c0" / "marker"
    whole = shown(small)
    damaged = bytearray(marker.read_bytes())
    damaged[20] ^= 1
    damaged[SLOT_BYTES + 20] ^= 1
    marker.write_bytes(damaged)
    assert shown(small) == whole, "a reader needs no marker"
    with pytest.raises(CorruptDataError, match="both slots"):
        claim(small)


def test_a_lost_marker_is_reported(small: Path) -> None:
    (small / "c0" / "marker").unlink()
    with pytest.raises(CorruptDataError, match="marker was lost"):
        claim(small)


def test_an_owner_whose_slot_is_damaged_stops(tmp_path: Path) -> None:
    log = create(tmp_path)
    put(log, b"a")
    marker = tmp_path / "c0" / "marker"
    marker.write_bytes(bytes(2 * SLOT_BYTES))
    with pytest.raises(LogError, match="marker"):
        put(log, b"b")
    log.abandon()


def test_an_owner_next_to_a_torn_claim_continues(tmp_path: Path) -> None:
    log = create(tmp_path)
    put(log, b"a")
    with (tmp_path / "c0" / "marker").open("r+b") as file:
        file.seek(SLOT_BYTES)
        file.write(b"half a slot")
    put(log, b"b", b"c")
    assert bodies(log.read(0)) == [b"a", b"b", b"c"]
    log.abandon()
    assert shown(tmp_path) == [b"a", b"b", b"c"]


def test_a_bad_frame_before_a_valid_one_is_reported(small: Path) -> None:
    file = files(small)[0]
    whole = file.read_bytes()
    start = whole.index(b"first")
    # The length is damaged, which hides the place of the next frame.
    damaged = bytearray(whole)
    damaged[start - 4 : start] = b"\xff\xff\xff\x7f"
    file.write_bytes(damaged)
    reader = log_at(small).open_read()
    with pytest.raises(CorruptDataError):
        list(reader.read(0))


def test_a_bad_frame_of_the_newest_file_is_reported_at_the_claim(tmp_path: Path) -> None:
    log = create(tmp_path)
    put(log, b"one", b"two", b"three")
    log.abandon()
    file = files(tmp_path)[0]
    file.write_bytes(file.read_bytes().replace(b"two", b"TWO"))
    for look in (shown, claim):
        with pytest.raises(CorruptDataError, match="before a valid one"):
            look(tmp_path)


def test_a_torn_frame_that_holds_copies_of_older_ones_is_torn(tmp_path: Path) -> None:
    log = create(tmp_path)
    put(log, b"one", b"two")
    file = files(tmp_path)[0]
    copy = file.read_bytes()[FRAMES_OFFSET : _used(file)]
    put(log, copy)
    log.abandon()
    whole = file.read_bytes()
    file.write_bytes(whole[: _used(file) - 1].ljust(len(whole), b"\0"))
    again = claim(tmp_path)
    assert bodies(again.read(0)) == [b"one", b"two"]
    assert again.dropped_tail() > len(copy)
    again.abandon()


def test_a_missing_file_in_the_middle_is_reported(tmp_path: Path) -> None:
    log = create(tmp_path)
    put(log, *[b"x" * 5000] * 8)
    log.abandon()
    files(tmp_path)[1].unlink()
    for look in (shown, claim):
        with pytest.raises(CorruptDataError, match="missing"):
            look(tmp_path)


def test_a_file_of_another_container_is_reported(tmp_path: Path) -> None:
    log = create(tmp_path)
    put(log, b"a")
    log.abandon()
    (tmp_path / "c0").rename(tmp_path / "c1")
    with pytest.raises(CorruptDataError, match="another file"):
        FileFencedLog(str(tmp_path), 1).open_read().end()


def test_a_log_of_a_newer_version_is_left_alone(small: Path) -> None:
    file = files(small)[0]
    data = bytearray(file.read_bytes())
    data[5] = 2
    data[508:512] = crc32c(bytes(data[:508])).to_bytes(4, "little")
    file.write_bytes(data)
    for look in (shown, claim):
        with pytest.raises(FormatError):
            look(small)
