"""Large writes leave memory piece by piece; all given bytes are there, and synced at the end."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from siltstone.core.chunk_storage import Buffer
from siltstone.core.storage.durable_writes import OUT_BYTES, write_durably, write_stream_durably
from siltstone.testing.faults.file_layer import FileLayer
from siltstone.testing.faults.power_cut import PowerCut


def _file(path: Path, calls: FileLayer) -> int:
    fd = calls.open(str(path), os.O_RDWR | os.O_CREAT)
    calls.forget()
    return fd


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        [0, 5],
        [OUT_BYTES],
        [OUT_BYTES + 1],
        [1, OUT_BYTES, 0, 3 * OUT_BYTES, 7],
        [OUT_BYTES // 2] * 5,
    ],
)
def test_all_bytes_are_written_in_their_order_and_synced_once(
    tmp_path: Path, sizes: list[int]
) -> None:
    calls = FileLayer()
    fd = _file(tmp_path / "a", calls)
    buffers = [os.urandom(size) for size in sizes]
    write_durably(calls, fd, buffers, 3)
    assert (tmp_path / "a").read_bytes()[3:] == b"".join(buffers)
    kinds = [call.kind for call in calls.calls]
    assert kinds[-1] == "fdatasync"
    assert kinds.count("fdatasync") == 1
    assert kinds.count("write_out") == max(0, -(-sum(sizes) // OUT_BYTES) - 1)
    calls.close(fd)


def test_an_error_on_the_way_to_the_disk_is_an_error_of_the_write(tmp_path: Path) -> None:
    calls = FileLayer()
    fd = _file(tmp_path / "a", calls)
    calls.fail_call("write_out", 2)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write_durably(calls, fd, [bytes(4 * OUT_BYTES)], 0)
    assert not calls.targets("fdatasync")
    calls.close(fd)


def test_nothing_is_durable_before_the_sync(tmp_path: Path) -> None:
    disk = PowerCut(tmp_path)
    fd = _file(tmp_path / "a", disk)
    disk.fail_call("fdatasync")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write_durably(disk, fd, [bytes([1]) * (OUT_BYTES + 1)], 0)
    disk.write_out(fd, 0, OUT_BYTES)
    disk.cut()
    disk.restart()
    assert not (tmp_path / "a").exists() or 1 not in (tmp_path / "a").read_bytes()


class _Freed(FileLayer):
    """Notes which bytes were sent to the disk, and which were freed from memory."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0
        self.sent = 0
        self.waited = 0
        self.freed: list[tuple[int, int]] = []

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        count = super().pwritev(fd, buffers, offset)
        self.written = offset + count
        return count

    def write_out(self, fd: int, offset: int, length: int) -> None:
        # The bytes of this call are still in flight: only the previous call is waited for.
        super().write_out(fd, offset, length)
        self.waited, self.sent = self.sent, offset + length

    def fdatasync(self, fd: int) -> None:
        super().fdatasync(fd)
        self.waited = self.written

    def free_memory(self, fd: int, offset: int, length: int) -> None:
        super().free_memory(fd, offset, length)
        assert length > 0
        assert offset + length <= self.waited
        self.freed.append((offset, offset + length))


@pytest.mark.parametrize("count", [3, 4, 12])
def test_a_large_stream_stays_in_memory_no_longer_than_it_takes_to_write_it(
    tmp_path: Path, count: int
) -> None:
    calls = _Freed()
    fd = _file(tmp_path / "a", calls)
    pieces = [os.urandom(OUT_BYTES // 2) for _ in range(count)]
    write_stream_durably(calls, fd, pieces, 0)
    assert (tmp_path / "a").read_bytes() == b"".join(pieces)
    ends = [0, *(end for _, end in calls.freed)]
    assert [begin for begin, _ in calls.freed] == ends[:-1], "one after the other"
    assert ends[-1] == calls.written
    calls.close(fd)


def test_what_is_small_or_given_as_a_whole_stays_in_memory(tmp_path: Path) -> None:
    calls = _Freed()
    fd = _file(tmp_path / "a", calls)
    write_stream_durably(calls, fd, [bytes(OUT_BYTES)], 0)
    write_durably(calls, fd, [bytes(4 * OUT_BYTES)], 0)
    assert not calls.freed
    calls.close(fd)


def test_a_stream_is_written_where_memory_cannot_be_let_go_of(tmp_path: Path) -> None:
    calls = FileLayer()
    fd = _file(tmp_path / "a", calls)
    calls.fail_call("free_memory")
    write_stream_durably(calls, fd, [b"x" * OUT_BYTES] * 3, 0)
    assert (tmp_path / "a").read_bytes() == b"x" * 3 * OUT_BYTES
    calls.close(fd)
