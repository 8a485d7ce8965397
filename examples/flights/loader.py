"""The process that loads: several exactly-once writers on one segment.

``python -m examples.flights.loader STORE CSV WRITERS``. Every writer has each n-th line, and the
number of a line is its sequence. Whenever some lines of a writer are durable, a report goes to
standard output: the writer, and the newest of those lines. Started again after any end, each writer
continues after its last line in the store.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import siltstone
from examples.flights.source import read_source

SEGMENT = "flights/2013"
WINDOW_LINES = 200
"""Lines of one writer that are in flight at a time."""


async def load(store_path: str, csv: Path, writers: int) -> None:
    """Append every line that the store does not have."""
    lines = read_source(csv).lines
    async with await siltstone.open_async(store_path) as store:
        segment = await store.create(SEGMENT, exist_ok=True)
        async with asyncio.TaskGroup() as group:
            for number in range(writers):
                group.create_task(write_share(segment, lines, number, writers))


async def write_share(
    segment: siltstone.AsyncSegment, lines: list[bytes], number: int, writers: int
) -> None:
    """Append the lines of one writer, in order, and report them."""
    writer = await segment.writer(f"loader-{number}")
    mine = range(number, len(lines), writers)
    left = [line for line in mine if line > writer.sequence]
    for begin in range(0, len(left), WINDOW_LINES):
        window = left[begin : begin + WINDOW_LINES]
        await asyncio.gather(*(writer.append(lines[line], sequence=line) for line in window))
        print(number, window[-1], flush=True)


if __name__ == "__main__":
    asyncio.run(load(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
