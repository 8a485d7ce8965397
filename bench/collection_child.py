"""Processes that append to a table: ``python -m bench.collection_child KIND PLACE COUNT PAUSE_S``.

KIND is ``collection``, where PLACE is the file of a store, or ``delta``, where it is a folder. A
child says that it is ready, waits for a line, and tells in JSON of each append when it began and
when it was durable, in seconds of ``time.time``, and what processor time all of them took, in
seconds. Before each one it waits for PAUSE_S.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa

from bench.collection_rows import NAME, rows
from bench.peers import optional
from siltstone.collections.blocking import open_collections

ROWS = 20
TRIES_MAX = 1_000
"""So often the peer commits again if another process was faster; by default it gives up at 15."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a child tells.

    Attributes:
        times: of each append: when it began, and when it was durable.
        processor_s: what all of them took.
    """

    times: list[tuple[float, float]]
    processor_s: float


class Children:
    """Children that wait for ``go``. As ``with``, which waits for their end.

    Args:
        total: how many.
        kind: see the module.
        place: see the module.
        count: appends of each.
        pause_s: before each append.
    """

    def __init__(
        self, total: int, kind: str, place: Path, count: int, pause_s: float = 0.0
    ) -> None:
        words = [kind, str(place), str(count), str(pause_s)]
        command = [sys.executable, "-m", "bench.collection_child", *words]
        self._stack = ExitStack()
        self._children = [
            self._stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(total)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def go(self) -> None:
        """Let them begin when all are ready."""
        for child in self._children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in self._children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()

    def told(self) -> list[Told]:
        """Wait for the appends of each of them."""
        lines = [child.stdout.readline() for child in self._children if child.stdout]
        return [Told(**json.loads(line)) for line in lines]


def main() -> None:
    """Append."""
    kind, place, count, pause_s = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    with ExitStack() as stack:
        append: Callable[[pa.Table], object]
        if kind == "collection":
            append = stack.enter_context(open_collections(place)).collection(NAME).append
        else:
            delta = optional("deltalake")
            assert delta is not None

            def append(table: pa.Table) -> object:
                patient = delta.CommitProperties(max_commit_retries=TRIES_MAX)
                return delta.write_deltalake(
                    str(place), table, mode="append", commit_properties=patient
                )

        tables = [rows(ROWS) for _ in range(count)]
        print("ready", flush=True)
        sys.stdin.readline()
        times, begun_s = [], time.process_time()
        for table in tables:
            time.sleep(float(pause_s))
            begun = time.time()
            append(table)
            times.append((begun, time.time()))
        processor_s = time.process_time() - begun_s
        print(json.dumps({"times": times, "processor_s": processor_s}), flush=True)


if __name__ == "__main__":
    main()
