"""Threads of callers read the index while its own thread writes to it and closes it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from siltstone.core.errors import ClosedError
from siltstone.metadata.index import Index
from siltstone.metadata.index_rows import index_key, stored
from siltstone.metadata.position import Position

THREADS = 3
KEYS = [b"%06d" % number for number in range(20_000)]


def write(index: Index, version: int) -> None:
    """All keys with the same version, in one batch."""
    changes = [(index_key(1, key), stored(version, bytes(100))) for key in KEYS]
    index.apply(changes, Position(b"lineage-of-tests", version, 0, 0))


def read_to_the_end(
    index: Index, begun: threading.Barrier, newest: list[int], ends: list[BaseException]
) -> None:
    seen = 0
    try:
        begun.wait(60)
        while True:
            for key in KEYS:
                entry = index.get(1, key)
                assert entry is not None
                assert entry.version >= seen, "a batch appears as a whole"
                seen = entry.version
    except Exception as error:  # noqa: BLE001 - the starting thread looks at it
        newest.append(seen)
        ends.append(error)


@pytest.mark.slow
def test_readers_see_whole_batches_and_then_that_it_is_closed(tmp_path: Path) -> None:
    for turn in range(4):
        index = Index.open(tmp_path / f"{turn}")
        write(index, 1)
        begun = threading.Barrier(THREADS + 1)
        newest: list[int] = []
        ends: list[BaseException] = []
        threads = [
            threading.Thread(target=read_to_the_end, args=(index, begun, newest, ends))
            for _ in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        begun.wait(60)
        for version in range(2, 5):
            write(index, version)
        index.close()
        for thread in threads:
            thread.join()
        assert [type(error) for error in ends] == [ClosedError] * THREADS
        assert all(1 <= version <= 4 for version in newest)
