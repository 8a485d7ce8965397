"""The newest frame after its owner was killed: torn by the kill, or damaged since.

What may happen: any sectors of a frame in flight or its end are missing; or a bit flips in an
acknowledged frame. What must hold: the torn frame is dropped and counted, the damage is reported,
except where sectors of zeros make both look the same.
"""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import pytest

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.frame import (
    KIND_END,
    OVERHEAD_BYTES,
    FrameHeader,
    encode_frame,
)
from siltstone.tier1.file.last_frame import SECTOR_BYTES, is_damaged
from tests.support.file_log.log_world import (
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

EXPECTED = FrameHeader(lineage=LINEAGE, epoch=3, index=9, previous_crc=77)
SIZES = [1, 100, 700, 3000]
OFFSETS = [4096, 4096 + 300, 4096 + 511, 4096 + 480]


def _frame(body: bytes, **changes: int) -> bytes:
    frame = encode_frame(
        [body],
        **{"kind": 1, "epoch": 3, "index": 9, "previous_crc": 77, "count": 1} | changes,
        lineage=LINEAGE,
    )
    return b"".join(frame.buffers)


def _body(size: int, seed: int) -> bytes:
    chance = random.Random(seed)
    return bytes(chance.randrange(1, 256) for _ in range(size))


def _whole(size: int) -> bytes:
    """A frame whose last byte is not zero."""
    return next(frame for seed in range(99) if (frame := _frame(_body(size, seed)))[-1])


def _judged(data: bytes, offset: int) -> bool:
    return is_damaged(data.rstrip(b"\0"), offset, EXPECTED)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("size", SIZES)
def test_every_flip_of_a_whole_frame_is_damage(size: int, offset: int) -> None:
    frame = _whole(size)
    chance = random.Random(size)
    for place in [*range(min(len(frame), 200)), *chance.sample(range(len(frame)), 50)]:
        damaged = bytearray(frame)
        damaged[place] ^= 1 << chance.randrange(8)
        if damaged[-1]:
            assert _judged(bytes(damaged), offset), place


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("size", SIZES)
def test_a_frame_without_some_of_its_sectors_is_torn(size: int, offset: int) -> None:
    frame = _whole(size)
    ends = [*range(SECTOR_BYTES - offset % SECTOR_BYTES, len(frame), SECTOR_BYTES), len(frame)]
    sectors = list(zip([0, *ends], ends, strict=False))
    for lost in range(1, 2 ** len(sectors)):
        torn = bytearray(frame)
        for number, (start, end) in enumerate(sectors):
            if lost & 1 << number:
                torn[start:end] = bytes(end - start)
        assert not _judged(bytes(torn), offset), lost


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("size", SIZES)
def test_a_frame_that_was_cut_anywhere_is_torn(size: int, offset: int) -> None:
    frame = _whole(size)
    for cut in range(len(frame)):
        assert not _judged(frame[:cut], offset), cut


def test_bytes_after_a_frame_that_does_not_count_are_damage() -> None:
    frame = bytearray(_whole(100))
    frame[80] ^= 1
    assert _judged(bytes(frame) + _whole(50)[:30].rstrip(b"\0"), 4096)


def test_a_length_that_says_too_much_is_damage() -> None:
    for bit in range(8, 32):
        frame = bytearray(_whole(200))
        frame[48 + bit // 8] ^= 1 << bit % 8
        assert _judged(bytes(frame), 4096), bit


def test_a_damaged_header_is_damage_whatever_zeros_come_after_it() -> None:
    frame = bytearray(_whole(5000))
    frame[1000:3000] = bytes(2000)
    assert not _judged(bytes(frame), 4096)
    frame[30] ^= 1
    assert _judged(bytes(frame), 4096)


def test_a_lost_end_of_an_owner_is_no_damage() -> None:
    end = bytearray(
        b"".join(
            encode_frame(
                [], kind=KIND_END, lineage=LINEAGE, epoch=3, index=9, previous_crc=77, count=0
            ).buffers
        )
    )
    assert len(end) == OVERHEAD_BYTES
    end[20] ^= 1
    assert not _judged(bytes(end), 4096)


def test_an_acknowledged_frame_with_a_flipped_bit_is_reported_by_all(tmp_path: Path) -> None:
    log = create(tmp_path)
    put(log, b"one" * 10, b"two" * 10, b"three" * 10)
    log.abandon()
    file = files(tmp_path)[0]
    whole = file.read_bytes()
    start = whole.index(b"three" * 10)
    file.write_bytes(whole[: start + 9] + b"\xff" + whole[start + 10 :])
    for look in (shown, claim):
        with pytest.raises(CorruptDataError, match="there as a whole") as caught:
            look(tmp_path, Unsynced())
        assert str(file) in str(caught.value)
        assert "index=2" in str(caught.value)
    # Nothing was written, so the right file brings everything back.
    file.write_bytes(whole)
    assert len(shown(tmp_path, Unsynced())) == 3


def test_a_recovery_has_what_stands_before_the_damage(tmp_path: Path) -> None:
    log = create(tmp_path)
    put(log, b"one", b"two", b"three", b"four")
    log.abandon()
    file = files(tmp_path)[0]
    whole = file.read_bytes()
    for damaged, kept in ((b"four", 3), (b"three", 2), (b"one", 0)):
        file.write_bytes(whole.replace(damaged, damaged.upper()))
        for fenced in (False, True):
            handle = log_at(tmp_path, Unsynced())
            if fenced:
                handle.fence_all()
            reader = handle.open_to_damage()
            assert (reader.first(), reader.end(), reader.lineage()) == (0, kept, LINEAGE)
            frames = reader.read(0)
            assert bodies(islice(frames, kept)) == [b"one", b"two", b"three"][:kept]
            with pytest.raises(CorruptDataError):
                next(frames)
            handle.close()
