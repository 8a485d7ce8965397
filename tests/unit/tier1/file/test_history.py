"""Frames are read as the chain states them, or an error is raised; none is skipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.core.constants import KIB
from siltstone.core.errors import CorruptDataError, LogTruncatedError
from siltstone.core.records.log_file_header import FRAMES_OFFSET
from siltstone.tier1.file.chain import build_view
from siltstone.tier1.file.history import read_frames
from tests.support.file_log.chain_world import Frames, Log, first_header, header_after, next_header

LARGE = bytes(200 * KIB)
"""Only one such frame fits into the bytes that are read at a time."""


def read(log: Log, from_index: int = 0) -> list[int]:
    view = build_view(log.folder)
    return [frame.index for frame in read_frames(log.folder, view.ranges, from_index)]


def taken_over(log: Log, frames: Frames) -> tuple[Path, bytes]:
    """Epoch 1 with frames 0 and 1; epoch 2 with a copy of frame 1 and its own; returns frame 0."""
    a, b = frames.make(1, 0), frames.make(1, 1)
    old = log.put(first_header(1), a, b)
    log.put(header_after(2, 1, 2, frames.crcs[1], b), b, frames.make(2, 2))
    return old, a


def damage_copy(log: Log) -> None:
    new = log.file(2, 0)
    data = bytearray(new.read_bytes())
    data[FRAMES_OFFSET + 20] ^= 1
    new.write_bytes(data)


def test_a_frame_that_its_own_file_lacks_is_read_from_the_copy(log: Log, frames: Frames) -> None:
    old, first = taken_over(log, frames)
    end = FRAMES_OFFSET + len(first)
    old.write_bytes(old.read_bytes()[:end].ljust(old.stat().st_size, b"\0"))
    assert read(log) == [0, 1, 2]
    damage_copy(log)
    with pytest.raises(CorruptDataError, match="missing or damaged"):
        read(log)


def test_a_damaged_copy_is_not_missed_where_the_original_is_there(log: Log, frames: Frames) -> None:
    taken_over(log, frames)
    damage_copy(log)
    assert read(log) == [0, 1, 2]


def test_a_frame_that_is_not_the_one_that_was_taken_over_is_reported(
    log: Log, frames: Frames
) -> None:
    _, first = taken_over(log, frames)
    damage_copy(log)
    # An owner that had lost the log has written another frame to its end.
    log.put(first_header(1), first, frames.make(1, 1, b"other"))
    with pytest.raises(CorruptDataError, match="do not end as stated"):
        read(log)
    assert read(log, 2) == [2]


def test_a_copy_of_another_frame_is_none(log: Log, frames: Frames) -> None:
    first = frames.make(1, 0)
    other = frames.make(1, 1, b"other")
    second = frames.make(1, 1)
    log.put(first_header(1), first, second)
    log.put(header_after(2, 1, 2, frames.crcs[1], other), other, frames.make(2, 2))
    assert read(log) == [0, 1, 2]


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: None])
def test_a_file_that_is_written_again_while_it_is_read_was_truncated(
    log: Log, frames: Frames, harm: Callable[[Path], None]
) -> None:
    first = first_header(1)
    old = log.put(first, *(frames.make(1, index, LARGE) for index in range(4)))
    log.put(next_header(first, 4, frames.crcs[3]), frames.make(1, 4))
    view = build_view(log.folder)
    found = read_frames(log.folder, view.ranges, 0)
    assert next(found).index == 0
    with old.open("r+b") as file:
        file.write(bytes(old.stat().st_size))
    harm(old)
    is_truncated = not old.exists()
    with pytest.raises(LogTruncatedError if is_truncated else CorruptDataError):
        list(found)
