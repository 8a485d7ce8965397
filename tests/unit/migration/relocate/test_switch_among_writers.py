"""Processes append, merge and delete all the time while their store is switched, there and back.

Must hold: each append that was acknowledged is there once, wherever the store is. Who had a place
open that the store left gets an error that says so, and goes on with the new settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Event, Semaphore

import pytest

import siltstone
from siltstone.collections.blocking import Collection, Collections
from siltstone.core.errors import CollectionMovedError, StoreNotFoundError
from siltstone.migration.relocate.settings import BEFORE
from siltstone.migration.relocate.switch import switch_storage
from tests.support.collections.whole_histories import SCHEMA, table
from tests.support.migration.backups import tmp_path
from tests.support.migration.moved_store import moved_settings

__all__ = ["tmp_path"]

WRITERS = 3
EACH = 400
"""Rows of an append: more than an entry holds."""


class Writer:
    """Appends to a collection until it is told to end, and opens it again where it has to.

    Attributes:
        acknowledged: the first keys of its appends.
        moved: how often it was told that the collection had left.
    """

    def __init__(self, folder: Path, number: int, done: Semaphore, end: Event) -> None:
        self.acknowledged: list[int] = []
        self.moved = 0
        self._folder = folder
        self._number = number
        self._done = done
        self._end = end
        self._sequence = count(1)

    def run(self) -> None:
        while not self._end.is_set():
            try:
                with siltstone.open_collections(self._folder) as collections:
                    self._append(collections, collections.collection("ages"))
            except CollectionMovedError:
                self.moved += 1
            except StoreNotFoundError:
                continue  # It has no place at this moment.

    def _append(self, collections: Collections, ages: Collection) -> None:
        while not self._end.is_set():
            sequence = next(self._sequence)
            first = (self._number * 1_000_000 + sequence) * EACH
            rows = table(first, first + (EACH if sequence % 3 else 1))
            ages.writer(f"w{self._number}").append(rows, sequence=sequence)
            self.acknowledged.append(first)
            self._done.release()
            if sequence % 7 == 0:
                ages.compact()
                ages.collect()
            if sequence % 11 == 0:
                collections.sweep()


@pytest.mark.slow
@pytest.mark.parametrize("switches", [2, pytest.param(60, marks=pytest.mark.soak)])
def test_no_append_is_lost_or_made_twice(tmp_path: Path, switches: int) -> None:
    folder = siltstone.init(tmp_path / "store").parent
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write("\ngarbage: {delay: 0s}\n")
    with siltstone.open_collections(folder) as collections:
        collections.create("ages", SCHEMA, key=["k"], times="count", history=50)
    done, end = Semaphore(0), Event()
    writers = [Writer(folder, number, done, end) for number in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as threads:
        futures = [threads.submit(writer.run) for writer in writers]
        try:
            for new in settings_of(folder, switches):
                for _ in range(15):
                    assert done.acquire(timeout=60), "they go on"
                switch_storage(folder, new)
        finally:
            end.set()
        for future in futures:
            future.result()
    assert sum(writer.moved for writer in writers) >= switches
    with siltstone.open_collections(folder) as collections:
        collections.sweep()
        assert list(collections.check(deep=True)) == []
        found = collections.collection("ages").snapshot().to_arrow()["k"].to_pylist()
    assert len(found) == len(set(found))
    assert {first for writer in writers for first in writer.acknowledged} <= set(found)


def settings_of(folder: Path, switches: int) -> Iterator[Path]:
    """Settings with the place where the store is not, again and again."""
    yield moved_settings(folder, "new.yaml", folder / "elsewhere")
    for number in range(switches - 1):
        other = folder / f"other-{number}.yaml"
        (folder / f"siltstone.yaml{BEFORE}").rename(other)
        yield other
