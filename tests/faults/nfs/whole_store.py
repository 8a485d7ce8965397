"""A whole store on a mount, while somebody kills and restarts the server.

The guest runs it: STORE FOLDER GATE ROUNDS. It appends and flushes, round by round, and tells by
files in the gate where it is. In the end it opens the store again, without its index and then
without its log, and writes where every acknowledged byte has to lie.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import siltstone
from siltstone.core.errors import SiltstoneError

SEGMENTS = ("a", "b", "c")
ROUND_BYTES = 300_000
PATIENCE_S = 90.0
SETTINGS = """
segments:
  chunk_size: 100KiB
deadlines:
  storage: 3s
"""


class Life:
    """The store's only user, and every byte that was acknowledged to it."""

    def __init__(self, place: Path, gate: Path) -> None:
        self.place = place
        self.gate = gate
        self.content = {name: bytearray() for name in SEGMENTS}
        self.met = 0

    def play(self, folder: str, rounds: int) -> None:
        settings = siltstone.init(self.place, binding="nfs", options={"path": folder})
        with settings.open("a", encoding="utf-8") as file:
            file.write(SETTINGS)
        with siltstone.open(self.place) as store, ThreadPoolExecutor(1) as thread:
            for name in SEGMENTS:
                store.create(name)
            for number in range(rounds):
                self.append(store, number)
                flushing = thread.submit(store.flush)
                self.tell(f"flushing-{number}")
                self.wait_for(f"dead-{number}")
                self.met += not flushing.done()
                self.append(store, number + rounds)
                error = flushing.exception()
                assert error is None or isinstance(error, SiltstoneError), error
                self.wait_for(f"back-{number}")
            self.flush_at_last(store)
            self.check(store)
        shutil.rmtree(self.place / "index")
        with siltstone.open(self.place) as store:
            self.check(store)
        shutil.rmtree(self.place / "tier1")
        siltstone.recover(self.place, accept_loss=True)
        with siltstone.open(self.place) as store:
            self.check(store)
            self.tell("end", self.lying(store))

    def append(self, store: siltstone.Store, number: int) -> None:
        for name in SEGMENTS:
            data = f"{name}{number}.".encode() * (ROUND_BYTES // 4)
            assert store.segment(name).append(data) == len(self.content[name])
            self.content[name] += data

    def flush_at_last(self, store: siltstone.Store) -> None:
        """Storage that did not answer is asked again only now and then."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return store.flush()
            except SiltstoneError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def check(self, store: siltstone.Store) -> None:
        for name, content in self.content.items():
            assert store.segment(name).info().length == len(content)
            assert store.segment(name).read(0, len(content)) == content
        assert [one for one in store.check(deep=True) if one.severity == "damage"] == []

    def lying(self, store: siltstone.Store) -> object:
        """How many flushes a death met, and each segment's rounds and runs."""
        runs = {
            name: [
                (run.start, run.length, run.chunk, run.chunk_offset)
                for run in store.segment(name).chunks()
            ]
            for name in SEGMENTS
        }
        for name, content in self.content.items():
            (self.gate / name).write_bytes(content)
        return {"met": self.met, "runs": runs}

    def tell(self, word: str, more: object = None) -> None:
        half = self.gate / f"{word}.half"
        half.write_text(json.dumps(more), encoding="utf-8")
        os.rename(half, self.gate / word)

    def wait_for(self, word: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not (self.gate / word).exists():
            assert time.monotonic() < until, f"nobody told {word}"
            time.sleep(0.01)


if __name__ == "__main__":
    Life(Path(sys.argv[1]), Path(sys.argv[3])).play(sys.argv[2], int(sys.argv[4]))
