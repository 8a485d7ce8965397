"""A keyspace as blocking applications hold it: the verbs of ``AsyncKeyspace``, for any thread."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from siltstone.objects.async_keyspace import STANDARD, AsyncKeyspace
from siltstone.objects.async_keyspaces import create_async, names_async, open_async
from siltstone.objects.blocking_snapshot import KeyspaceSnapshot
from siltstone.objects.changes import Expected, Name, Spec, Terms, Unset, put_request
from siltstone.objects.object_views import ObjectHead, StoredObject
from siltstone.objects.snapshots import FOLD_TTL_S, QUERY_TTL_S
from siltstone.store.blocking.background_loop import BackgroundLoop, awaited
from siltstone.store.handles.unpicklable import LivingHandle
from siltstone.store.store import parts_of

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.core.bytes_like import BytesLike
    from siltstone.objects.async_snapshot import Order
    from siltstone.objects.batches import PutResult
    from siltstone.objects.value_compaction import CompactionReport
    from siltstone.store.store import Store


class Keyspace(LivingHandle):
    """A handle to a keyspace, for any thread; ``create`` and ``open`` make one.

    Its store closes it. See ``AsyncKeyspace``.
    """

    __slots__ = ("_keyspace", "_loop")

    def __init__(self, loop: BackgroundLoop, keyspace: AsyncKeyspace) -> None:
        self._loop = loop
        self._keyspace = keyspace

    def __repr__(self) -> str:
        return f"Keyspace({self.name!r})"

    @property
    def name(self) -> str:
        """The keyspace's name."""
        return self._keyspace.name

    @property
    def tags(self) -> Mapping[str, str]:
        """By tag what value compaction keeps of changes that were replaced."""
        return self._keyspace.tags

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
    ) -> PutResult:
        """Set an object, durably. See ``AsyncKeyspace.put``."""
        request = put_request(
            self._keyspace.key_of(tag, bucket, key),
            value,
            metadata=metadata,
            index=index,
            specs=specs,
            expected=expected,
            ttl_s=ttl_s,
            value_hash=value_hash,
        )
        return self._loop.run(awaited(partial(self._keyspace.put_now, request)))

    def delete(
        self,
        bucket: Name,
        key: Name,
        *,
        tag: str = STANDARD,
        expected: Expected | SupportsIndex = Unset.ANY,
    ) -> int | None:
        """Remove an object; return the SQN of that, ``None`` when it was absent."""
        call = partial(self._keyspace.delete, bucket, key, tag=tag, expected=expected)
        return self._loop.run(awaited(call))

    def head(self, bucket: Name, key: Name, *, tag: str = STANDARD) -> ObjectHead | None:
        """Return what is known of an object, ``None`` when it is absent or has expired.

        The row is read by this thread, as it is acknowledged at this moment.
        """
        self._loop.check_caller()
        found = self._keyspace.key_of(tag, bucket, key)
        seen = self._keyspace.head_now(found)
        if seen is None:
            return self._loop.run(self._keyspace.head(bucket, key, tag=tag))
        return None if seen[0] is None else ObjectHead(found, seen[0])

    def get(self, bucket: Name, key: Name, *, tag: str = STANDARD) -> StoredObject | None:
        """Return an object with its value, ``None`` when it is absent or has expired.

        What is in memory, or in local files that the system has in memory, is read by this thread.
        See ``AsyncKeyspace.get``.
        """
        self._loop.check_caller()
        found = self._keyspace.key_of(tag, bucket, key)
        seen = self._keyspace.get_now(found)
        return self._loop.run(self._keyspace.get_key(found)) if seen is None else seen[0]

    def reap(self) -> int:
        """Remove now what has expired. See ``AsyncKeyspace.reap``."""
        return self._loop.run(self._keyspace.reap())

    def compact(self) -> CompactionReport:
        """Compact the value segments that are worth most. See ``AsyncKeyspace.compact``."""
        return self._loop.run(self._keyspace.compact())

    # --- folds ------------------------------------------------------------------------------------

    def snapshot(self, ttl_s: float = QUERY_TTL_S) -> KeyspaceSnapshot:
        """Return a handle that reads the keyspace as it is now. See ``AsyncKeyspace.snapshot``."""
        return KeyspaceSnapshot(self._loop, self._loop.run(self._keyspace.snapshot(ttl_s)))

    def heads(
        self,
        bucket: Name | None = None,
        *,
        tag: str = STANDARD,
        start: Name | None = None,
        end: Name | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Iterator[ObjectHead]:
        """Yield heads as they are at the first step. See ``AsyncKeyspaceSnapshot.heads``."""
        with self.snapshot() as taken:
            yield from taken.heads(bucket, tag=tag, start=start, end=end, since=since, until=until)

    def keys(
        self,
        bucket: Name,
        *,
        tag: str = STANDARD,
        start: Name | None = None,
        end: Name | None = None,
    ) -> Iterator[str]:
        """Yield the keys of a bucket as they are at the first step, in order."""
        with self.snapshot() as taken:
            yield from taken.keys(bucket, tag=tag, start=start, end=end)

    def buckets(self, *, tag: str = STANDARD) -> Iterator[str]:
        """Yield the buckets that have objects at the first step, in order."""
        with self.snapshot() as taken:
            yield from taken.buckets(tag=tag)

    def index(
        self,
        bucket: Name,
        field: Name,
        start: Name | None = None,
        end: Name | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        tag: str = STANDARD,
    ) -> Iterator[tuple[str, str]]:
        """Yield terms and keys as they are at the first step.

        See ``AsyncKeyspaceSnapshot.index``.
        """
        with self.snapshot() as taken:
            yield from taken.index(bucket, field, start, end, pattern=pattern, tag=tag)

    def objects(
        self,
        bucket: Name | None = None,
        *,
        tag: str = STANDARD,
        order: Order = "key",
        start: Name | None = None,
        end: Name | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Iterator[StoredObject]:
        """Yield objects with their values as they are at the first step.

        See ``AsyncKeyspaceSnapshot.objects``.
        """
        with self.snapshot(FOLD_TTL_S) as taken:
            yield from taken.objects(
                bucket, tag=tag, order=order, start=start, end=end, since=since, until=until
            )

    def indexed(
        self,
        bucket: Name,
        field: Name,
        start: Name | None = None,
        end: Name | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        tag: str = STANDARD,
    ) -> Iterator[tuple[str, StoredObject]]:
        """Yield terms and the objects that they find, as they are at the first step."""
        with self.snapshot(FOLD_TTL_S) as taken:
            yield from taken.indexed(bucket, field, start, end, pattern=pattern, tag=tag)


def create(store: Store, name: str, *, tags: Mapping[str, str] | None = None) -> Keyspace:
    """Make a keyspace in an open store, and open it. See ``create_async``."""
    loop, inner = parts_of(store)
    return Keyspace(loop, loop.run(create_async(inner, name, tags=tags)))


def open(store: Store, name: str) -> Keyspace:
    """Open a keyspace of an open store. See ``open_async``."""
    loop, inner = parts_of(store)
    return Keyspace(loop, loop.run(open_async(inner, name)))


def names(store: Store) -> Iterator[str]:
    """Yield the names of the keyspaces of an open store, in the order of their bytes."""
    loop, inner = parts_of(store)
    return loop.iterate(lambda: names_async(inner))
