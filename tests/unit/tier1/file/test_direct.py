"""Large frames that bypass the page cache: what is in the files, and what failures lead to.

What may happen: the file system refuses, a call fails or is cut short, small and large frames
alternate, a reader reads next to the owner. What must hold: the files are byte for byte as if
written by the page cache; where it cannot be bypassed, everything continues with it.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.core.chunk_storage import Buffer
from siltstone.core.constants import KIB
from siltstone.core.errors import LogError
from siltstone.core.posix import PathName
from siltstone.core.records.frame import OVERHEAD_BYTES
from siltstone.core.records.log_file_header import FRAMES_OFFSET
from siltstone.testing.faults.file_layer import FileLayer
from siltstone.tier1.file.direct import DIRECT_BYTES_MIN
from siltstone.tier1.file.fenced_log import FileFencedLog
from siltstone.tier1.file.folder import BLOCK_BYTES
from tests.support.file_log.log_world import (
    EXT4,
    LINEAGE,
    MEMORY,
    Unsynced,
    bodies,
    claim,
    files,
    log_at,
    put,
    shown,
)

FROM = 1_000
FILE_BYTES = 32 * KIB


class Disk(FileLayer):
    """Stands for a disk that is written without the page cache, on any file system.

    It requires what a disk requires: whole blocks at block borders, from page-aligned memory.

    Attributes:
        direct: open descriptors for such writes.
        refuses: the errno of an open or a write of such a descriptor; 0 for success.
        where: the refused call: ``open``, ``pwritev`` or ``fstat``.
        short: bytes by which such a write is cut short.
        count: number of such writes.
    """

    def __init__(self) -> None:
        super().__init__(Unsynced())
        self.direct: set[int] = set()
        self.refuses = 0
        self.where = "pwritev"
        self.short = 0
        self.count = 0

    def open(
        self, path: PathName, flags: int, mode: int = 0o666, *, dir_fd: int | None = None
    ) -> int:
        is_direct = flags & os.O_DIRECT and flags & os.O_RDWR
        if is_direct and self.where == "open":
            self._refuse()
        fd = super().open(path, flags & ~os.O_DIRECT, mode, dir_fd=dir_fd)
        if is_direct:
            self.direct.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self.direct.discard(fd)
        super().close(fd)

    def fstat(self, fd: int) -> os.stat_result:
        if fd in self.direct and self.where == "fstat":
            self._refuse()
        return super().fstat(fd)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        if fd in self.direct:
            self.count += 1
            if self.where == "pwritev":
                self._refuse()
            (buffer,) = buffers
            address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
            assert not any(value % BLOCK_BYTES for value in (address, offset, len(buffer)))
            if self.short:
                return super().pwritev(fd, [memoryview(buffer)[: -self.short]], offset)
        return super().pwritev(fd, buffers, offset)

    def _refuse(self) -> None:
        if self.refuses:
            raise OSError(self.refuses, os.strerror(self.refuses))


@pytest.fixture(autouse=True)
def _threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DIRECT_BYTES_MIN > FROM
    monkeypatch.setattr("siltstone.tier1.file.writer.DIRECT_BYTES_MIN", FROM)


def made(path: Path, disk: Disk, system: object = EXT4) -> FileFencedLog:
    log = log_at(path, disk, file_bytes=FILE_BYTES, file_system=system)  # type: ignore[arg-type]
    log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="first")
    return log


def body(number: int, length: int) -> bytes:
    return bytes((number + place) % 251 + 1 for place in range(length))


def content(path: Path) -> list[bytes]:
    """The files without their headers."""
    return [file.read_bytes()[FRAMES_OFFSET:] for file in files(path)]


LENGTHS = st.one_of(
    st.integers(1, 200), st.integers(FROM, 9_000), st.sampled_from([4096 - 64, 4096, 8192, 12_200])
)


@pytest.mark.slow
@settings(max_examples=25)
@given(lengths=st.lists(LENGTHS, min_size=1, max_size=12), parts=st.integers(1, 5))
def test_the_files_are_those_that_the_page_cache_writes(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], parts: int
) -> None:
    """For any sizes, and wherever a block or a file ends."""
    found = []
    for system in (EXT4, MEMORY):
        path, disk = tmp_path_factory.mktemp("log"), Disk()
        log = made(path, disk, system)
        for number, length in enumerate(lengths):
            data = memoryview(body(number, length))
            step = -(-length // parts)
            log.append([data[at : at + step] for at in range(0, length, step)], count=1)
        assert bool(disk.count) == (system is EXT4 and max(lengths) >= FROM)
        found.append(content(path))
        log.abandon()
        assert not disk.direct
        assert shown(path) == [body(number, length) for number, length in enumerate(lengths)]
    assert found[0] == found[1]


def test_a_large_frame_where_one_ended_in_the_file_before(tmp_path: Path) -> None:
    """The bytes before the frame in its block are those of its own file."""
    disk = Disk()
    log = made(tmp_path, disk)
    small, beginning = 900 + OVERHEAD_BYTES, 8
    rest = (FILE_BYTES - FRAMES_OFFSET) // small - beginning
    sent = [body(0, beginning * small - OVERHEAD_BYTES)]
    sent += [body(number, 900) for number in range(1, 1 + rest + beginning)]
    sent.append(body(99, 5_000))
    put(log, *sent)
    assert disk.count == 2
    assert shown(tmp_path) == sent
    log.abandon()


def test_a_reader_next_to_it_sees_each_frame(tmp_path: Path) -> None:
    """On the file system of the test, without its page cache if possible."""
    log = log_at(tmp_path, file_bytes=FILE_BYTES, file_system=EXT4)
    log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="first")
    reader = log_at(tmp_path).open_read()
    sent = []
    for number, length in enumerate((9_000, 10, 5_000, 5_000, 3, 20_000, 2_000, 700)):
        sent.append(body(number, length))
        put(log, sent[-1])
        assert bodies(reader.read(0)) == sent
    log.abandon()


@pytest.mark.parametrize("where", ["open", "pwritev"])
@pytest.mark.parametrize("error", [errno.EINVAL, errno.EOPNOTSUPP])
def test_where_the_file_system_refuses_it_the_page_cache_takes_all(
    tmp_path: Path, where: str, error: int
) -> None:
    disk = Disk()
    disk.where, disk.refuses = where, error
    log = made(tmp_path, disk)
    sent = [body(number, 5_000 + number) for number in range(8)]
    put(log, *sent)
    assert shown(tmp_path) == sent
    assert disk.count == (where == "pwritev"), "it is tried once"
    log.abandon()
    assert not disk.direct


def test_a_file_that_cannot_be_looked_at_is_closed_again(tmp_path: Path) -> None:
    disk = Disk()
    disk.where, disk.refuses = "fstat", errno.EIO
    log = made(tmp_path, disk)
    put(log, body(0, 5_000), body(1, 5_000))
    assert shown(tmp_path) == [body(0, 5_000), body(1, 5_000)]
    assert (disk.count, disk.direct) == (0, set())
    log.abandon()


@pytest.mark.parametrize(
    ("refuses", "short"), [(errno.EIO, 0), (errno.ENOSPC, 0), (0, 4_096), (0, 8_192)]
)
def test_a_failed_write_ends_the_owner_and_harms_nothing_before_it(
    tmp_path: Path, refuses: int, short: int
) -> None:
    disk = Disk()
    log = made(tmp_path, disk)
    sure = [body(0, 3_000), body(1, 100), body(2, 5_001)]
    put(log, *sure)
    disk.refuses, disk.short = refuses, short
    with pytest.raises(LogError):
        put(log, body(3, 9_000))
    with pytest.raises(LogError):
        put(log, body(4, 10))
    log.abandon()
    assert not disk.direct
    again = claim(tmp_path)
    assert bodies(again.read(0)) == sure
    put(again, body(5, 5_000))
    assert shown(tmp_path) == [*sure, body(5, 5_000)]
    again.abandon()


def test_a_folder_of_another_log_is_not_written_to(tmp_path: Path) -> None:
    """An owner whose log was set aside writes to its own files, and to no others."""
    disk = Disk()
    log = made(tmp_path, disk)
    put(log, body(0, 100))
    (tmp_path / "c0").rename(tmp_path / "aside")
    other = made(tmp_path, Disk())
    before = content(tmp_path)
    put(log, body(1, 5_000))
    assert content(tmp_path) == before
    assert body(1, 5_000) in (tmp_path / "aside" / files(tmp_path)[0].name).read_bytes()
    for each in (log, other):
        each.abandon()
    assert not disk.direct


def test_files_are_made_during_the_appends_without_zeros_too(tmp_path: Path) -> None:
    """Frames that bypass the page cache need no zeros, and a roll finds its file."""
    disk = Disk()
    log = made(tmp_path, disk)
    put(log, body(0, 10))
    put(log, *(body(number, 9_000) for number in range(2)))
    made_before = len(files(tmp_path))
    log.tend()
    assert len(files(tmp_path)) == made_before + 1
    created = disk.targets("posix_fallocate")
    put(log, *(body(number, 9_000) for number in range(2)))
    assert disk.targets("posix_fallocate") == created, "nothing had to be made meanwhile"
    log.abandon()
