"""A process with few descriptors or none left: a state of the process, never of storage.

What happens: ``ulimit -n 64``, or another part of the process takes every descriptor. What must
hold: descriptors that are only kept are given back, nothing is suspended, the health stays ok, a
lasting error names the limit, and everything continues as soon as there are descriptors again.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import siltstone

SEGMENTS = 120

BEGIN = """
import os, resource, sys
from functools import partial
import siltstone
from siltstone.core.posix import SystemFileCalls

# Wherever the store lies: the kernel tells what it has in memory, so that files are kept open.
SystemFileCalls.preadv_now = lambda self, fd, buffers, offset: os.preadv(fd, buffers, offset)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
path = sys.argv[1]

def all_taken():
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return taken

def refused(kind, call):
    try:
        call()
    except kind as error:
        assert "this process may have 64: raise that with ulimit -n" in str(error), error
        return error
    raise AssertionError("it was not refused")

def check_health(store):
    (health,) = store.health()
    assert health.state == "ok", health
    assert health.circuit == "closed", health
    assert health.unanswered == 0, health

def name(number):
    return f"segment-{number}"
"""

READER = """
with siltstone.open(path, read_only=True) as store:
    for turn in range(2):
        for number in range(120):
            assert store.segment(name(number)).read(0, 100) == b"%03d" % number, number
    check_health(store)
"""

OWNER = """
with siltstone.open(path) as store:
    for number in range(120):
        segment = store.segment(name(number))
        segment.append(b"more")
        segment.flush()
        assert segment.read(0, 100) == b"%03dmore" % number, number
    check_health(store)
with siltstone.open(path, read_only=True) as store:
    for number in range(120):
        assert store.segment(name(number)).read(0, 100) == b"%03dmore" % number, number
"""

NONE_LEFT = """
with siltstone.open(path) as store:
    for number in range(8):
        store.segment(name(number)).read(0, 100)
    taken = all_taken()
    assert store.segment(name(20)).read(0, 100) == b"020", "what was kept open is given back"
    for number in range(21, 40):  # until nothing is left that could be given back
        taken += all_taken()
        try:
            store.segment(name(number)).read(0, 100)
        except siltstone.ChunkError:
            break
    taken += all_taken()
    error = refused(siltstone.ChunkError, lambda: store.segment(name(40)).read(0, 100))
    assert error.outcome is siltstone.Outcome.NOT_APPLIED
    for number in range(50, 53):
        refused(siltstone.ChunkError, partial(store.segment(name(number)).read, 0, 100))
    store.segment(name(1)).append(b"more")
    try:
        store.flush()
    except (siltstone.ChunkError, siltstone.StorageFullError) as error:
        # Either error, or none if another part of the process closed a file meanwhile.
        assert "ulimit -n" in str(error)
    check_health(store)
    for descriptor in taken:
        os.close(descriptor)
    for number in range(40, 60):
        assert store.segment(name(number)).read(0, 100) == b"%03d" % number
    store.flush()
    check_health(store)
    assert store.segment(name(1)).read(0, 100) == b"001more"
"""

NO_LOOP = """
import siltstone.store.store  # Modules are files, too.
taken = all_taken()
refused(siltstone.StoreError, lambda: siltstone.open(path))
for descriptor in taken:
    os.close(descriptor)
with siltstone.open(path) as store:
    assert store.segment(name(0)).read(0, 100) == b"000"
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    siltstone.init(path)
    with siltstone.open(path) as store:
        for number in range(SEGMENTS):
            segment = store.create(f"segment-{number}")
            segment.append(b"%03d" % number)
            segment.flush()
    chunks = list((path / "chunks" / "data").rglob("*.chunk"))
    assert len(chunks) >= 100
    return path


@pytest.mark.slow
@pytest.mark.parametrize("story", [READER, OWNER, NONE_LEFT, NO_LOOP])
def test_few_descriptors_are_no_failure_of_storage(store: Path, story: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + story, str(store)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_command_names_the_limit(store: Path) -> None:
    verb = [sys.executable, "-m", "siltstone", "--store", str(store), "cat", "segment-7"]
    limit = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16));"
    command = f"{limit} os.execv(sys.executable, {verb!r})"
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode not in (0, 2), done
    assert "this process may have 16: raise that with ulimit -n" in done.stderr
    assert "Traceback" not in done.stderr
