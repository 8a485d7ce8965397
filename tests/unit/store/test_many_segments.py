"""Opening a store takes memory that does not grow with its segments.

Each open runs in its own process, whose peak is compared with that of a store of few segments.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import siltstone
from tests.architecture.source_tree import ROOT

FEW, MANY = 100, 30_000
EXTRA_MIB = (15, 35, 35)
"""More for many segments: with an existing index, then twice where it is built. There memory holds
the table log after the newest checkpoint, at most 64 MiB. All segments would be another 20."""


async def fill(file: Path, count: int) -> None:
    async with await siltstone.open_async(file) as store:
        numbers = iter(range(count))

        async def make() -> None:
            for number in numbers:
                await store.create(f"some/{number:06}")

        await asyncio.gather(*(make() for _ in range(500)))
        await store.flush()


def peak_mib(root: Path, who: str) -> float:
    """Peak memory of a process that opens the store and looks at some segments."""
    line = [sys.executable, "-m", "bench.opening_child", str(root / "siltstone.yaml"), who]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, check=True, capture_output=True, text=True, env=environment)
    return float(json.loads(done.stdout)["peak_mib"])


@pytest.mark.slow
def test_memory_does_not_grow_with_the_segments(tmp_path: Path) -> None:
    peaks = {}
    for count in (FEW, MANY):
        file = siltstone.init(tmp_path / f"{count}")
        asyncio.run(fill(file, count))
        warm = peak_mib(file.parent, "owner")
        reader = peak_mib(file.parent, "reader")
        shutil.rmtree(file.parent / "index")
        peaks[count] = (warm, reader, peak_mib(file.parent, "owner"))
    for few, many, extra in zip(peaks[FEW], peaks[MANY], EXTRA_MIB, strict=True):
        assert many - few < extra, peaks
