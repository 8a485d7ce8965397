"""A whole store on a mount, while the test kills and restarts the server.

The guest runs it: STORE FOLDER GATE ROUNDS. It appends and flushes, round by round, and tells by
files in the gate where it is. In the end it opens the store again, without its index and then
without its log, and writes where every acknowledged byte has to lie.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import siltstone
from siltstone.core.errors import SiltstoneError
from tests.support.faults.whole_life import (
    PATIENCE_S,
    SEGMENTS,
    Ledger,
    flush_at_last,
    new_store,
    opened_without_index_and_log,
)


class Life:
    """The store's only user, and every byte that was acknowledged to it."""

    def __init__(self, place: Path, gate: Path) -> None:
        self.place = place
        self.gate = gate
        self.ledger = Ledger()
        self.met = 0

    def play(self, folder: str, rounds: int) -> None:
        new_store(self.place, "nfs", {"path": folder}, storage_s=3)
        with siltstone.open(self.place) as store, ThreadPoolExecutor(1) as thread:
            self.ledger.create(store)
            for number in range(rounds):
                self.ledger.append(store, number)
                flushing = thread.submit(store.flush)
                self.tell(f"flushing-{number}")
                self.wait_for(f"dead-{number}")
                self.met += not flushing.done()
                self.ledger.append(store, number + rounds)
                error = flushing.exception()
                assert error is None or isinstance(error, SiltstoneError), error
                self.wait_for(f"back-{number}")
            flush_at_last(store)
            self.ledger.check(store)
        with opened_without_index_and_log(self.place, self.ledger) as store:
            self.tell("end", self.lying(store))

    def lying(self, store: siltstone.Store) -> object:
        """How many flushes a death met, and each segment's rounds and runs."""
        runs = {
            name: [
                (run.start, run.length, run.chunk, run.chunk_offset)
                for run in store.segment(name).chunks()
            ]
            for name in SEGMENTS
        }
        for name, content in self.ledger.content.items():
            (self.gate / name).write_bytes(content)
        return {"met": self.met, "runs": runs}

    def tell(self, word: str, more: object = None) -> None:
        half = self.gate / f"{word}.half"
        half.write_text(json.dumps(more), encoding="utf-8")
        os.rename(half, self.gate / word)

    def wait_for(self, word: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not (self.gate / word).exists():
            assert time.monotonic() < until, f"the test never told {word}"
            time.sleep(0.01)


if __name__ == "__main__":
    Life(Path(sys.argv[1]), Path(sys.argv[3])).play(sys.argv[2], int(sys.argv[4]))
