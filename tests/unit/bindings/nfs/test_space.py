"""Free space as a file system reports it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.chunk_storage import UNLIMITED
from siltstone.core.errors import ChunkNotFoundError
from siltstone.core.posix import SystemFileCalls

BLOCK, FREE, FREE_FOR_USERS = 512, 1_000, 700


class SizedCalls(SystemFileCalls):
    """A file system of chosen size."""

    blocks = 5_000

    def fstatvfs(self, fd: int) -> os.statvfs_result:
        os.fstat(fd)
        sizes = (4_096, BLOCK, self.blocks, FREE, FREE_FOR_USERS, 9, 9, 9, 0, 255)
        return os.statvfs_result(sizes)


def test_what_a_plain_user_may_write_counts(tmp_path: Path) -> None:
    assert NfsChunkStorage(tmp_path, calls=SizedCalls()).free_space() == BLOCK * FREE_FOR_USERS
    real = os.statvfs(tmp_path)
    told = NfsChunkStorage(tmp_path).free_space()
    assert told == pytest.approx(real.f_bavail * real.f_frsize, rel=0.2)


def test_a_file_system_that_knows_no_size_sets_no_limit(tmp_path: Path) -> None:
    calls = SizedCalls()
    calls.blocks = 0
    assert NfsChunkStorage(tmp_path, calls=calls).free_space() == UNLIMITED


def test_a_folder_that_is_not_there_has_no_space(tmp_path: Path) -> None:
    with pytest.raises(ChunkNotFoundError):
        NfsChunkStorage(tmp_path / "no").free_space()
