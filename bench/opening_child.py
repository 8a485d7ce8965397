"""One opening of a store in a process of its own, so that its peak of memory is known.

``python -m bench.opening_child FILE owner|reader`` prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import siltstone
from bench.workshop import Loop, Stopwatch, peak_mib

LOOKS = 1_000
"""Segments that are asked for after the opening, so that loading on first use counts too."""


def main() -> None:
    """Open, look at some segments, close; print the seconds of the opening and the peak."""
    file, who = Path(sys.argv[1]), sys.argv[2]
    with Loop() as loop:
        with Stopwatch() as watch:
            store = loop(siltstone.open_async(file, read_only=who == "reader"))

        async def look() -> int:
            found = 0
            async for info in store.list():
                await store.segment(info.name).info()
                found += 1
                if found == LOOKS:
                    break
            return found

        assert loop(look()), "the store has segments"
        loop(store.close())
    print(json.dumps({"seconds": watch.seconds, "peak_mib": peak_mib()}))


if __name__ == "__main__":
    main()
