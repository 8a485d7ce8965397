"""Large writes leave piece by piece; all that was given is there, and synced last."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from siltstone.core.posix import OUT_BYTES, write_durably
from siltstone.testing.file_layer import FileLayer
from siltstone.testing.power_cut import PowerCut


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
