"""Single steps of a claim: which log is refused, its epoch, and which room it may use."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from siltstone.core.constants import KIB
from siltstone.core.errors import CorruptDataError, FencedError, LogLostError, StorageFullError
from siltstone.core.records.log_file_header import FRAMES_OFFSET
from siltstone.core.records.marker_slot import MarkerSlot
from siltstone.testing.faults.file_layer import FileLayer
from siltstone.tier1.file.chain import LogView, build_view
from siltstone.tier1.file.claim import (
    check_lineage,
    claim_marker,
    create_first_file,
    sweep,
    take_over,
)
from siltstone.tier1.file.folder import BLOCK_BYTES, LogFolder, OpenFile
from siltstone.tier1.file.marker import Marker
from siltstone.tier1.file.names import FileKey
from tests.support.file_log.log_world import FILE_BYTES, LINEAGE, create, log_at, put, shown

OTHER = bytes(16)
NONCE = bytes([7]) * 16


@pytest.fixture
def folder(tmp_path: Path) -> LogFolder:
    return LogFolder(FileLayer(), str(tmp_path), 0)


def view_of(folder: LogFolder, path: Path, *bodies: bytes) -> LogView:
    log = create(path)
    put(log, *bodies)
    log.abandon()
    return build_view(folder)


def refused(folder: LogFolder, view: LogView, lineage: bytes, *, new: bool) -> str:
    with pytest.raises(LogLostError) as caught:
        check_lineage(folder, view, lineage, new=new)
    return str(caught.value)


def test_a_new_container_takes_a_log_without_frames(folder: LogFolder, tmp_path: Path) -> None:
    check_lineage(folder, LogView(), LINEAGE, new=True)
    empty = view_of(folder, tmp_path)
    check_lineage(folder, empty, OTHER, new=True)
    check_lineage(folder, empty, LINEAGE, new=False)
    assert refused(folder, empty, OTHER, new=False) == (
        f"the log is of another lineage path={folder.path}"
    )


def test_a_log_with_frames_is_that_of_its_lineage_alone(folder: LogFolder, tmp_path: Path) -> None:
    view = view_of(folder, tmp_path, b"a")
    check_lineage(folder, view, LINEAGE, new=False)
    where = f"path={folder.path}"
    assert refused(folder, view, LINEAGE, new=True) == (
        f"the log of a new container holds frames {where}"
    )
    assert refused(folder, view, OTHER, new=False) == f"the log is of another lineage {where}"
    assert refused(folder, LogView(), LINEAGE, new=False) == f"the log is empty {where}"


def test_a_log_whose_newest_frame_is_of_another_lineage_is_refused(
    folder: LogFolder, tmp_path: Path
) -> None:
    create(tmp_path).abandon()
    other = log_at(tmp_path)
    other.claim(lineage=OTHER, new=True, above=0, takeover=True, owner="another container")
    put(other, b"a")
    other.abandon()
    view = build_view(folder)
    assert view.headers_seen == {LINEAGE, OTHER}
    check_lineage(folder, view, OTHER, new=False)
    assert refused(folder, view, LINEAGE, new=False) == (
        f"the newest frame is of another lineage path={folder.path}"
    )


@pytest.mark.parametrize(
    ("above", "names", "epoch"), [(0, (), 2), (1, (), 2), (5, (), 6), (0, (8,), 9), (9, (8,), 10)]
)
def test_a_claim_takes_the_epoch_above_all_that_are_known(
    folder: LogFolder, tmp_path: Path, above: int, names: tuple[int, ...], epoch: int
) -> None:
    create(tmp_path).abandon()
    for number in names:
        Path(folder.file(FileKey(number, 0).name)).touch()
    marker = Marker.create(folder)
    slot, data = claim_marker(folder, marker, above=above, nonce=NONCE)
    assert slot == MarkerSlot(epoch=epoch, nonce=NONCE)
    assert marker.content().newest == slot
    assert data == marker.data()
    marker.close()


def test_a_claim_next_to_a_lost_marker_is_refused(folder: LogFolder, tmp_path: Path) -> None:
    create(tmp_path).abandon()
    Path(folder.file("marker")).unlink()
    marker = Marker.create(folder)
    with pytest.raises(CorruptDataError) as caught:
        claim_marker(folder, marker, above=0, nonce=NONCE)
    assert caught.value.where == folder.path
    assert str(caught.value) == f"the marker was lost where={folder.path}"
    assert marker.content().never_written
    # Files without a header do not prove a claim.
    for key in folder.log_files():
        folder.unlink(key)
    Path(folder.file(FileKey(3, 0).name)).touch()
    assert claim_marker(folder, marker, above=0, nonce=NONCE)[0].epoch == 4
    marker.close()


def claimed(folder: LogFolder) -> tuple[Marker, MarkerSlot]:
    marker = Marker.create(folder)
    return marker, claim_marker(folder, marker, above=0, nonce=NONCE)[0]


def test_a_full_disk_gives_the_room_of_older_files_without_a_header(
    folder: LogFolder, tmp_path: Path
) -> None:
    create(tmp_path).abandon()
    marker, slot = claimed(folder)
    older = folder.log_files()
    assert older == [FileKey(1, 0), FileKey(1, 1)]
    Path(folder.file(FileKey(slot.epoch, 5).name)).touch()
    layer = folder.calls
    assert isinstance(layer, FileLayer)
    layer.fail_call("posix_fallocate", 1, error=errno.ENOSPC)
    file = create_first_file(folder, marker, slot, FILE_BYTES)
    assert (file.key, file.size) == (FileKey(slot.epoch, 0), FILE_BYTES)
    assert folder.log_files() == [FileKey(1, 0), file.key, FileKey(slot.epoch, 5)]
    layer.close(file.fd)
    marker.close()


def test_a_claim_that_is_not_the_newest_takes_no_room_of_others(
    folder: LogFolder, tmp_path: Path
) -> None:
    create(tmp_path).abandon()
    marker, slot = claimed(folder)
    newer, _ = claimed(folder)
    newer.close()
    layer = folder.calls
    assert isinstance(layer, FileLayer)
    for number in (1, 2):
        layer.fail_call("posix_fallocate", number, error=errno.ENOSPC)
    with pytest.raises(StorageFullError):
        create_first_file(folder, marker, slot, FILE_BYTES)
    assert folder.log_files() == [FileKey(1, 0), FileKey(1, 1)]
    marker.close()


def taken_over(folder: LogFolder) -> None:
    """A claim that wrote its header and was never used."""
    marker, slot = claimed(folder)
    file = create_first_file(folder, marker, slot, FILE_BYTES)
    take_over(folder, marker, (slot, marker.data()), file, lineage=LINEAGE, new=False)
    folder.calls.close(file.fd)
    marker.close()


def test_a_slower_claim_ends_when_it_finds_the_header_of_a_later_one(
    folder: LogFolder, tmp_path: Path
) -> None:
    log = create(tmp_path)
    put(log, b"a")
    log.abandon()
    marker, slot = claimed(folder)
    data = marker.data()
    file: OpenFile = create_first_file(folder, marker, slot, FILE_BYTES)
    taken_over(folder)
    with pytest.raises(FencedError) as caught:
        take_over(folder, marker, (slot, data), file, lineage=LINEAGE, new=False)
    assert str(caught.value) == "a later claim was faster epoch=2 newer=3"
    folder.calls.close(file.fd)
    marker.close()


def test_a_log_that_became_another_one_before_the_marker_is_refused(
    folder: LogFolder, tmp_path: Path
) -> None:
    log = create(tmp_path)
    put(log, b"a")
    log.abandon()
    marker, slot = claimed(folder)
    file = create_first_file(folder, marker, slot, FILE_BYTES)
    with pytest.raises(LogLostError) as caught:
        take_over(folder, marker, (slot, marker.data()), file, lineage=OTHER, new=False)
    assert str(caught.value) == f"the log is of another lineage path={folder.path}"
    assert folder.header(file.key) is None
    folder.calls.close(file.fd)
    marker.close()


def test_a_claim_of_a_log_without_frames_states_nothing_and_copies_nothing(
    folder: LogFolder, tmp_path: Path
) -> None:
    create(tmp_path).abandon()
    marker, slot = claimed(folder)
    file = create_first_file(folder, marker, slot, FILE_BYTES)
    done = take_over(folder, marker, (slot, marker.data()), file, lineage=LINEAGE, new=False)
    header = done.header
    assert (header.predecessor_epoch, header.predecessor_end, header.predecessor_crc) == (0, 0, 0)
    assert (header.copy_length, header.frames_offset) == (0, FRAMES_OFFSET)
    assert (header.first_index, header.previous_crc, done.older) == (0, 0, ())
    folder.calls.close(file.fd)
    marker.close()


def test_what_a_claim_leaves_to_the_writer(folder: LogFolder, tmp_path: Path) -> None:
    log = create(tmp_path)
    put(log, b"a", b"b")
    log.abandon()
    taken_over(folder)  # It got no frame, so it is no predecessor.
    marker, slot = claimed(folder)
    data = marker.data()
    first = create_first_file(folder, marker, slot, FILE_BYTES)
    done = take_over(folder, marker, (slot, data), first, lineage=LINEAGE, new=False)
    header = done.header
    assert (done.slot, done.marker_data, done.file) == (slot, data, first)
    assert (header.lineage, header.nonce, header.container) == (LINEAGE, NONCE, 0)
    assert (header.number, header.epoch, header.first_index) == (0, 3, 2)
    assert (header.predecessor_epoch, header.predecessor_end) == (1, 2)
    assert header.previous_crc == header.predecessor_crc
    assert header.copy_length > 0
    assert [part.key for part in done.older] == [FileKey(1, 0)]
    assert done.older[-1].copy == header
    assert done.dropped_tail == 0
    assert folder.header(first.key) == header
    folder.calls.close(first.fd)
    marker.close()
    assert shown(tmp_path) == [b"a", b"b"]


def test_a_sweep_keeps_the_chain_and_what_is_not_older(folder: LogFolder, tmp_path: Path) -> None:
    log = create(tmp_path)
    put(log, b"a")
    log.abandon()
    taken_over(folder)
    chain = [part for part in build_view(folder).ranges if part.key.epoch == 1]
    for key in (FileKey(3, 0), FileKey(3, 1), FileKey(4, 0)):
        Path(folder.file(key.name)).touch()
    sweep(folder, chain, 3)
    assert folder.log_files() == [FileKey(1, 0), FileKey(3, 0), FileKey(3, 1), FileKey(4, 0)]


@pytest.mark.parametrize("room", [True, False])
def test_a_file_that_is_too_small_for_the_copy_grows(
    folder: LogFolder, tmp_path: Path, room: bool
) -> None:
    log = create(tmp_path)
    put(log, b"x" * 9000)
    log.abandon()
    marker, slot = claimed(folder)
    data = marker.data()
    file = create_first_file(folder, marker, slot, 8 * KIB)
    layer = folder.calls
    assert isinstance(layer, FileLayer)
    if room:
        done = take_over(folder, marker, (slot, data), file, lineage=LINEAGE, new=False)
        needed = FRAMES_OFFSET + done.header.copy_length
        assert 8 * KIB < needed <= done.file.size < needed + BLOCK_BYTES
        assert not done.file.size % BLOCK_BYTES
        assert layer.fstat(file.fd).st_size == done.file.size
        assert shown(tmp_path) == [b"x" * 9000]
    else:
        # Twice, since unused files of the older owner make room.
        layer.fail_call("posix_fallocate", 1, error=errno.ENOSPC)
        layer.fail_call("posix_fallocate", 2, error=errno.ENOSPC)
        with pytest.raises(StorageFullError) as caught:
            take_over(folder, marker, (slot, data), file, lineage=LINEAGE, new=False)
        told = f"no room for a log file path={folder.path} bytes={16 * KIB}"
        assert str(caught.value) == told
        assert layer.fstat(file.fd).st_size == 8 * KIB
        assert folder.header(file.key) is None
    layer.close(file.fd)
    marker.close()
