"""Where a boot starts from, and which logs it refuses: a table of cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from siltstone.container.state.boot_state import (
    BootState,
    boot_state_of,
    check_begin,
    check_followed,
    check_frames,
    check_lineage,
    check_log,
)
from siltstone.core.constants import TABLE_LOG_ID
from siltstone.core.errors import LogLostError
from siltstone.core.records.checkpoint import Checkpoint, IndexFile, SystemLayout
from siltstone.core.records.frame import KIND_BATCH, Frame
from siltstone.core.records.layout import Layout
from siltstone.core.text import uuid_text
from siltstone.journal.journal_state import JournalState

LINEAGE = bytes(range(16))
OTHER = bytes(16)
NEWEST_FILE = "the newest file of the journal"
EPOCH, SAFE, NEWEST = 5, 20, 30


def checkpoint(version: int) -> Checkpoint:
    return Checkpoint(
        lineage=LINEAGE,
        epoch=EPOCH,
        sequence=0,
        system=(),
        index_files=(IndexFile(file_name="f", chunk_name=f"index {version}", length=1, crc=1),),
        index_version=version,
        index_crc=version + 1,
        replay_index=0,
        safe_index=0,
        newest_index=0,
    )


def system(segment_id: int, start: int, end: int) -> SystemLayout:
    layout = Layout(segment_id=segment_id, storage_start=start, storage_length=end)
    return SystemLayout(layout=layout, extents=(), chunks=(), sums=())


RECOVERED = JournalState(
    container=0,
    epoch=EPOCH,
    stated_epoch=EPOCH,
    checkpoint=checkpoint(100),
    checkpoint_file="the checkpoint",
    newest_file=NEWEST_FILE,
    batches=0,
    layouts=(system(TABLE_LOG_ID, 40, 140), system(TABLE_LOG_ID + 1, 1, 2)),
    safe_index=SAFE,
    newest_index=NEWEST,
    next_sequence=0,
    highest_epoch=EPOCH,
    owners=1,
    passed_over=True,
    warnings=("a warning",),
)


@pytest.fixture
def boot_state() -> BootState:
    """Of a container with a journal."""
    return boot_state_of(LINEAGE, RECOVERED)


@pytest.fixture
def new() -> BootState:
    """Of a new container."""
    return boot_state_of(LINEAGE, None)


def frame(index: int, epoch: int) -> Frame:
    return Frame(
        kind=KIND_BATCH,
        lineage=LINEAGE,
        epoch=epoch,
        index=index,
        previous_crc=0,
        count=1,
        body=b"",
        crc=0,
    )


def test_a_boot_starts_at_the_table_log_and_the_index_of_the_journal(boot_state: BootState) -> None:
    assert (
        BootState(
            lineage=LINEAGE,
            journal_state=RECOVERED,
            table_start=40,
            table_end=140,
            index_files=RECOVERED.checkpoint.index_files,
            index_version=100,
            index_crc=101,
            warnings=("a warning",),
            repaired=True,
        )
        == boot_state
    )
    without = boot_state_of(LINEAGE, replace(RECOVERED, layouts=(), passed_over=False, warnings=()))
    assert (without.table_start, without.table_end) == (0, 0)
    assert (without.repaired, without.warnings) == (False, ())


def test_a_new_container_starts_with_nothing(new: BootState) -> None:
    assert BootState(lineage=LINEAGE, journal_state=None) == new
    assert (new.index_files, new.index_version, new.index_crc) == ((), 0, 0)
    assert (new.table_start, new.table_end, new.repaired) == (0, 0, False)


def test_another_index_changes_nothing_else(boot_state: BootState) -> None:
    older = checkpoint(60)
    at = boot_state.starting_at(older)
    assert (at.index_files, at.index_version, at.index_crc) == (older.index_files, 60, 61)
    assert at.starting_at(RECOVERED.checkpoint) == boot_state
    empty = boot_state.starting_empty()
    assert (empty.index_files, empty.index_version, empty.index_crc) == ((), 0, 0)
    assert empty.starting_at(RECOVERED.checkpoint) == boot_state


def test_a_warning_is_told_once(boot_state: BootState) -> None:
    warned = boot_state.warned("another", "a warning").warned("another")
    assert warned.warnings == ("a warning", "another")
    assert replace(warned, warnings=boot_state.warnings) == boot_state


def test_a_log_of_the_same_lineage_is_accepted(boot_state: BootState, new: BootState) -> None:
    check_lineage(boot_state, LINEAGE)
    for lineage in (LINEAGE, OTHER, None):
        check_lineage(new, lineage)


@pytest.mark.parametrize(
    ("lineage", "message"),
    [
        (OTHER, "of another lineage: {help} found={OTHER} expected={LINEAGE}"),
        (None, "empty: {help} expected={LINEAGE}"),
    ],
)
def test_a_log_of_another_lineage_is_refused(
    boot_state: BootState, lineage: bytes | None, message: str
) -> None:
    with pytest.raises(LogLostError) as caught:
        check_lineage(boot_state, lineage)
    told = message.format(
        help="bring the right tier 1 back, or let siltstone recover say what is left",
        OTHER=uuid_text(OTHER),
        LINEAGE=uuid_text(LINEAGE),
    )
    assert str(caught.value) == f"the log is {told} journal={NEWEST_FILE}"


def test_a_reader_does_not_continue_with_the_history_of_a_recovery() -> None:
    followed, found = bytes(16), bytes([7]) * 16
    check_followed(followed, bytes(16))
    with pytest.raises(LogLostError) as caught:
        check_followed(followed, found)
    assert str(caught.value).startswith(
        "the container was recovered since this reader opened it, so what it showed may be lost: "
        "open the store again "
    )
    assert f"found={uuid_text(found)}" in str(caught.value)
    assert f"expected={uuid_text(followed)}" in str(caught.value)


@pytest.mark.parametrize(
    ("epoch", "first", "end"),
    [(EPOCH, SAFE, NEWEST + 1), (EPOCH + 1, 0, NEWEST + 1), (EPOCH, SAFE - 1, NEWEST + 9)],
)
def test_a_log_that_holds_what_is_needed_is_accepted(
    boot_state: BootState, epoch: int, first: int, end: int
) -> None:
    check_log(boot_state, epoch, first, end)


def test_a_new_container_needs_nothing_of_its_log(new: BootState) -> None:
    check_log(new, 0, 10**6, 0)
    check_frames(new, [frame(0, EPOCH + 9)])


@pytest.mark.parametrize(
    ("epoch", "first", "end", "message"),
    [
        (
            EPOCH - 1,
            SAFE,
            NEWEST + 1,
            "the log was not claimed by the owner who wrote the journal: it is a copy, or there is "
            "another one claimed=4 expected=5",
        ),
        (
            EPOCH,
            SAFE + 1,
            NEWEST + 1,
            "the log begins after what is needed first=21 needed=20",
        ),
        (
            EPOCH,
            SAFE,
            NEWEST,
            "the log ends before an index that was acknowledged end=30 acknowledged=30",
        ),
    ],
)
def test_a_log_that_lacks_something_is_refused(
    boot_state: BootState, epoch: int, first: int, end: int, message: str
) -> None:
    with pytest.raises(LogLostError) as caught:
        check_log(boot_state, epoch, first, end)
    assert str(caught.value) == f"{message} journal={NEWEST_FILE}"


@pytest.mark.parametrize("first", [0, SAFE, NEWEST - 1, NEWEST])
@pytest.mark.parametrize("count", [1, 11, 40])
@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH, EPOCH + 1])
def test_a_frame_of_a_later_epoch_at_the_newest_index_is_refused(
    boot_state: BootState, first: int, count: int, epoch: int
) -> None:
    frames = [
        frame(index, epoch if index == NEWEST else EPOCH + (index > NEWEST))
        for index in range(first, first + count)
    ]
    if epoch <= EPOCH or not first <= NEWEST < first + count:
        check_frames(boot_state, frames)
        return
    with pytest.raises(LogLostError) as caught:
        check_frames(boot_state, frames)
    assert str(caught.value) == (
        "the log has another frame at an index that was acknowledged "
        f"index=30 epoch=6 acknowledged_in=5 journal={NEWEST_FILE}"
    )


def test_frames_after_the_newest_index_may_be_of_any_epoch(boot_state: BootState) -> None:
    check_frames(boot_state, [])
    check_frames(boot_state, [frame(index, EPOCH + 1) for index in range(NEWEST + 1, NEWEST + 5)])


def test_frames_that_begin_after_the_safe_index_are_refused(boot_state: BootState) -> None:
    check_begin(boot_state, None)
    check_begin(boot_state, SAFE)
    with pytest.raises(LogLostError) as caught:
        check_begin(boot_state, SAFE + 1)
    assert str(caught.value) == (
        "the log was truncated beyond what is needed "
        f"first={SAFE + 1} needed={SAFE} journal={NEWEST_FILE}"
    )
    check_begin(replace(boot_state, journal_state=None), SAFE + 1)
