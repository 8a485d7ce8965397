"""The command, killed at every change that it makes to a file until its import session is open.

What happens: SIGKILL, before or after a call, or in the middle of a write, while ``siltstone
import`` boots and opens a session. What must hold: nothing of the import is there before it is
repeated, and all of it once after that; another session that was open all the time brings what it
has; the sweep and a check find nothing, and nothing lies there that no segment names.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import siltstone
from siltstone.cli.main import run
from tests.support.kill.dying_import import killed
from tests.support.memory_folder import folder_in_memory
from tests.support.soak import shared

FILES = {"a": b"first" * 1_000, "b": b"second", "empty": b""}
THERE = {"old": b"old data"}
OTHER = {"other": b"from elsewhere"}
CHANGES_MAX = 1_000
"""Far more than the boot of such a small store and an opening make."""
SAMPLE = 10


class Shop:
    """A store with a segment and an open session, and files to be imported; copied for each kill.

    Attributes:
        arguments: of the command.
        folder: of the store.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "store"
        self.arguments = ["--store", str(self.folder), "import", "{path}", str(folder / "in")]
        self._first = folder / "first"
        self._done = folder / "done"
        settings = siltstone.init(self._first, containers=1)
        text = settings.read_text("utf-8")
        settings.write_text(text.replace("path: ./tier1", "path: ./tier1\n    file_bytes: 1MiB"))
        for name, data in FILES.items():
            (folder / "in").mkdir(exist_ok=True)
            (folder / "in" / name).write_bytes(data)
        with siltstone.open(self._first) as store:
            store.create("old").append(THERE["old"])
            store.flush()  # No later owner is closed in the middle of that: it would leave a chunk.
            self._other = store.open_import("other", "other")

    def kill(self, number: int, *, after: bool) -> int:
        """Import into a new copy, in a process that dies; return how many changes it made.

        That is less than ``number`` when the session was open before.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._first, self.folder)
        return killed(self.arguments, number, after=after)

    def content(self) -> dict[str, bytes]:
        """Every segment, every byte."""
        with siltstone.open(self.folder, read_only=True) as store:
            return {
                info.name: store.segment(info.name).read(0, info.length) for info in store.list()
            }

    def bring_other(self) -> None:
        """Let the other session bring what it has."""
        with siltstone.ImportWriter(self.folder, self._other, partition=0, attempt=0) as writer:
            writer.write(OTHER["other"])
            chunks = writer.finish()
        with siltstone.open(self.folder) as store:
            output = siltstone.ImportOutput(segment="other", chunks=chunks)
            assert not store.commit_import(self._other, [output]).repeated

    def left(self) -> list[str]:
        """What lies below the prefix of all imports and is no chunk of a segment."""
        chunks = self.folder / "chunks"
        found = {
            str(path.relative_to(chunks))
            for path in (chunks / "import").rglob("*")
            if path.is_file()
        }
        with siltstone.open(self.folder, read_only=True) as store:
            for info in store.list():
                found -= {chunk.chunk for chunk in store.segment(info.name).chunks()}
        return sorted(found)

    def findings(self) -> list[object]:
        """What a check tells, and what the sweep, which deletes it."""
        with siltstone.open(self.folder) as store:
            store.flush()
            swept: list[object] = [*store.sweep(delete=True, all_epochs=True)]
            return [found for found in store.check() if found.severity != "info"] + swept


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with folder_in_memory(tmp_path) as folder:
        yield Shop(folder)


def play(shop: Shop, number: int, *, after: bool) -> None:
    """Kill one import, let the other session come to its end, and repeat the import."""
    assert shop.kill(number, after=after) <= number
    assert shop.content() == THERE
    shop.bring_other()
    assert shop.content() == THERE | OTHER
    for _ in range(2):
        assert run(shop.arguments) == 0
        assert shop.content() == THERE | OTHER | FILES
    assert shop.left() == []
    assert shop.findings() == []


def cases(shop: Shop) -> list[tuple[int, bool]]:
    """Before and after every change, and after the opening."""
    changes = shop.kill(CHANGES_MAX, after=False)
    assert 20 < changes < CHANGES_MAX
    return [(number, after) for number in range(changes) for after in (False, True)] + [
        (CHANGES_MAX, False)
    ]


def play_all(shop: Shop, chosen: list[tuple[int, bool]]) -> None:
    for number, after in chosen:
        try:
            play(shop, number, after=after)
        except BaseException as error:
            error.add_note(f"change {number}, {'after' if after else 'before'} it")
            raise


def test_an_import_that_is_killed_while_it_opens_a_session(shop: Shop) -> None:
    every = cases(shop)
    play_all(shop, [*Random("opening").sample(every[:-1], SAMPLE), every[-1]])


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_an_import_that_is_killed_anywhere_in_the_opening(shop: Shop) -> None:
    play_all(shop, shared(cases(shop)))
