"""The disk whose power is cut, as the tests that use it need it.

What may happen: another program makes a mount namespace, as the server of NFS does, and so holds a
copy of the mount; or the process that uses the disk is killed. What must hold: after a cut the
disk works again and has what was synced; nothing of it outlives its user.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.faults.crash_file_system import CrashFileSystem
from tests.support.faults.real_disk import real_disk

PATIENCE_S = 120.0
ROOT = Path(__file__).parents[2]
USER = """
import sys
from pathlib import Path
from tests.support.faults.crash_file_system import CrashFileSystem

with CrashFileSystem(Path(sys.argv[1]), mebibytes=8) as disk:
    print("mounted", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[CrashFileSystem]:
    yield from real_disk(tmp_path, 8)


@contextmanager
def another_namespace() -> Iterator[None]:
    """Hold a copy of every mount that is there now."""
    command = ["unshare", "--mount", "sh", "-c", "echo copied; read -r _"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"copied\n"
        yield
        process.communicate()


def write(disk: CrashFileSystem, name: str) -> None:
    """Write a file durably."""
    with (disk.folder / name).open("wb") as file:
        file.write(name.encode())
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(disk.folder, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def files(disk: CrashFileSystem) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in disk.folder.iterdir() if path.is_file()}


def test_it_works_after_a_cut_though_another_namespace_has_the_mount(disk: CrashFileSystem) -> None:
    write(disk, "first")
    with another_namespace():
        disk.cut()
        disk.restart()
        assert files(disk) == {"first": b"first"}
        write(disk, "second")
        with another_namespace():
            disk.cut()
            disk.restart()
        write(disk, "third")
    assert sorted(files(disk)) == ["first", "second", "third"]


def mounts(folder: Path) -> list[str]:
    """The mounts below a folder, in this namespace."""
    lines = Path("/proc/self/mounts").read_text("utf-8").splitlines()
    return [line for line in lines if f" {folder}/" in line]


def test_the_device_goes_with_the_last_mount(disk: CrashFileSystem, tmp_path: Path) -> None:
    [mount] = mounts(tmp_path)
    device = Path(mount.split()[0]).name
    assert Path(f"/sys/block/{device}/loop/autoclear").read_text("ascii") == "1\n"


def test_it_is_unmounted_when_its_process_is_killed(disk: CrashFileSystem, tmp_path: Path) -> None:
    assert len(mounts(tmp_path)) == 1, "the disk of the fixture, which shows that there can be one"
    folder = tmp_path / "killed"
    folder.mkdir()
    command = [sys.executable, "-c", USER, str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"mounted\n"
        assert len(mounts(folder)) == 1
        process.kill()
    until = time.monotonic() + PATIENCE_S
    while mounts(folder):
        assert time.monotonic() < until, f"mounted after {PATIENCE_S:g} s"
        time.sleep(0.02)
    assert len(mounts(tmp_path)) == 1
