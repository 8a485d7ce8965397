"""A backup of a store whose owner works has what was acknowledged, and each commit as a whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import siltstone
from siltstone.container.models.segments import Append, Put
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.restore import restore_backup
from tests.support.migration.backups import tmp_path

__all__ = ["tmp_path"]

pytestmark = pytest.mark.slow

RECORD = 2_000
"""Bytes of a commit; few enough that a flush of segments is never due by itself."""


ROUNDS = 4


def record(number: int) -> bytes:
    return number.to_bytes(8, "big").ljust(RECORD, b".")


@contextmanager
def committed_to(folder: Path) -> Iterator[list[int]]:
    """An owner in this process; a thread commits to it until the end of the block.

    Yields:
        one number: how many commits there were.
    """
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write("\nflush: {age: 1h, table_age: 50ms}\n")
    with siltstone.open(folder) as store:
        store.create("bytes")
        store.create_table("rows")
        ended = threading.Event()
        committed = [0]

        def commit() -> None:
            while not ended.is_set():
                number = committed[0]
                key = number.to_bytes(8, "big")
                store.commit([Append("bytes", record(number)), Put("rows", key, b"")])
                committed[0] = number + 1

        thread = threading.Thread(target=commit)
        thread.start()
        try:
            yield committed
        finally:
            ended.set()
            thread.join()


def test_each_restored_row_has_its_bytes(tmp_path: Path) -> None:
    folder = siltstone.init(tmp_path / "store").parent
    place = tmp_path / "backups"
    least = []
    with committed_to(folder) as committed:
        for number in range(ROUNDS):
            while committed[0] < 100 * (number + 1):
                time.sleep(0.01)
            least.append(committed[0])
            create_backup(folder, place)
    for number, before in enumerate(least, 1):
        restore_backup(place, tmp_path / f"new-{number}", generation=number)
        with siltstone.open(tmp_path / f"new-{number}") as store:
            segment = store.segment("bytes")
            stored = segment.read(0, segment.info().length)
            rows = [key for key, _ in store.table("rows").scan()]
        assert stored == b"".join(map(record, range(len(rows))))
        assert rows == [each.to_bytes(8, "big") for each in range(len(rows))]
        assert len(rows) >= before
