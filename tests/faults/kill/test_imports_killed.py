"""``siltstone collection import``, killed at random instants, and then the same command again.

Injected: SIGKILL. What must hold: before the repeat all rows are there or none; after it each row
is there once; a second repeat appends nothing; and after a sweep no object is there that the
collection does not need.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy
import pyarrow
import pytest
from pyarrow import parquet

import siltstone
from siltstone.cli.main import run
from siltstone.collections.blocking import open_collections
from siltstone.collections.place import CollectionSettings
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import CollectionNotFoundError
from tests.support.collections.stored_objects import objects
from tests.support.kill.dying_verb import started
from tests.support.memory_folder import folder_in_memory
from tests.support.soak import share_of

ROWS = 550_000
"""Of a file that is large enough to be taken as it is."""
ROWS_IN_ALL = 2 * ROWS + 9_000
SETTINGS = CollectionSettings(garbage_delay_ms=0, compacts=False)


class Later(SystemEnvironment):
    """After the end of all leases."""

    def time(self) -> float:
        return super().time() + 7 * 86_400


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two files that are taken as they are, and one whose rows are not sorted."""
    with folder_in_memory(tmp_path_factory.mktemp("imports")) as folder:
        noise = numpy.random.default_rng(1)
        for number, count in enumerate((ROWS, ROWS, 9_000)):
            keys = numpy.arange(count) + number * ROWS
            table = pyarrow.table({"k": keys if count == ROWS else keys[::-1]})
            table = table.append_column("v", [noise.random(count)])
            path = folder / "source" / f"{number}.parquet"
            path.parent.mkdir(exist_ok=True)
            parquet.write_table(table, path, compression="none", use_dictionary=False)
        yield folder


def killed(arguments: list[str], after_s: float) -> bool:
    """Kill the command after a time; return whether it had not ended by then."""
    process = started(arguments)
    process.join(after_s)
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def rows_in(store: Path) -> int:
    """How many rows the collection has; 0 where it was not made."""
    with open_collections(store, settings=SETTINGS) as collections:
        try:
            return len(collections.collection("hours").snapshot().to_arrow())
        except CollectionNotFoundError:
            return 0


def check_whole(store: Path, source: Path) -> None:
    """Each row of the source is there once, and nothing that no row needs."""
    wanted = parquet.read_table(source).sort_by("k")
    with open_collections(store, settings=SETTINGS) as collections:
        hours = collections.collection("hours")
        assert hours.snapshot().to_arrow().sort_by("k").cast(wanted.schema).equals(wanted)
    with (
        closing(Later()) as later,
        open_collections(store, settings=SETTINGS, environment=later) as collections,
    ):
        hours = collections.collection("hours")
        hours.append([])  # The leases of the dead end.
        collections.collect()
        collections.sweep()
        assert list(collections.check(deep=True)) == []
        parts = [name for name in objects(store) if name.endswith(".parquet")]
        assert hours.info().parts == 3, "files that are taken are parts of their own"
        assert len(parts) == 3, "what the dead process left was swept"
        assert collections.list() == ["hours"]
    ids = {name.split("/")[1] for name in objects(store) if name.count("/") > 1}
    assert len(ids) == 2, "the catalog, and one collection"


class Place:
    """A fresh store, and the command that imports into it."""

    def __init__(self, folder: Path, source: Path) -> None:
        siltstone.init(folder, containers=1)
        self.store = folder
        self._source = source
        verb = ("collection", "import", "hours", str(source), "--key", "k")
        self.line = ["--store", str(folder), *verb]

    def repeat(self) -> None:
        """Import until all is there, and once more."""
        for _ in range(2):
            assert run(self.line) == 0
        check_whole(self.store, self._source)


def kill_and_repeat(source: Path, folder: Path, kills: int, chance: random.Random) -> None:
    """Kill at instants of the time that one command takes, each time in a fresh store."""
    died, length_s = 0, 0.0
    for number in range(10 * kills):
        place = Place(folder / str(number), source)
        if number < 2:  # The first one waits for what all others are forked from.
            begun = time.monotonic()
            started(place.line).join()
            length_s = time.monotonic() - begun
        else:
            died += killed(place.line, chance.uniform(0, length_s))
            assert rows_in(place.store) in (0, ROWS_IN_ALL)
            place.repeat()
        shutil.rmtree(place.store)
        if died == kills:
            return
    pytest.fail("nearly all of them came too late")


def test_an_import_that_is_killed_and_repeated_comes_once(source: Path) -> None:
    kill_and_repeat(source / "source", source / "some", 3, random.Random(1))


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_imports_that_are_killed_at_many_instants_come_once(source: Path) -> None:
    kill_and_repeat(source / "source", source / "many", share_of(100), random.Random())
