"""The values of one task, read from chunks and verified by the sums in their records.

Values that lie side by side are read at once. What does not match, or whose chunk is gone, is asked
of the store: it reads by blocks, and finds what a value compaction moved by its SQN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from siltstone.core.checksums import crc32c
from siltstone.core.constants import MIB, Buffer
from siltstone.core.errors import ChunkNotFoundError, LostDataError, SnapshotExpiredError
from siltstone.objects.errors import LostObjectError
from siltstone.objects.moment import moment_of
from siltstone.objects.object_views import lost, value_of_record
from siltstone.objects.records.head import Head
from siltstone.objects.records.keys import ObjectKey
from siltstone.objects.records.large_place import SUM_BYTES
from siltstone.objects.snapshots import FOLD_TTL_S
from siltstone.objects.space_names import space_names
from siltstone.pipelines.raw_reads import read_window
from siltstone.pipelines.window import Window, unpack_sums
from siltstone.spark.opened_keyspace import opened_keyspace
from siltstone.store.worker_store import worker_store

if TYPE_CHECKING:
    from siltstone.objects.space_parts import SpaceParts
    from siltstone.store.blocking.background_loop import BackgroundLoop

READ_BYTES: Final = 4 * MIB
"""Read at a time, unless one value is longer."""

GAP_BYTES: Final = MIB // 16
"""Bytes that nothing needs are read if they are fewer: another request would take longer."""

Found = tuple[ObjectKey, Head]
Valued = tuple[ObjectKey, Head, bytes]


class PackedValues:
    """Reads the values of some heads. Use it as a context manager.

    Args:
        store: path of the settings file, or of the folder that holds it.
        uuid: of the store.
        keyspace: its name.
        windows: by segment where its bytes lie.
    """

    def __init__(self, store: str, uuid: str, keyspace: str, windows: Mapping[str, Window]) -> None:
        self._path = store
        self._uuid = uuid
        self._names = space_names(keyspace)
        self._windows = windows
        self._stack = ExitStack()
        self._opened: tuple[BackgroundLoop, SpaceParts] | None = None

    def __enter__(self) -> PackedValues:
        self._storage = worker_store(self._path, self._uuid)
        self._stack.callback(self._storage.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self, found: Sequence[Found]) -> Iterator[list[Valued]]:
        """Yield objects with their values, some at a time: up to 4 MiB, or one.

        Args:
            found: the heads, in the order in which their values lie.

        Raises:
            LostObjectError: a value is damaged or gone; with ``objects.lost: missing`` such an
                object is left out.
            SnapshotExpiredError: the object was changed since, and its value deleted.
            StoreError: the path leads to another store.
            ChunkError: long-term storage did not answer.
        """
        for run in _runs(found):
            values = [(*each, value) for each, value in zip(run, self._run(run), strict=True)]
            yield [(key, head, value) for key, head, value in values if value is not None]

    def _run(self, run: Sequence[Found]) -> list[bytes | None]:
        if run[0][1].large is not None:
            (one,) = run
            return [self._large(*one)]
        first, last = run[0][1], run[-1][1]
        name = self._names.value_segment(first.number)
        try:
            data = memoryview(
                read_window(
                    self._storage, self._windows[name], first.offset, last.offset + last.length
                )
            )
        except (ChunkNotFoundError, LostDataError) as error:
            return [self._asked(key, head, name, error) for key, head in run]
        values: list[bytes | None] = []
        for key, head in run:
            begin = head.offset - first.offset
            record = data[begin : begin + head.length]
            try:
                values.append(value_of_record(key, head, record, where=name))
            except LostObjectError as error:
                values.append(self._asked(key, head, name, error))
        return values

    def _large(self, key: ObjectKey, head: Head) -> bytes | None:
        assert head.large is not None, "it is a large value"
        name = self._names.large_segment(head.large.number)
        length = head.size + head.large.sums_bytes(head.size)
        try:
            data = memoryview(read_window(self._storage, self._windows[name], 0, length))
        except (ChunkNotFoundError, LostDataError) as error:
            return self._asked(key, head, name, error)
        value, sums = data[: head.size], data[head.size :]
        if crc32c(sums) != head.large.sums_crc or not _match(value, sums, head.large.piece_bytes):
            found = lost(key, head, name, "pieces do not match their sums")
            return self._asked(key, head, name, found)
        return bytes(value)

    def _asked(self, key: ObjectKey, head: Head, where: str, error: Exception) -> bytes | None:
        """The value as the store reads it now; ``None`` where it is lost and left out."""
        if self._opened is None:
            opened = opened_keyspace(self._path, self._names)
            self._opened = self._stack.enter_context(opened)
        loop, parts = self._opened
        return loop.run(_value_now(parts, key, head, where, error))


async def _value_now(
    parts: SpaceParts, key: ObjectKey, head: Head, where: str, error: Exception
) -> bytes | None:
    moment = await moment_of(parts, FOLD_TTL_S)
    try:
        now = await moment.head(key)
        if now is not None and now.sqn == head.sqn:
            stored = await moment.read((key, now))
            return None if stored is None else stored.value
    finally:
        moment.release()
    if isinstance(error, ChunkNotFoundError):
        raise SnapshotExpiredError(
            "the object was changed since the read was planned, and its value deleted; run it "
            "again, or give a longer option 'ttl'",
            table=parts.names.ledger,
            sqn=head.sqn,
        ) from error
    if not isinstance(error, LostObjectError):
        error = lost(key, head, where, str(error))
    parts.losses.tell(key, error)
    return None


def _runs(found: Sequence[Found]) -> Iterator[list[Found]]:
    """Cut heads into those that are read at once."""
    run: list[Found] = []
    for each in found:
        if run and not _joins(run[0][1], run[-1][1], each[1]):
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _joins(first: Head, last: Head, head: Head) -> bool:
    return (
        first.large is None
        and head.large is None
        and head.number == last.number
        and head.offset - (last.offset + last.length) <= GAP_BYTES
        and head.offset + head.length - first.offset <= READ_BYTES
    )


def _match(value: Buffer, sums: Buffer, piece_bytes: int) -> bool:
    """Whether each piece of a large value has its sum."""
    view = memoryview(value)
    begins = range(0, len(view), piece_bytes)
    known = unpack_sums(bytes(sums)) if len(sums) == SUM_BYTES * len(begins) else ()
    return len(known) == len(begins) and all(
        crc32c(view[begin : begin + piece_bytes]) == wanted
        for begin, wanted in zip(begins, known, strict=True)
    )
