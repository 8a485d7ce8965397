"""A buffered writer under kill -9.

What may fail: the process is killed at any instant while it writes events without waiting.
What must hold after: the events are there in their order, each whole and once, from the first on;
and at least those that were reported as durable.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import siltstone

EVENT = 12
WRITER = """
import os, sys, siltstone

def tell(durable):
    told = durable.first + len(durable.lengths)
    os.write(1, b"%d %d\\n" % (told, durable.end))

with siltstone.open(sys.argv[1]) as store:
    segment = store.create("events", exist_ok=True)
    with segment.buffered(buffer_bytes=2**20, on_durable=tell) as writer:
        number = segment.info().length // 12
        while True:
            writer.write(b"event%07d" % number)
            number += 1
"""


@pytest.mark.slow
def test_what_was_told_of_is_there_after_a_kill(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    length = 0
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            time.sleep(random.random() * 0.3)
            process.kill()
            *_, last = [first, *process.stdout.read().splitlines()]
        count, end = map(int, last.split())
        assert end == length + EVENT * count
        with siltstone.open(tmp_path) as store:
            segment = store.segment("events")
            length = segment.info().length
            assert length >= end
            assert length % EVENT == 0
            data = segment.read(0, length)
        assert data == b"".join(b"event%07d" % number for number in range(length // EVENT))
