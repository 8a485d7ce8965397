"""The life of a whole store whose long-term storage, of any kind, is broken meanwhile.

Appends continue, for they need the log only. What was acknowledged must be there in the end: with
the index, without it, and, after the last flush, without the log.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import siltstone
from siltstone.core.errors import SiltstoneError

SEGMENTS = ("a", "b", "c")
ROUND_BYTES = 300_000
PATIENCE_S = 90.0

ReadChunk = Callable[[str], bytes | None]
"""Reads a chunk by another client: its name, and what lies there."""


class Ledger:
    """Every byte that was acknowledged."""

    def __init__(self) -> None:
        self.content = {name: bytearray() for name in SEGMENTS}

    def create(self, store: siltstone.Store) -> None:
        for name in SEGMENTS:
            store.create(name)

    def append(self, store: siltstone.Store, number: int) -> None:
        for name in SEGMENTS:
            data = f"{name}{number}.".encode() * (ROUND_BYTES // 4)
            assert store.segment(name).append(data) == len(self.content[name])
            self.content[name] += data

    def check(self, store: siltstone.Store) -> None:
        for name, content in self.content.items():
            assert store.segment(name).info().length == len(content)
            assert store.segment(name).read(0, len(content)) == content
        assert [finding for finding in store.check() if finding.severity == "damage"] == []

    def check_outside(self, store: siltstone.Store, read: ReadChunk) -> None:
        """Every run of bytes lies where the store says, seen by another client."""
        for name, content in self.content.items():
            end = 0
            for run in store.segment(name).chunks():
                assert run.start == end
                end += run.length
                chunk = read(run.chunk)
                assert chunk is not None
                lying = chunk[run.chunk_offset : run.chunk_offset + run.length]
                assert lying == content[run.start : end]
            assert end == len(content)


def new_store(
    place: Path, binding: str, options: Mapping[str, object], storage_s: int = 10
) -> None:
    """Make a store of small chunks, whose calls to storage may take this many seconds."""
    settings = siltstone.init(place, binding=binding, options=options)
    with settings.open("a", encoding="utf-8") as file:
        file.write(f"\nsegments:\n  chunk_size: 100KiB\ndeadlines:\n  storage: {storage_s}s\n")


def flush_at_last(store: siltstone.Store) -> None:
    """Storage that did not answer is asked again only now and then, so this takes a moment."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return store.flush()
        except SiltstoneError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


@contextmanager
def opened_without_index_and_log(place: Path, ledger: Ledger) -> Iterator[siltstone.Store]:
    """Open it without its index, then without its log, and check each time."""
    shutil.rmtree(place / "index")
    with siltstone.open(place) as store:
        ledger.check(store)
    shutil.rmtree(place / "tier1")
    siltstone.recover(place, accept_loss=True)
    with siltstone.open(place) as store:
        ledger.check(store)
        yield store


@contextmanager
def whole_life(place: Path, read: ReadChunk) -> Iterator[tuple[siltstone.Store, Ledger]]:
    """Open the new store for whatever is to happen to it; then look at it in every way."""
    ledger = Ledger()
    with siltstone.open(place) as store:
        ledger.create(store)
        yield store, ledger
        flush_at_last(store)
        ledger.check(store)
        ledger.check_outside(store, read)
    with opened_without_index_and_log(place, ledger) as store:
        ledger.check_outside(store, read)
