"""The value of an object, to be read by parts, as asyncio applications hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.errors import (
    ClosedError,
    SegmentNotFoundError,
    SegmentTruncatedError,
)
from siltstone.objects.errors import LostObjectError
from siltstone.objects.object_views import READS_MAX, ObjectHead, StoredObject, lost
from siltstone.store.handles.arguments import check_range
from siltstone.store.handles.unpicklable import LivingHandle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import SupportsIndex

    from siltstone.objects.large_values import LargeValue
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.records.large_place import LargePlace
    from siltstone.objects.space_parts import SpaceParts

Run = tuple[int, bytes]
"""Where some bytes of a value begin, and they."""


class LargeReader:
    """Reads a large value, which it keeps until it is closed.

    Args:
        parts: of the keyspace.
        key: of the object.
        head: of the object.
        value: its value, which is held.
        number: of the value.
    """

    def __init__(
        self, parts: SpaceParts, key: ObjectKey, head: Head, value: LargeValue, number: int
    ) -> None:
        self._parts = parts
        self._key = key
        self._head = head
        self._value = value
        self._number = number
        self._closed = False

    async def around(self, start: int, end: int) -> Run:
        """Read some bytes from ``start`` on, or from before, and at most up to a piece's end."""
        try:
            return await self._value.read_around(start, end)
        except LostObjectError as error:
            self._parts.losses.note(self._key, error)
            raise
        except (SegmentNotFoundError, SegmentTruncatedError) as error:
            await self._parts.check_unchanged(self._key, self._head, error)
            found = lost(self._key, self._head, self._value.name, str(error))
            self._parts.losses.note(self._key, found)
            raise found from error

    def close(self) -> None:
        """Let the value go. Idempotent."""
        if not self._closed:
            self._closed = True
            self._parts.large.use.release(self._number)


class AsyncOpenValue(LivingHandle, AsyncClosing):
    """The value of an object as it was when ``open_value`` was called. Close it when done.

    It stays readable when the object is changed or deleted meanwhile. Up to 4 MiB of it are in
    memory at a time, and 4 bytes for each MiB; all of it, if it has no more than 4 MiB.

    Args:
        head: of the object.
        run: bytes that are in memory already.
        reader: reads the others; ``None`` if there are none.
    """

    def __init__(self, head: ObjectHead, run: Run, reader: LargeReader | None) -> None:
        self.head = head
        self._run = run
        self._reader = reader
        self._closed = False

    def __repr__(self) -> str:
        return f"AsyncOpenValue({self.head!r})"

    @property
    def size(self) -> int:
        """Bytes of the value."""
        return self.head.size

    async def read(self, offset: SupportsIndex, length: SupportsIndex) -> bytes:
        """Return up to ``length`` bytes from ``offset``: fewer only at the end, none beyond it.

        Every byte is compared with a sum.

        Raises:
            LostObjectError: bytes are damaged or gone.
            SnapshotExpiredError: the store is read-only, and its owner deleted the value, which was
                replaced.
            ValueError: a negative number, or more than 1 GiB.
            ClosedError: this was closed.
            ChunkError: long-term storage refused, or did not answer.
        """
        start, length = check_range(offset, length)
        end = min(start + length, self.size)
        parts: list[bytes] = []
        while start < end:
            found = self.now(start, end)
            if found is None:
                assert self._reader is not None, "all of it is in memory"
                self._run = await self._reader.around(start, end)
                continue
            parts.append(found)
            start += len(found)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def now(self, start: int, end: int) -> bytes | None:
        """Bytes from ``start`` on that are in memory, as many as there are; on any thread.

        Returns:
            ``None`` when none of them are.
        """
        if self._closed:
            raise ClosedError("the value was closed")
        first, data = self._run
        if not first <= start < first + len(data):
            return None
        return data[start - first : end - first]

    async def close(self) -> None:
        """End it. Idempotent."""
        self.close_now()

    def close_now(self) -> None:
        """``close`` on any thread."""
        self._closed = True
        self._run = (0, b"")
        if self._reader is not None:
            self._reader.close()


async def open_value(
    parts: SpaceParts,
    key: ObjectKey,
    head_of: Callable[[], Awaitable[Head | None]],
    small: Callable[[Head], Awaitable[StoredObject | None]],
) -> AsyncOpenValue | None:
    """Open the value of an object.

    Args:
        parts: of the keyspace.
        key: of the object.
        head_of: looks for its head.
        small: reads an object whose value is in its record.

    Returns:
        ``None`` when it is absent or has expired, or is lost and readers are told so.

    Raises:
        LostObjectError: bytes are damaged or gone.
        ChunkError: long-term storage refused, or did not answer.
    """
    attempts = 0
    while (head := await head_of()) is not None:
        if head.large is None:
            stored = await small(head)
            return None if stored is None else AsyncOpenValue(stored.head, (0, stored.value), None)
        try:
            return await _opened(parts, key, head, head.large)
        except (SegmentNotFoundError, SegmentTruncatedError) as error:
            attempts += 1  # another value is the newest by now
            if attempts < READS_MAX:
                continue
            await parts.check_unchanged(key, head, error)
            found = lost(key, head, parts.names.large_segment(head.large.number), str(error))
        except LostObjectError as error:
            found = error
        parts.losses.tell(key, found)
        return None
    return None


async def _opened(
    parts: SpaceParts, key: ObjectKey, head: Head, place: LargePlace
) -> AsyncOpenValue:
    value = parts.large.value(key, head, place)
    parts.large.hold(place.number)
    reader = LargeReader(parts, key, head, value, place.number)
    try:
        await value.load()
    except BaseException:
        reader.close()
        raise
    return AsyncOpenValue(ObjectHead(key, head), (0, b""), reader)
