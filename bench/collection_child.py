"""A process that appends to a table: ``python -m bench.collection_child KIND PLACE COUNT``.

KIND is ``collection``, where PLACE is the file of a store, or ``delta``, where it is a folder. It
says that it is ready, waits for a line, and tells one JSON object for each append: when it began
and when it was durable, in seconds of ``time.time``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from bench.collection_rows import NAME, rows
from bench.peers import optional
from siltstone.collections.blocking import open_collections

ROWS = 20


def main() -> None:
    """Append."""
    kind, place, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    pause_s = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    with ExitStack() as stack:
        append: Callable[[pa.Table], object]
        if kind == "collection":
            append = stack.enter_context(open_collections(place)).collection(NAME).append
        else:
            delta = optional("deltalake")
            assert delta is not None

            def append(table: pa.Table) -> object:
                return delta.write_deltalake(str(place), table, mode="append")

        tables = [rows(ROWS) for _ in range(count)]
        print("ready", flush=True)
        sys.stdin.readline()
        times = []
        for table in tables:
            time.sleep(pause_s)
            begun = time.time()
            append(table)
            times.append((begun, time.time()))
        print(json.dumps({"times": times, "cpu_s": time.process_time()}), flush=True)


if __name__ == "__main__":
    main()
