"""What records of a Kafka log mean, by their order alone."""

from __future__ import annotations

import pytest

from siltstone.core.errors import CorruptDataError, LogLostError
from siltstone.core.records.frame import KIND_END
from siltstone.tier1.kafka.claim_record import (
    KIND_FENCE,
    KIND_HOLDER,
)
from siltstone.tier1.kafka.scan import Scan
from tests.support.kafka_writer import LINEAGE, Writer, claim


def scanned(*values: bytes | None, start: int = 0) -> Scan:
    scan = Scan("topic")
    scan.start_at(start)
    for offset, value in enumerate(values, start):
        scan.add(offset, value)
    return scan


def test_an_epoch_is_above_all_before_it_and_what_its_claim_names() -> None:
    assert scanned(claim()).epoch == 1
    assert scanned(claim(), claim(), claim()).epoch == 3
    assert scanned(claim(7), claim(3)).epoch == 9


def test_a_frame_after_a_newer_claim_is_void() -> None:
    old = Writer(1)
    first = old.frame()
    new = old.next(2)
    scan = scanned(claim(), first, claim(), old.frame(), new.frame())
    assert (scan.first, scan.end, list(scan.offsets)) == (0, 2, [1, 4])
    assert scan.crc == new.crc


def test_a_frame_after_a_fence_is_void_and_the_log_has_no_owner() -> None:
    old = Writer(1)
    scan = scanned(claim(), old.frame(), claim(kind=KIND_FENCE, lineage=bytes(16)), old.frame())
    assert (scan.end, scan.epoch, scan.claim) == (1, 2, None)
    assert scan.lineages == {LINEAGE}


def test_the_first_record_of_all_may_be_any_frame() -> None:
    scan = scanned(Writer(5, 30, 77).frame(), start=100)
    assert (scan.first, scan.end, scan.epoch) == (30, 31, 5)


@pytest.mark.parametrize("before", [claim(), b"of a stranger"])
def test_after_any_other_record_a_frame_is_the_very_first(before: bytes) -> None:
    with pytest.raises((LogLostError, CorruptDataError)):
        scanned(before, Writer(1, 30, 77).frame())


def test_a_missing_frame_is_a_lost_log() -> None:
    writer = Writer(1)
    first, _, third = (writer.frame() for _ in range(3))
    with pytest.raises(LogLostError, match="missing"):
        scanned(claim(), first, third)


def test_a_frame_that_continues_another_one_is_a_lost_log() -> None:
    first = Writer(1).frame()
    with pytest.raises(LogLostError, match="missing"):
        scanned(claim(), first, Writer(1, 1, 12345).frame())


def test_a_frame_without_a_claim_of_its_epoch_is_damage() -> None:
    writer = Writer(1)
    with pytest.raises(CorruptDataError, match="without a claim"):
        scanned(claim(), writer.frame(), writer.next(4).frame())


def test_a_frame_of_another_lineage_is_a_lost_log() -> None:
    writer = Writer(1)
    first = writer.frame()
    other = Writer(1, writer.index, writer.crc, lineage=bytes(16))
    with pytest.raises(LogLostError, match="two lineages"):
        scanned(claim(), first, other.frame())


def test_a_damaged_frame_is_damage_wherever_it_stands() -> None:
    damaged = bytearray(Writer(1).frame())
    damaged[30] ^= 1
    with pytest.raises(CorruptDataError, match="damaged"):
        scanned(claim(), bytes(damaged))


def test_bytes_after_a_frame_are_damage() -> None:
    with pytest.raises(CorruptDataError, match="damaged"):
        scanned(claim(), Writer(1).frame() + b"x")


def test_the_same_frame_again_counts_once() -> None:
    writer = Writer(1)
    frame = writer.frame()
    scan = scanned(claim(), frame, frame, writer.frame())
    assert (scan.end, list(scan.offsets)) == (2, [1, 3])


def test_frames_that_come_again_after_later_ones_are_passed_over() -> None:
    writer = Writer(1)
    frames = [writer.frame() for _ in range(3)]
    scan = scanned(claim(), *frames, frames[0], frames[1], writer.frame())
    assert (scan.end, list(scan.offsets)) == (4, [1, 2, 3, 6])
    # Also when the frames that they repeat were truncated or are not remembered.
    assert scanned(frames[1], frames[2], frames[0]).end == 3
    scan.forget_recent()
    scan.add(7, frames[2])
    assert scan.end == 4


def test_another_frame_in_the_place_of_one_is_a_lost_log() -> None:
    writer = Writer(1)
    frames = [writer.frame() for _ in range(3)]
    with pytest.raises(LogLostError, match="missing"):
        scanned(claim(), *frames, Writer(1, 1, 5).frame())
    # The newest owner never writes a frame in the place of an older owner's frame.
    newer = writer.next(2)
    with pytest.raises(LogLostError, match="missing"):
        scanned(claim(), *frames, claim(), newer.frame(), Writer(2, 1, 5).frame())
    with pytest.raises(LogLostError, match="missing"):
        scanned(claim(), *frames, claim(), newer.frame(), Writer(2, 9, 5).frame())


def test_records_of_strangers_are_passed_over_and_counted() -> None:
    writer = Writer(1)
    scan = scanned(None, claim(), b"", writer.frame(), b"SLTC", writer.frame())
    assert (scan.end, scan.foreign) == (2, 3)


def test_a_log_has_ended_until_the_next_claim() -> None:
    writer = Writer(1)
    values = [claim(), writer.frame(), writer.frame(KIND_END)]
    assert scanned(*values).has_ended
    assert not scanned(*values[:-1]).has_ended
    assert not scanned(*values, claim()).has_ended


def test_what_is_truncated_is_forgotten() -> None:
    writer = Writer(1)
    scan = scanned(claim(), *(writer.frame() for _ in range(4)))
    scan.start_at(3)
    assert (scan.first, scan.end, list(scan.offsets)) == (2, 4, [3, 4])
    assert [frame.index for frame in scan.recent] == [2, 3]
    scan.start_at(9)
    assert (scan.first, scan.end, list(scan.offsets)) == (4, 4, [])
    scan.add(9, Writer(1, 7, 99).frame())
    assert (scan.first, scan.end) == (7, 8)


def test_a_holder_says_again_who_claimed() -> None:
    writer = Writer(4, 9, 77)
    scan = scanned(writer.frame(), claim(4, kind=KIND_HOLDER), writer.frame(), start=30)
    assert scan.claim is not None
    assert (scan.epoch, scan.claim.epoch, scan.claim.record.owner) == (4, 4, "höst")


def test_a_holder_after_a_newer_claim_is_void() -> None:
    scan = scanned(claim(), claim(), claim(1, kind=KIND_HOLDER))
    assert scan.claim is not None
    assert (scan.epoch, scan.claim.offset) == (2, 1)


def test_a_holder_without_a_claim_is_damage() -> None:
    with pytest.raises(CorruptDataError, match="without a claim"):
        scanned(claim(), claim(5, kind=KIND_HOLDER))
