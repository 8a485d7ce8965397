"""The two slots of the marker, and how fencing all owners and setting a log aside use them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import CorruptDataError, FencedError, LogError
from siltstone.core.records.marker_slot import SLOT_BYTES, MarkerSlot, encode_marker_slot
from siltstone.testing.faults.file_layer import FileLayer
from siltstone.tier1.file.folder import LogFolder
from siltstone.tier1.file.marker import (
    MARKER_BYTES,
    Marker,
    MarkerContent,
    marker_epoch,
    newest_epoch,
)
from siltstone.tier1.file.names import FileKey
from siltstone.tier1.file.set_aside import fence_all, set_folder_aside
from tests.support.faults.held_things import held_uncollected
from tests.support.file_log.log_world import bodies, claim, create, log_at, put, shown

EMPTY = bytes(SLOT_BYTES)
TORN = b"half a slot".ljust(SLOT_BYTES, b"\0")


def slot(epoch: int) -> MarkerSlot:
    return MarkerSlot(epoch=epoch, nonce=epoch.to_bytes(16))


def encoded(epoch: int) -> bytes:
    return encode_marker_slot(slot(epoch))


@pytest.fixture
def folder(tmp_path: Path) -> LogFolder:
    folder = LogFolder(FileLayer(), str(tmp_path), 0)
    folder.make()
    return folder


@pytest.fixture
def environment() -> Iterator[SystemEnvironment]:
    environment = SystemEnvironment()
    yield environment
    environment.close()


def marker_file(folder: LogFolder) -> Path:
    return Path(folder.file("marker"))


@pytest.mark.parametrize(
    ("first", "second", "newest", "free_slot", "never_written"),
    [
        (EMPTY, EMPTY, 0, 0, True),
        (TORN, EMPTY, 0, 0, False),
        (EMPTY, TORN, 0, 0, False),
        (encoded(1), EMPTY, 1, 1, False),
        (EMPTY, encoded(1), 1, 0, False),
        (encoded(1), TORN, 1, 1, False),
        (TORN, encoded(1), 1, 0, False),
        (encoded(8), encoded(7), 8, 1, False),
        (encoded(7), encoded(8), 8, 0, False),
    ],
)
def test_the_newest_slot_counts_and_the_other_one_is_free(
    first: bytes, second: bytes, newest: int, free_slot: int, never_written: bool
) -> None:
    content = MarkerContent(first + second, "marker")
    assert content.newest == (slot(newest) if newest else None)
    assert (content.epoch, content.free_slot) == (newest, free_slot)
    assert content.never_written == never_written


def test_two_damaged_slots_are_damage_and_the_file_is_named() -> None:
    with pytest.raises(CorruptDataError) as caught:
        MarkerContent(TORN + TORN, "/the/marker")
    assert caught.value.where == "/the/marker"
    assert str(caught.value) == "both slots of the marker are damaged where=/the/marker"


def test_a_damaged_marker_is_named(folder: LogFolder) -> None:
    marker_file(folder).write_bytes(TORN + TORN)
    with pytest.raises(CorruptDataError) as caught:
        marker_epoch(folder)
    assert caught.value.where == folder.file("marker")


def test_a_new_marker_has_room_for_two_slots_and_is_durable(folder: LogFolder) -> None:
    layer = folder.calls
    assert isinstance(layer, FileLayer)
    layer.calls.clear()
    marker = Marker.create(folder)
    assert marker_file(folder).read_bytes() == EMPTY * 2
    assert marker.content().never_written
    synced = [call.target for call in layer.calls if call.kind == "fsync"]
    assert synced == [folder.file("marker"), folder.path]
    # No other claimant came between.
    assert [call.kind for call in layer.calls if call.kind == "flock"] == ["flock", "flock"]
    marker.close()


def test_a_marker_that_is_there_is_kept_and_made_durable_again(folder: LogFolder) -> None:
    marker_file(folder).write_bytes(encoded(7) + encoded(8))
    layer = folder.calls
    assert isinstance(layer, FileLayer)
    layer.calls.clear()
    marker = Marker.create(folder)
    assert marker.content().epoch == 8
    assert bytes(marker.data()) == encoded(7) + encoded(8)
    assert [call.target for call in layer.calls if call.kind == "fsync"] == [
        folder.file("marker"),
        folder.path,
    ]
    marker.close()


@pytest.mark.parametrize("length", [0, 1, SLOT_BYTES, MARKER_BYTES - 1])
def test_a_marker_that_was_cut_reads_as_if_filled_with_zeros(
    folder: LogFolder, length: int
) -> None:
    marker_file(folder).write_bytes((encoded(3) + EMPTY)[:length])
    assert marker_epoch(folder) == (3 if length >= SLOT_BYTES else 0)


def test_a_write_goes_to_the_free_slot_and_shows_both(folder: LogFolder) -> None:
    marker_file(folder).write_bytes(encoded(7) + encoded(8))
    marker = Marker.create(folder)
    assert bytes(marker.write(marker.content(), slot(9))) == encoded(9) + encoded(8)
    assert bytes(marker.write(marker.content(), slot(10))) == encoded(9) + encoded(10)
    assert marker_file(folder).read_bytes() == encoded(9) + encoded(10)
    marker.close()


def test_a_failed_creation_leaves_no_descriptor(folder: LogFolder) -> None:
    layer = folder.calls
    assert isinstance(layer, FileLayer)
    before = held_uncollected()
    layer.fail_call("fsync", 1, error=errno.EIO)
    with pytest.raises(OSError, match="error"):
        Marker.create(folder)
    assert not held_uncollected() - before


def test_the_newest_epoch_is_that_of_the_marker_or_of_a_name(folder: LogFolder) -> None:
    assert (marker_epoch(folder), newest_epoch(folder)) == (0, 0)
    Path(folder.file(FileKey(4, 0).name)).touch()
    assert (marker_epoch(folder), newest_epoch(folder)) == (0, 4)
    marker_file(folder).write_bytes(EMPTY + encoded(6))
    assert (marker_epoch(folder), newest_epoch(folder)) == (6, 6)
    Path(folder.file(FileKey(9, 1).name)).touch()
    assert (marker_epoch(folder), newest_epoch(folder)) == (6, 9)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, 4 + 1),
        (EMPTY + encoded(2), 4 + 1),
        (encoded(6) + encoded(7), 7 + 1),
        (TORN + TORN, 4 + 1),
    ],
)
def test_fencing_everybody_is_an_epoch_above_all(
    folder: LogFolder, environment: SystemEnvironment, content: bytes | None, expected: int
) -> None:
    Path(folder.file(FileKey(4, 0).name)).touch()
    if content is not None:
        marker_file(folder).write_bytes(content)
    layer = folder.calls
    assert isinstance(layer, FileLayer)
    layer.calls.clear()
    fence_all(folder, environment)
    assert marker_epoch(folder) == expected
    last = [call.kind for call in layer.calls if call.kind in ("pwritev", "fdatasync")][-2:]
    assert last == ["pwritev", "fdatasync"]


@pytest.mark.parametrize("content", [b"", EMPTY * 2, TORN * 2])
def test_the_first_fence_of_an_empty_folder_is_epoch_1(
    folder: LogFolder, environment: SystemEnvironment, content: bytes
) -> None:
    marker_file(folder).write_bytes(content)
    fence_all(folder, environment)
    assert marker_epoch(folder) == 1


@pytest.mark.parametrize("damaged", [False, True])
def test_an_owner_acknowledges_nothing_after_everybody_was_fenced(
    tmp_path: Path, environment: SystemEnvironment, damaged: bool
) -> None:
    log = create(tmp_path)
    put(log, b"a")
    folder = LogFolder(FileLayer(), str(tmp_path), 0)
    if damaged:
        marker_file(folder).write_bytes(TORN + TORN)
    fence_all(folder, environment)
    with pytest.raises((FencedError, LogError)):
        put(log, b"b")
    log.abandon()


@pytest.mark.parametrize("content", [None, TORN * 2])
def test_a_reader_that_a_fence_let_in_reads_to_the_last_frame(
    tmp_path: Path, content: bytes | None
) -> None:
    """Its owner may have acknowledged that frame, and no claim decides about it any more."""
    log = create(tmp_path)
    put(log, b"a")
    put(log, b"b")
    log.abandon()
    path = tmp_path / "c0" / "marker"
    path.unlink() if content is None else path.write_bytes(content)
    recovering = log_at(tmp_path)
    assert recovering.holder().epoch == recovering.newest_epoch() == 1
    recovering.fence_all()
    reader = recovering.open_read()
    assert bodies(reader.read(reader.first())) == [b"a", b"b"]
    reader.close()
    recovering.close()
    after = claim(tmp_path)
    assert shown(tmp_path)[:2] == [b"a", b"b"]
    after.abandon()


@pytest.mark.parametrize("content", [TORN * 2, b""])
def test_an_owner_takes_no_damaged_marker_for_one_that_says_nothing(
    tmp_path: Path, content: bytes
) -> None:
    log = create(tmp_path)
    put(log, b"a")
    marker_file(LogFolder(FileLayer(), str(tmp_path), 0)).write_bytes(content)
    if content:
        with pytest.raises(CorruptDataError):
            log.newest_epoch()
    with pytest.raises((FencedError, LogError, CorruptDataError)):
        put(log, b"b")
    log.abandon()


def test_a_slot_of_a_marker_that_was_cut_is_kept_by_a_claim(tmp_path: Path) -> None:
    for _ in range(2):
        log = create(tmp_path) if not list(tmp_path.iterdir()) else claim(tmp_path)
        put(log, b"a")
        log.abandon()
    path = tmp_path / "c0" / "marker"
    path.write_bytes(path.read_bytes()[:SLOT_BYTES])
    log = claim(tmp_path)
    assert log.epoch == 3
    assert shown(tmp_path)[:2] == [b"a", b"a"]
    assert path.stat().st_size == MARKER_BYTES
    log.abandon()


def test_fencing_and_putting_aside_what_is_not_there_makes_nothing(
    tmp_path: Path, environment: SystemEnvironment
) -> None:
    folder = LogFolder(FileLayer(), str(tmp_path / "none"), 0)
    fence_all(folder, environment)
    assert set_folder_aside(folder) is None
    assert list(tmp_path.iterdir()) == []


def test_logs_put_aside_are_numbered_and_keep_what_they_hold(tmp_path: Path) -> None:
    layer = FileLayer()
    folder = LogFolder(layer, str(tmp_path), 0)
    for number in (1, 2, 3):
        log = create(tmp_path)
        put(log, bytes([number]))
        log.abandon()
        layer.calls.clear()
        place = set_folder_aside(folder)
        assert place == f"{folder.path}-aside-{number}"
        assert [call.target for call in layer.calls if call.kind == "fsync"] == [str(tmp_path)]
        assert not folder.exists()
    (tmp_path / "c0-aside-2").rename(tmp_path / "c0")
    assert shown(tmp_path) == [b"\2"]
    claim(tmp_path).abandon()
