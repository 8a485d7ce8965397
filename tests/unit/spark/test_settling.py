"""Freed memory stays with the process, so that the next piece causes no page faults."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource
import sys

import numpy

from siltstone.spark.worker_memory import keep_memory

if sys.argv[1] == "kept":
    keep_memory()

def piece():
    return [numpy.ones(250_000) for _ in range(4)]

for _ in range(5):
    piece()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    piece()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    """Page faults of 20 pieces of 8 MB, in a process that has freed nothing large."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps otherwise")
def test_pieces_are_made_of_memory_that_was_used_before() -> None:
    kept, given_back = faults("kept"), faults("not kept")
    assert kept * 10 < given_back
