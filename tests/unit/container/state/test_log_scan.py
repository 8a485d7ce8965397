"""The first look at a log: what it keeps, and where the second one begins."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

import pytest

from siltstone.container.state.boot_state import BootState
from siltstone.container.state.log_scan import LogScan
from siltstone.core.constants import Buffer
from siltstone.core.environment import SystemEnvironment
from siltstone.core.records.frame import KIND_BATCH, Frame
from siltstone.core.records.piece import (
    ControlKind,
    TablePiece,
    append_header,
    control_piece,
    table_header,
)

LINEAGE = bytes(range(16))
NEW_LOG = BootState(lineage=LINEAGE, journal_state=None)


def frame(index: int, *pieces: Sequence[Buffer]) -> Frame:
    body = b"".join(bytes(part) for piece in pieces for part in piece)
    return Frame(
        kind=KIND_BATCH,
        lineage=LINEAGE,
        epoch=1,
        index=index,
        previous_crc=0,
        count=len(pieces),
        body=body,
        crc=index,
    )


def append(segment_id: int, offset: int, length: int) -> Sequence[Buffer]:
    return append_header(segment_id, offset, length, []), bytes(length)


def scan_of(*frames: Frame) -> LogScan:
    scan = LogScan(NEW_LOG, SystemEnvironment())
    for one in frames:
        scan.take(one)
    return scan


def test_nothing_of_appends_is_kept() -> None:
    record = b"r" * 40
    scan = scan_of(
        frame(5, append(1, 0, 1_000)),
        frame(6, append(1, 1_000, 10), (table_header(len(record)), record)),
        frame(7, (control_piece(ControlKind.CHECKPOINT, b"name"),)),
    )
    assert (scan.first, scan.newest, scan.exposure.size) == (5, 7, 1_010)
    assert [(one.index, one.body) for one in scan.frames] == [(6, b""), (7, b"")]
    assert scan.frames[0].pieces == (TablePiece(record),)


@pytest.mark.slow
def test_the_second_look_begins_before_all_that_is_in_no_chunk_and_not_long_before() -> None:
    chance = Random(1)
    for _ in range(50):
        lengths: dict[int, int] = {}
        places: list[tuple[int, int, int]] = []
        scan = LogScan(NEW_LOG, SystemEnvironment())
        for index in range(1_000):
            segment_id = chance.choice([1, 1, 1, 2, 3])
            offset = lengths.get(segment_id, 0)
            scan.take(frame(index, append(segment_id, offset, 10)))
            lengths[segment_id] = offset + 10
            places.append((index, segment_id, offset + 10))
        flushed: dict[int, int | None] = {
            segment_id: chance.choice([length, length, chance.randint(0, length), None])
            for segment_id, length in lengths.items()
        }
        needed = [
            index
            for index, segment_id, end in places
            if (length := flushed[segment_id]) is not None and end > length
        ]
        exact = min(needed, default=1_000)
        assert exact - 64 < scan.first_needed(flushed.get) <= exact


def test_an_empty_log_needs_nothing() -> None:
    scan = scan_of()
    assert (scan.first, scan.first_needed(lambda _: 0)) == (None, 0)


def test_the_newest_frames_are_kept_up_to_a_bound() -> None:
    scan = LogScan(NEW_LOG, SystemEnvironment(), kept_bytes_max=3_000)
    for index in range(5):
        scan.take(frame(index, append(1, 900 * index, 900)))
    assert scan.take_kept(1) is None, "the first two were forgotten"
    scan = LogScan(NEW_LOG, SystemEnvironment(), kept_bytes_max=3_000)
    for index in range(5):
        scan.take(frame(index, append(1, 900 * index, 900)))
    kept = scan.take_kept(3)
    assert kept is not None
    assert [one.index for one in kept] == [3, 4]
    assert all(len(one.body) > 900 for one in kept)


def test_without_a_bound_only_an_end_without_appends_needs_no_second_look() -> None:
    scan = scan_of(frame(0, append(1, 0, 10)), frame(1, append(1, 10, 10)))
    assert scan.take_kept(2) == deque()
    assert scan_of(frame(0, append(1, 0, 10))).take_kept(0) is None
