"""The chain of log files: what it consists of, and which files contradict each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from siltstone.core.constants import MIB
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.frame import KIND_BATCH, KIND_END
from siltstone.core.records.log_file_header import FRAMES_OFFSET, LogFileHeader
from siltstone.testing.faults.file_layer import Call
from siltstone.tier1.file.chain import (
    FileRange,
    LogView,
    build_view,
)
from siltstone.tier1.file.names import FileKey
from siltstone.tier1.file.newest_file import LogEnd, check_continues, read_end
from tests.support.file_log.chain_world import (
    NO_CRC,
    Frames,
    Log,
    first_header,
    header_after,
    next_header,
)
from tests.support.file_log.log_world import LINEAGE

OTHER = bytes(16)


def reported(log: Log, epoch: int, number: int, message: str, tail: str = "") -> None:
    """Check that the log is refused, and that the error gives the reason and the file."""
    with pytest.raises(CorruptDataError) as caught:
        build_view(log.folder)
    assert str(caught.value) == f"{message} where={log.file(epoch, number)}{tail}"


def two_epochs(log: Log, frames: Frames, *, crash_at: int = 3) -> list[LogFileHeader]:
    """Epoch 2 with frames 0 to 3 in two files, and epoch 5, which took them up to ``crash_at``."""
    first = first_header(2)
    a, b = frames.make(2, 0), frames.make(2, 1)
    second = next_header(first, 2, frames.crcs[1])
    c, d = frames.make(2, 2), frames.make(2, 3)
    log.put(first, a, b)
    log.put(second, c, d)
    copy = (b, c, d)[crash_at - 2]
    newest = header_after(5, 2, crash_at, frames.crcs[crash_at - 1], copy)
    log.put(newest, copy, frames.make(5, crash_at))
    return [first, second, newest]


# --- what it consists of ---


def test_no_files_are_a_log_without_history(log: Log) -> None:
    view = build_view(log.folder)
    assert view == LogView()
    assert (view.epoch, view.first, view.end, view.lineage) == (0, 0, 0, None)
    assert view.statement == (0, 0, 0)


def test_a_file_without_a_header_is_seen_and_is_no_history(log: Log) -> None:
    log.file(4, 0).write_bytes(bytes(FRAMES_OFFSET))
    view = build_view(log.folder)
    assert view == LogView(keys=(FileKey(4, 0),))


def test_the_chain_goes_from_file_to_file_and_epoch_to_epoch(log: Log, frames: Frames) -> None:
    first, second, newest = two_epochs(log, frames)
    view = build_view(log.folder)
    assert view.keys == (FileKey(2, 0), FileKey(2, 1), FileKey(5, 0))
    assert view.ranges == (
        FileRange(header=first, end_index=2, end_crc=frames.crcs[1]),
        FileRange(header=second, end_index=3, end_crc=frames.crcs[2], copy=newest),
        FileRange(header=newest, end_index=4, end_crc=frames.crcs[3]),
    )
    assert [part.key for part in view.ranges] == list(view.keys)
    assert view.end_of is not None
    assert (view.end_of.header, view.end_of.index) == (newest, 4)
    assert (view.epoch, view.first, view.end) == (5, 0, 4)
    assert view.statement == (5, 4, frames.crcs[3])
    assert view.headers_seen == {LINEAGE}
    assert view.dropped_tail == 0


def test_an_epoch_without_a_copy_is_continued_anyway(log: Log, frames: Frames) -> None:
    frame = frames.make(1, 0)
    log.put(first_header(1), frame)
    newest = header_after(2, 1, 1, frames.crcs[0])
    log.put(newest, frames.make(2, 1))
    assert [part.copy for part in build_view(log.folder).ranges] == [None, None]


def test_a_file_that_begins_at_the_stated_end_is_off_the_chain(log: Log, frames: Frames) -> None:
    first, _, newest = two_epochs(log, frames, crash_at=2)
    view = build_view(log.folder)
    assert [part.header for part in view.ranges] == [first, newest]
    assert view.ranges[0] == FileRange(
        header=first, end_index=2, end_crc=newest.predecessor_crc, copy=newest
    )


def test_a_file_without_a_header_hides_none_after_it(log: Log, frames: Frames) -> None:
    log.put(first_header(2), frames.make(2, 0))
    for epoch in (1, 3):
        log.file(epoch, 0).write_bytes(bytes(FRAMES_OFFSET))
    log.put(header_after(4, 2, 1, frames.crcs[0]), frames.make(4, 1))
    log.file(4, 1).write_bytes(bytes(FRAMES_OFFSET))
    view = build_view(log.folder)
    assert [key.epoch for key in view.keys] == [1, 2, 3, 4, 4]
    assert ([part.key.epoch for part in view.ranges], view.end) == ([2, 4], 2)


def test_truncation_takes_whole_epochs_and_first_files(log: Log, frames: Frames) -> None:
    _, second, newest = two_epochs(log, frames)
    log.file(2, 0).unlink()
    view = build_view(log.folder)
    assert ([part.header for part in view.ranges], view.first) == ([second, newest], 2)
    log.file(2, 1).unlink()
    view = build_view(log.folder)
    assert ([part.header for part in view.ranges], view.first) == ([newest], 3)


def test_an_epoch_that_left_no_frame_is_passed_over(log: Log, frames: Frames) -> None:
    first, second, _ = two_epochs(log, frames, crash_at=4)
    log.file(5, 0).unlink()
    void = header_after(6, 2, 4, frames.crcs[3])
    log.put(void)
    view = build_view(log.folder)
    assert view.statement == void.statement == (2, 4, frames.crcs[3])
    assert (view.epoch, view.end) == (6, 4)
    assert [part.header for part in view.ranges] == [first, second, void]
    newest = replace(void, epoch=9)
    log.put(newest, frames.make(9, 4))
    view = build_view(log.folder)
    assert [part.header for part in view.ranges] == [first, second, newest]
    assert view.statement == (9, 5, frames.crcs[4])


def test_an_epoch_whose_frames_are_in_its_older_file_has_its_own(log: Log, frames: Frames) -> None:
    first = first_header(1)
    frame = frames.make(1, 0)
    log.put(first, frame)
    log.put(next_header(first, 1, frames.crcs[0]))
    view = build_view(log.folder)
    assert view.end_of is not None
    assert (view.end_of.last, view.end_of.has_own_frames) == (None, True)
    assert view.statement == (1, 1, frames.crcs[0])


def test_the_lineage_is_that_of_the_newest_frame(log: Log, frames: Frames) -> None:
    log.put(replace(first_header(1), lineage=OTHER))
    assert build_view(log.folder).lineage == OTHER
    log.put(first_header(1), frames.make(1, 0))
    log.put(replace(header_after(2, 1, 1, frames.crcs[0]), lineage=OTHER))
    view = build_view(log.folder)
    assert view.lineage == LINEAGE
    assert view.headers_seen == {LINEAGE, OTHER}


# --- files that contradict each other ---


@pytest.mark.parametrize(
    "header",
    [
        replace(first_header(2), epoch=7),
        replace(first_header(2), number=7),
        replace(first_header(2), container=7),
    ],
)
def test_a_header_under_another_name_is_reported(log: Log, header: LogFileHeader) -> None:
    log.put(header, at=(2, 0))
    reported(log, 2, 0, "header of another file")


def changed(header: LogFileHeader, field: str) -> LogFileHeader:
    """A header of the same epoch that says something else but is still possible."""
    values: dict[str, object] = {
        "lineage": OTHER,
        "nonce": OTHER,
        "predecessor_epoch": 1,
        "predecessor_end": 1,
        "predecessor_crc": 99,
    }
    return replace(header, **{field: values[field]})  # type: ignore[arg-type]


@pytest.mark.parametrize("is_newest", [True, False])
@pytest.mark.parametrize(
    "field", ["lineage", "nonce", "predecessor_epoch", "predecessor_end", "predecessor_crc"]
)
def test_files_of_one_epoch_say_the_same(
    log: Log, frames: Frames, field: str, is_newest: bool
) -> None:
    for index in range(3):
        frames.make(3, index)
    first = header_after(3, 2, 3, frames.crcs[2])
    frame = frames.make(3, 3)
    second = next_header(first, 4, frames.crcs[3])
    log.put(first, frame)
    log.put(changed(second, field), frames.make(3, 4))
    if not is_newest:
        log.put(header_after(4, 3, 5, frames.crcs[4]), frames.make(4, 5))
    reported(log, 3, 1, "header contradicts the file before it")


def test_a_file_does_not_begin_below_the_one_before(log: Log, frames: Frames) -> None:
    first = first_header(1)
    head = frames.make(1, 0)
    log.put(first, head)
    second = next_header(first, 2, 1)
    log.put(second)
    log.put(next_header(second, 1, 1))
    reported(log, 1, 2, "header contradicts the file before it")
    # A file may begin where the file before it begins: then the file before it is empty.
    log.put(next_header(second, 2, 1))
    assert build_view(log.folder).end == 2


@pytest.mark.parametrize("number", [2, 3])
def test_a_missing_file_is_reported(log: Log, number: int) -> None:
    first = first_header(1)
    log.put(first)
    log.put(replace(next_header(first, 1, 1), number=number))
    reported(log, 1, number, "the file before it is missing")


def test_a_predecessor_that_begins_after_its_end_is_reported(log: Log) -> None:
    log.put(header_after(4, 1, 3, 5))
    log.put(header_after(6, 4, 3, 5))
    reported(log, 6, 0, "the predecessor begins after its stated end")


@pytest.mark.parametrize("begins", [3, 4])
def test_a_file_after_the_stated_end_alone_is_void(log: Log, begins: int) -> None:
    log.put(replace(header_after(4, 1, 3, 5), first_index=begins, number=1))
    newer = header_after(6, 4, 3, 5)
    log.put(newer)
    view = build_view(log.folder)
    assert [part.header for part in view.ranges] == [newer]
    assert (view.first, view.end) == (3, 3)


@pytest.mark.parametrize("index", [0, 1])
def test_frames_under_a_damaged_header_are_reported(log: Log, frames: Frames, index: int) -> None:
    frames.make(2, 0)
    log.break_header(log.put(first_header(2), frames.make(2, index, previous_crc=0)))
    reported(log, 2, 0, "frames under a damaged header")


def test_a_file_without_a_header_may_hold_what_is_no_frame_of_it(log: Log, frames: Frames) -> None:
    log.break_header(log.put(first_header(2), b"torn", frames.make(1, 0)))
    assert build_view(log.folder) == LogView(keys=(FileKey(2, 0),))


@pytest.mark.parametrize(("epoch", "number"), [(1, 1), (2, 1), (3, 0)])
def test_frames_under_the_damaged_header_of_any_file_are_reported(
    log: Log, frames: Frames, epoch: int, number: int
) -> None:
    """Of an older epoch, after the newest file of an owner that did not end, of a newer epoch."""
    log.put(first_header(1), frames.make(1, 0))
    newest = header_after(2, 1, 1, frames.crcs[0])
    last = frames.make(2, 1, b"", kind=KIND_BATCH if epoch == 2 else KIND_END)
    log.put(newest, last)
    damaged = replace(first_header(epoch), number=number)
    log.break_header(log.put(damaged, frames.make(epoch, 2)))
    reported(log, epoch, number, "frames under a damaged header")


def test_spares_after_a_log_that_was_closed_are_not_read(log: Log, frames: Frames) -> None:
    """A claim reads neither the zeros that the last owner left nor those of its own file."""
    log.put(first_header(1), frames.make(1, 0), frames.make(1, 1, b"", kind=KIND_END))
    for key in (FileKey(1, 1), FileKey(2, 0)):
        log.file(*key).write_bytes(bytes(2 * MIB))
    assert build_view(log.folder, FileKey(2, 0)).end == 2
    read = log.layer.targets("preadv")
    assert [read.count(str(log.file(*key))) for key in (FileKey(1, 1), FileKey(2, 0))] == [1, 1]


# --- what changes meanwhile ---


@pytest.mark.parametrize("listings", [4, 5])
def test_what_contradicts_is_looked_at_five_times(log: Log, listings: int) -> None:
    path = log.put(first_header(7), at=(2, 0))
    log.before_listing(listings + 1, path.unlink)
    if listings == 5:
        reported(log, 2, 0, "header of another file")
    else:
        assert build_view(log.folder) == LogView()


def test_a_file_that_goes_meanwhile_is_not_missed(log: Log, frames: Frames) -> None:
    log.put(first_header(1), frames.make(1, 0))
    gone = log.put(header_after(2, 1, 1, frames.crcs[0]))

    def remove(call: Call) -> None:
        if call.kind == "open" and call.target == str(gone):
            gone.unlink(missing_ok=True)

    log.layer.before = remove
    assert (build_view(log.folder).epoch, build_view(log.folder).end) == (1, 1)


# --- the newest file ---


def end_of(log: Log, header: LogFileHeader, after: LogEnd | None = None) -> tuple[LogEnd, int]:
    return read_end(log.folder, header, after)


def test_the_end_is_after_the_last_frame(log: Log, frames: Frames) -> None:
    header = first_header(1)
    log.put(header)
    empty = LogEnd(header=header, index=0, crc=NO_CRC, offset=FRAMES_OFFSET, last=None)
    assert end_of(log, header) == (empty, 0)
    assert not empty.has_own_frames
    one, two = frames.make(1, 0), frames.make(1, 1, b"second")
    log.put(header, one, two)
    end, dropped = end_of(log, header)
    assert (end.index, end.crc, dropped) == (2, frames.crcs[1], 0)
    assert end.offset == FRAMES_OFFSET + len(one) + len(two)
    assert end.last is not None
    assert (end.last.index, end.last.body) == (1, b"second")
    assert end_of(log, header, empty) == (end, 0)


def test_bytes_after_the_end_are_counted(log: Log, frames: Frames) -> None:
    header = first_header(1)
    log.put(header, frames.make(1, 0), b"torn")
    end, dropped = end_of(log, header)
    assert (end.index, dropped) == (1, 4)
    assert build_view(log.folder).dropped_tail == 4
    assert end_of(log, header, end) == (end, 4)


def test_a_continued_look_takes_zeros_for_the_end(log: Log, frames: Frames) -> None:
    header = first_header(1)
    log.put(header, frames.make(1, 0), bytes(5_000), b"stray")
    end, dropped = end_of(log, header)
    assert dropped == 5_005
    assert end_of(log, header, end) == (end, 0)


def test_a_block_with_other_bytes_than_zeros_is_looked_through(log: Log, frames: Frames) -> None:
    header = first_header(1)
    log.put(header, frames.make(1, 0), bytes(4_000), b"stray")
    end, _ = end_of(log, header)
    assert end_of(log, header, end) == (end, 4_005)


def test_nothing_is_looked_at_after_an_end_frame(log: Log, frames: Frames) -> None:
    header = first_header(1)
    head = frames.make(1, 0)
    ended = frames.make(1, 1, b"", kind=KIND_END)
    log.put(header, head, ended, b"stray", frames.make(1, 5, previous_crc=1))
    end, dropped = end_of(log, header)
    assert (end.index, dropped) == (2, 0)


def test_a_bad_frame_before_a_valid_one_is_reported(log: Log, frames: Frames) -> None:
    header = first_header(1)
    one, two, three = (frames.make(1, index) for index in range(3))
    log.put(header, one, two.replace(b"body", b"BODY"), three)
    reported(log, 1, 0, "a bad frame before a valid one", " index=1")
    log.put(header, one.replace(b"body", b"BODY"), two)
    reported(log, 1, 0, "a bad frame before a valid one", " index=0")
    two = two.replace(b"body", b"BODY")
    log.put(header, one, two, frames.make(1, 1, b"a copy"))
    reported(
        log, 1, 0, "the last frame is there as a whole, and does not match its sum", " index=1"
    )


def test_a_valid_frame_of_another_owner_is_none_of_this_log(log: Log, frames: Frames) -> None:
    header = first_header(2)
    one = frames.make(2, 0)
    others = frames.make(1, 5, previous_crc=0), frames.make(2, 5, lineage=OTHER, previous_crc=0)
    for other in others:
        log.put(header, one, frames.make(2, 1, other)[:-1])
        assert build_view(log.folder).end == 1


@pytest.mark.parametrize("field", ["index", "previous_crc", "epoch", "lineage"])
def test_a_frame_that_does_not_continue_the_log_is_reported(
    log: Log, frames: Frames, field: str
) -> None:
    header = first_header(2)
    one = frames.make(2, 0)
    made = {
        "index": lambda: frames.make(2, 2, previous_crc=frames.crcs[0]),
        "previous_crc": lambda: frames.make(2, 1, previous_crc=77),
        "epoch": lambda: frames.make(1, 1),
        "lineage": lambda: frames.make(2, 1, lineage=OTHER),
    }
    log.put(header, one, made[field]())
    reported(log, 2, 0, "a frame that does not continue the log", " index=1")


def test_a_frame_is_judged_by_the_file_that_it_stands_in(log: Log, frames: Frames) -> None:
    header = first_header(2)
    log.put(header, frames.make(2, 0))
    end, _ = end_of(log, header)
    assert end.last is not None
    check_continues(log.folder, header, end.last, 0, NO_CRC)
    with pytest.raises(CorruptDataError, match=rf"where={log.file(3, 0)} index=0"):
        check_continues(log.folder, first_header(3), end.last, 0, NO_CRC)


@pytest.mark.parametrize("before", [0, 1])
def test_frames_that_are_finished_between_two_looks_are_no_damage(
    log: Log, frames: Frames, before: int
) -> None:
    header = first_header(1)
    earlier = [frames.make(1, index) for index in range(before)]
    torn, later = frames.make(1, before), frames.make(1, before + 1)
    found = set()
    for number in range(1, 13):
        path = log.put(header, *earlier, torn[:-1], bytes(2 * MIB))
        reads = 0

        def finish(call: Call, path: Path = path, number: int = number) -> None:
            nonlocal reads
            if call.kind == "preadv" and call.target == str(path):
                reads += 1
                if reads == number:
                    log.put(header, *earlier, torn, later, bytes(2 * MIB))

        log.layer.before = finish
        end, _ = end_of(log, header)
        found.add((end.index, number <= reads))
    # It sees both frames or the older state: the look had ended, or had just read that part.
    assert found == {(before + 2, True), (before, True), (before, False)}
