"""A keyspace as asyncio applications hold it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from siltstone.objects.async_backups import AsyncBackups
from siltstone.objects.async_entries import AsyncEntries
from siltstone.objects.async_exchange import AsyncExchange
from siltstone.objects.async_large import AsyncLargeValues
from siltstone.objects.async_looks import AsyncLooks
from siltstone.objects.async_snapshot import AsyncKeyspaceSnapshot
from siltstone.objects.changes import (
    STANDARD,
    DeleteRequest,
    Expected,
    Name,
    Spec,
    Terms,
    Unset,
    check_expected,
    put_request,
)
from siltstone.objects.errors import LostObjectError
from siltstone.objects.moment import Moment, moment_of
from siltstone.objects.object_views import ObjectHead, StoredObject
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.snapshots import QUERY_TTL_S
from siltstone.store.handles.unpicklable import LivingHandle

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.core.bytes_like import BytesLike
    from siltstone.objects.batch import PutResult
    from siltstone.objects.changes import PutRequest
    from siltstone.objects.ledger import HeadRow
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.space_parts import SpaceParts
    from siltstone.objects.value_compaction import CompactionReport


class AsyncKeyspace(
    LivingHandle, AsyncBackups, AsyncEntries, AsyncExchange, AsyncLooks, AsyncLargeValues
):
    """A handle to a keyspace; ``create_async`` and ``open_async`` make one.

    It is for the loop of its store, which closes the keyspace when it is closed itself.
    """

    __slots__ = ("_space",)

    def __init__(self, space: OpenSpace) -> None:
        self._space = space

    def __repr__(self) -> str:
        return f"AsyncKeyspace({self.name!r})"

    @property
    def name(self) -> str:
        """The keyspace's name."""
        return self._space.parts.names.name

    @property
    def tags(self) -> Mapping[str, str]:
        """By tag what value compaction keeps of changes that were replaced."""
        return {tag: each.name.lower() for tag, each in self._space.parts.space.tags.items()}

    def put(
        self,
        bucket: Name,
        key: Name,
        value: BytesLike,
        *,
        tag: str = STANDARD,
        metadata: BytesLike = b"",
        index: Terms | None = None,
        specs: Iterable[Spec] | None = None,
        expected: Expected | SupportsIndex = Unset.ANY,
        ttl_s: SupportsIndex | None = None,
        value_hash: BytesLike | None = None,
    ) -> asyncio.Future[PutResult]:
        """Set an object; the awaited result is given as soon as it is durable.

        All is taken by the call, awaited or not: many puts can be on their way without a task for
        each. They take effect in the order of their calls: value, head and index at once.
        Cancelling frees the caller; the change may still take place.

        Args:
            bucket: bytes, or text in UTF-8; 1 to 8,192 bytes. Of several objects with one bucket
                and key those of different tags are different objects.
            key: the same.
            value: of any length. One over 4 MiB is put as by ``put_from``, so it takes effect
                later than what is asked for next.
            tag: one of the keyspace's.
            metadata: a note that ``head`` gives without the value; at most 64 KiB.
            index: by field the terms under which the object is found from now on, instead of those
                before. Without it, and without ``specs``, it is found under none.
            specs: instead of ``index``, changes of the entries that the object has: ``add`` or
                ``remove``, field, term.
            expected: put only if the object has this SQN now; ``None`` means only if it is absent.
            ttl_s: seconds until the object expires, up to one more; 1 to 2**31. It is invisible
                from then on.
            value_hash: 8 bytes by which values are compared; ``None`` means BLAKE2b of value and
                metadata.

        Raises:
            ObjectLimitError: a part is too long.
            UnsupportedError: the keyspace has no such tag.
            ReadOnlyError: the store was opened read-only.
            ClosedError: the store was closed.

        Raises, when awaited:
            ConditionFailedError: the object is not as expected; nothing was changed.
            BackPressureError, SafeModeError, StorageFullError: no room; nothing was changed.
            OutcomeUnknownError: the log failed; the change may or may not be there.
            FencedError: another owner took over; this store can no longer be used.
            CorruptDataError: something else writes to the rows or the value segments of the
                keyspace; nothing was changed.
        """
        return self.put_now(
            put_request(
                self.key_of(tag, bucket, key),
                value,
                metadata=metadata,
                index=index,
                specs=specs,
                expected=expected,
                ttl_s=ttl_s,
                value_hash=value_hash,
            )
        )

    def put_now(self, request: PutRequest) -> asyncio.Future[PutResult]:
        """Put what ``put_request`` made, on any thread, for a key of this keyspace."""
        if len(request.value) > self._space.record_value_max:
            return self.put_large(request)
        return self._space.batches.put(request)

    def delete(
        self,
        bucket: Name,
        key: Name,
        *,
        tag: str = STANDARD,
        expected: Expected | SupportsIndex = Unset.ANY,
    ) -> asyncio.Future[int | None]:
        """Remove an object; the result is the SQN of that, ``None`` when it was absent.

        Otherwise like ``put``.
        """
        request = DeleteRequest(
            key=self.key_of(tag, bucket, key), expected=check_expected(expected)
        )
        return self._space.batches.delete(request)

    async def head(
        self,
        bucket: Name,
        key: Name,
        subkey: Name = b"",
        *,
        tag: str = STANDARD,
        check: bool = False,
    ) -> ObjectHead | None:
        """Return what is known of an object, ``None`` when it is absent or has expired.

        It looks at one row, and at no value.

        Args:
            bucket: of the object.
            key: its name in the bucket.
            subkey: of an entry; only a keyspace of heads only has some.
            tag: of its kind.
            check: compare the head with the header of the record; the value is not read.

        Raises:
            LostObjectError: with ``check``, the record is damaged or gone; with ``objects.lost:
                missing`` in the settings the answer is ``None``.
            ChunkError: with ``check``, long-term storage refused, or did not answer.
        """
        found = self.head_key_of(tag, bucket, key, subkey)
        if check:
            self._parts.check_values("a comparison of heads with records")
            return await self._compared(found)
        seen = self.view_now(found)
        if seen is not None:
            return seen[0]
        head = await self._visible(found)
        if head is None:
            return None
        self._space.checks.sample(found)
        return ObjectHead(found, head)

    async def _compared(self, found: ObjectKey) -> ObjectHead | None:
        try:
            head = await self._space.checks.check(found, partial(self._visible, found))
        except LostObjectError as error:
            self._parts.losses.tell(found, error)
            return None
        return None if head is None else ObjectHead(found, head)

    async def get(self, bucket: Name, key: Name, *, tag: str = STANDARD) -> StoredObject | None:
        """Return an object with its value, ``None`` when it is absent or has expired.

        Raises:
            LostObjectError: the value is damaged or gone; with ``objects.lost: missing`` in the
                settings the answer is ``None``.
            ChunkError: long-term storage refused, or did not answer.
        """
        return await self.get_key(self.key_of(tag, bucket, key))

    async def get_key(self, found: ObjectKey) -> StoredObject | None:
        """``get`` of the object of a key of this keyspace."""
        try:
            return await self._stored(found)
        except LostObjectError as error:
            self._parts.losses.tell(found, error)
            return None

    async def _stored(self, found: ObjectKey) -> StoredObject | None:
        parts = self._parts
        seen = await parts.read_by_head(found, partial(self._visible, found), parts.values.value)
        if seen is None:
            return None
        head, value = seen
        parts.meter.got(len(value))
        return StoredObject(head=ObjectHead(found, head), value=value)

    def get_now(self, found: ObjectKey) -> tuple[StoredObject | None] | None:
        """``get`` on any thread; ``None`` when only ``get_key`` can tell."""
        seen = self._row_now(found)
        if seen is None:
            return None
        if seen[0] is None:
            return (None,)
        row, fields = seen[0]
        value = self._parts.values.value_now(found, row, fields)
        if value is None:
            return None
        self._parts.meter.got(len(value[0]))
        return (StoredObject(head=ObjectHead(found, row, fields), value=value[0]),)

    async def reap(self) -> int:
        """Remove now what has expired from the ledger; return how many objects that were.

        It is done once a minute by itself. What has expired is invisible before.
        """
        return await self._space.reap()

    async def _visible(self, key: ObjectKey) -> Head | None:
        self._space.check_open()
        ledger = self._space.parts.ledger
        if not self._space.parts.store.read_only:
            return self.visible(await ledger.head(key))
        while True:  # until no step of a rebuild by the owner came between
            before, head, after = await ledger.state(), await ledger.head(key), await ledger.state()
            if before == after:
                return self.visible(head)

    def visible(self, head: Head | None) -> Head | None:
        """The head, unless it has expired."""
        now_s = self._space.parts.store.environment.time()
        return head if head is not None and head.is_visible(now_s) else None

    def view_now(self, key: ObjectKey) -> tuple[ObjectHead | None] | None:
        """``head`` on any thread; ``None`` when only the loop can tell."""
        found = self._row_now(key)
        if found is None:
            return None
        if found[0] is None:
            return (None,)
        self._space.checks.sample(key)
        return (ObjectHead(key, *found[0]),)

    def _row_now(self, key: ObjectKey) -> tuple[HeadRow | None] | None:
        """The row of the visible head of an object; ``None`` when only the loop can tell."""
        self._space.check_open()
        parts = self._space.parts
        ledger = parts.ledger
        is_reader = parts.store.read_only
        before = ledger.state_now() if is_reader else None
        found = ledger.row_now(key)
        if is_reader and (before is None or before != ledger.state_now()):
            return None  # a step of a rebuild by the owner may have come between
        if found is not None and found[0] is not None:
            expires_s = found[0][1][8]
            if expires_s and parts.store.environment.time() >= expires_s:
                return (None,)
        return found

    def key_of(self, tag: str, bucket: Name, key: Name) -> ObjectKey:
        """Return the key of an object of this keyspace. See ``SpaceParts.key_of``."""
        return self._space.parts.key_of(tag, bucket, key)

    def head_key_of(self, tag: str, bucket: Name, key: Name, subkey: Name) -> ObjectKey:
        """Return the key of a head that is looked at. See ``SpaceParts.head_key_of``."""
        return self._space.parts.head_key_of(tag, bucket, key, subkey)

    async def compact(self, *, accept_loss: bool = False) -> CompactionReport:
        """Compact the value segments that are worth most, once; the report says what was done.

        What is still needed of up to eight neighbouring segments is written once more, straight to
        long-term storage, and the old ones are deleted when no snapshot needs them. A repeat goes
        on; when nothing is worth it the report has no ``run``. Segments of which a needed record is
        damaged or gone are left as they are, and named as ``unreadable``.

        Args:
            accept_loss: delete objects whose values are damaged or gone in such segments, and
                compact the rest; the report names them. Where no headers can be read, nothing tells
                what is lost, and the segment stays as it is.

        Raises:
            CompactionBusyError: one is running.
            CorruptDataError: rows are damaged; nothing was changed.
            ChunkError: long-term storage refused, or did not answer; nothing was changed.
            OutcomeUnknownError: the log failed; it may or may not have taken place.
        """
        return await self._space.compact(accept_loss=accept_loss)

    # --- folds ------------------------------------------------------------------------------------

    async def snapshot(self, ttl_s: float = QUERY_TTL_S) -> AsyncKeyspaceSnapshot:
        """Return a handle that reads the keyspace as it is now, whatever changes later.

        It lives in memory: it also ends when the keyspace is closed, or its container opened again.

        Args:
            ttl_s: seconds until it ends, above 0, at most 43,200. What is replaced meanwhile stays
                on disk as long.

        Raises:
            SnapshotLimitError: 16 snapshots of tables of this container are living.
        """
        return AsyncKeyspaceSnapshot(await self._now(ttl_s))

    @property
    def _parts(self) -> SpaceParts:
        return self._space.parts

    @asynccontextmanager
    async def _moment(self, ttl_s: float) -> AsyncIterator[Moment]:
        moment = await self._now(ttl_s)
        try:
            yield moment
        finally:
            moment.release()

    async def _now(self, ttl_s: float) -> Moment:
        self._space.check_open()
        return await moment_of(self._parts, ttl_s)
