"""The end of a process that did not close its store.

Must hold: whatever is in flight, nothing is printed about it, and what was acknowledged is there
afterwards; a call that comes too late fails instead of waiting for ever.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import siltstone

FLUSHING = """
import os, sys, threading, siltstone
store = siltstone.open(sys.argv[1])
for number in range(100):
    store.create(f"s{number}").append(b"acknowledged")
threading.Thread(target=store.flush, daemon=True).start()
while not any(files for _, _, files in os.walk(os.path.join(sys.argv[1], "chunks", "data"))):
    pass
"""

LATE = """
import atexit, sys, siltstone

def end():
    try:
        store.close()
    except siltstone.ClosedError as error:
        print(error)

atexit.register(end)
store = siltstone.open(sys.argv[1])
segment = store.create("s0")
segment.append(b"acknowledged")
"""

CALLED_LATE = """
import asyncio, atexit, threading
from siltstone.core.pool_threads import PoolThreads, is_left

async def call():
    return await pool.run(lambda: 1)

def after():
    late = asyncio.run_coroutine_threadsafe(call(), loop)
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
    print(before, late.done(), is_left(loop))

loop = asyncio.new_event_loop()
atexit.register(after)
pool = PoolThreads("pool", 1)
threading.Thread(target=loop.run_forever, daemon=True).start()
asyncio.run_coroutine_threadsafe(call(), loop).result()
before = is_left(loop)
"""


def ended(program: str, folder: Path | None = None) -> tuple[int, str, str]:
    line = [sys.executable, "-c", program, str(folder)]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return siltstone.init(tmp_path / "store").parent


@pytest.mark.slow
def test_a_flush_on_its_way_ends_without_a_word(folder: Path) -> None:
    assert ended(FLUSHING, folder) == (0, "", "")
    with siltstone.open(folder) as store:
        found = {info.name: store.segment(info.name).read(0, 100) for info in store.list()}
    assert found == {f"s{number}": b"acknowledged" for number in range(100)}


@pytest.mark.slow
def test_a_close_that_comes_too_late_fails(folder: Path) -> None:
    said = "the process ends, and the store was not closed before that\n"
    assert ended(LATE, folder) == (0, said, "")
    with siltstone.open(folder) as store:
        assert store.segment("s0").read(0, 100) == b"acknowledged"


def test_a_call_at_the_end_of_the_process_is_never_made() -> None:
    assert ended(CALLED_LATE) == (0, "False False True\n", "")
