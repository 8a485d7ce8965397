"""A backup or a restore is killed, done again, and then the power goes.

Injected: SIGKILL where the bytes of a chunk are written and not yet synced; the same call again,
which finds them whole; then the cut of the power of a real ext4.
Must hold: what the second call said to be done is there, every byte.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone.core.constants import KIB, MIB
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.restore import restore_backup
from siltstone.migration.backup.verify import verify_backups
from tests.support.faults.crash_file_system import CrashFileSystem
from tests.support.faults.real_disk import real_disk
from tests.support.migration.backups import content, content_of, noise
from tests.support.stores import make_store

KILLED = """
import os, signal, sys
from siltstone.cli.main import main
from siltstone.core.posix import SystemFileCalls

place = sys.argv.pop(1)
real = SystemFileCalls.fdatasync

def fdatasync(self, fd):
    path = os.readlink(f"/proc/self/fd/{fd}")
    if ".chunk" in path and path.startswith(place):
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, fd)

SystemFileCalls.fdatasync = fdatasync
main()
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[CrashFileSystem]:
    yield from real_disk(tmp_path, 512)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = make_store(tmp_path / "store", chunk_bytes=8 * MIB, containers=1)
    with siltstone.open(folder) as store:
        store.create("a").append(noise(700 * KIB))
        store.create("b").append(noise(600 * KIB))
        store.flush()
    return folder


def kill(disk: CrashFileSystem, *arguments: object) -> None:
    """Run a command until it would sync a chunk on the disk."""
    command = [sys.executable, "-c", KILLED, str(disk.folder), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_a_backup_that_continues_is_durable(folder: Path, disk: CrashFileSystem) -> None:
    place = disk.folder / "backups"
    kill(disk, "--store", folder, "backup", "create", place, "--threads", 1)
    assert create_backup(folder, place).found_fragments == 1
    disk.cut()
    disk.restart()
    assert verify_backups(place).findings == ()


def test_a_restore_that_continues_is_durable(
    folder: Path, tmp_path: Path, disk: CrashFileSystem
) -> None:
    with siltstone.open(folder) as store:
        expected = content(store)
    place, target = tmp_path / "backups", disk.folder / "new"
    create_backup(folder, place)
    kill(disk, "backup", "restore", place, target, "--threads", 1)
    assert restore_backup(place, target).found == 1
    disk.cut()
    disk.restart()
    assert content_of(target, fine=("warning", "garbage")) == expected
