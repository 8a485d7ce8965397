"""What a keyspace cannot be faster than: the same rows and bytes, without a keyspace."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import siltstone
from bench.keyspace_child import NAME, index_of
from bench.workshop import Loop, Stopwatch, in_flight, seconds_of
from siltstone.container.models.segments import ChangeKeys
from siltstone.core.checksums import crc32c
from siltstone.objects.changes import object_key, put_request
from siltstone.objects.evaluation import ObjectChange, RecordPlace, evaluate
from siltstone.objects.records.keys import head_key
from siltstone.objects.space_names import SpaceNames

BATCH_COUNT = 500
"""Puts of 8 KiB in one frame: what a keyspace makes of a thousand in flight."""

COMMITS = 2
"""On their way at a time: one in flight, and the next one."""

LMDB_BYTES = 2**33
TABLE = "{bare}rows"
SEGMENT = "{bare}bytes"


def timed(work: Callable[[], object], total: int, spent: list[float]) -> float:
    """Puts a second of ``work``; notes the processor time of one of them, in microseconds."""
    with Stopwatch() as watch:
        work()
    spent.append(watch.cpu_s / total * 1e6)
    return total / watch.seconds


class _Batch(NamedTuple):
    data: bytes
    keys: list[bytes]
    values: list[bytes | None]


class BareCommits:
    """Commits of the records and rows that puts of a keyspace make, made before.

    Args:
        loop: of the store.
        store: takes them.
        value_bytes: of each value.
        total: puts at most.

    Attributes:
        spent: processor time of a put in each round, in microseconds.
    """

    def __init__(
        self, loop: Loop, store: siltstone.AsyncStore, value_bytes: int, total: int
    ) -> None:
        self._loop = loop
        self._store = store
        loop(store.create_table(TABLE))
        loop(store.create(SEGMENT))
        value = os.urandom(value_bytes)
        self._changes = [_change(number, value) for number in range(total)]
        self.spent: list[float] = []

    def rate(self, width: int, total: int) -> float:
        """Puts a second that these commits would be."""
        size = 1 if width == 1 else min(total, BATCH_COUNT)
        batches = [_joined(self._changes[first : first + size]) for first in range(0, total, size)]

        async def commit(number: int) -> None:
            data, keys, values = batches[number]
            await self._store.commit(
                [siltstone.Append(SEGMENT, data), ChangeKeys(TABLE, keys, values)]
            )

        work = in_flight(min(width, COMMITS), len(batches), commit)
        return timed(lambda: self._loop(work), total, self.spent)


class BareRecords:
    """What puts are made into, without a store: hashes, sums, records, heads and rows.

    Args:
        value_bytes: of each value.

    Attributes:
        spent: processor time of a put in each round, in microseconds.
    """

    def __init__(self, value_bytes: int) -> None:
        self._value = os.urandom(value_bytes)
        self.spent: list[float] = []

    def rate(self, total: int) -> float:
        """Puts a second, in one thread."""

        def make() -> None:
            for first in range(0, total, BATCH_COUNT):
                _joined([_change(first + number, self._value) for number in range(BATCH_COUNT)])

        return timed(make, total, self.spent)


def _change(number: int, value: bytes) -> ObjectChange:
    key = object_key("o", "bucket", f"key-{number:09}")
    request = put_request(key, value, index=index_of(number))
    found = evaluate(request, None, RecordPlace(number + 1, 1, 0), 1_700_000_000_000)
    assert isinstance(found, ObjectChange)
    return found


def _joined(changes: list[ObjectChange]) -> _Batch:
    parts = [part for change in changes for part in change.parts]
    rows = [row for change in changes for row in change.rows]
    return _Batch(b"".join(parts), [key for key, _ in rows], [value for _, value in rows])


def rows_of(store: siltstone.Store, numbers: list[int]) -> Callable[[], float]:
    """Looks up the rows of heads in their table, without a keyspace; gives rows a second."""
    table = store.table(SpaceNames(NAME).ledger)
    keys = [head_key(object_key("o", "bucket", f"key-{number:09}")) for number in numbers]
    return lambda: len(keys) / seconds_of(lambda: deque(map(table.get, keys), maxlen=0))


def looked_up(descriptor: int, value: bytes, numbers: list[int]) -> Callable[[], float]:
    """Reads values of a file by the least that a get has to do in Python; gives values a second.

    That is a dictionary that knows where each lies, a read, a sum, and bytes of their own.
    """
    places = {f"key-{number:09}": number * len(value) for number in numbers}
    names = [f"key-{number:09}" for number in numbers]
    expected = crc32c(value)

    def read() -> None:
        for name in names:
            buffer = bytearray(len(value))
            os.preadv(descriptor, [buffer], places[name])
            assert crc32c(buffer) == expected
            bytes(buffer)

    return lambda: len(names) / seconds_of(read)


@contextmanager
def lmdb_batches(
    lmdb: ModuleType, folder: Path, value_bytes: int
) -> Iterator[Callable[[range], None]]:
    """Durable transactions of values."""
    value = os.urandom(value_bytes)
    numbers = count()
    environment = lmdb.open(str(folder), map_size=LMDB_BYTES)

    def write(wanted: range) -> None:
        with environment.begin(write=True) as transaction:
            for _ in wanted:
                transaction.put(b"key-%09d" % next(numbers), value)

    try:
        yield write
    finally:
        environment.close()
