"""A keyspace as blocking applications hold it: the verbs of ``AsyncKeyspace``, for any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.async_keyspaces import (
    check_async,
    create_async,
    destroy_async,
    names_async,
    open_async,
    rebuild_async,
    restore_async,
    warnings_async,
)
from siltstone.objects.blocking_entries import Entries
from siltstone.objects.blocking_exchange import Exchange
from siltstone.objects.blocking_folds import Folds
from siltstone.objects.blocking_large import LargeValueVerbs
from siltstone.objects.blocking_snapshot import KeyspaceSnapshot
from siltstone.objects.changes import STANDARD, Expected, Name, Spec, Terms, Unset, put_request
from siltstone.objects.object_views import ObjectHead, StoredObject
from siltstone.objects.snapshots import QUERY_TTL_S
from siltstone.objects.space_place import Progress, no_progress
from siltstone.store.blocking.background_loop import BackgroundLoop, awaited
from siltstone.store.handles.unpicklable import LivingHandle
from siltstone.store.store import parts_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import SupportsIndex

    from siltstone.container.models.segments import Finding
    from siltstone.core.bytes_like import BytesLike
    from siltstone.objects.async_large import AsyncLargeValues
    from siltstone.objects.batch import PutResult
    from siltstone.objects.rebuild_plan import Recalc
    from siltstone.objects.rebuild_report import DoubtfulObject, RebuildReport
    from siltstone.objects.space_backup import KeyspaceBackupReport
    from siltstone.objects.space_info import KeyspaceInfo
    from siltstone.objects.space_removal import RemovedKeyspace
    from siltstone.objects.space_warnings import KeyspaceWarning
    from siltstone.objects.value_compaction import CompactionReport
    from siltstone.store.store import Store


class Keyspace(LivingHandle, Entries, Exchange, Folds, LargeValueVerbs):
    """A handle to a keyspace, for any thread; ``create`` and ``open`` make one.

    Its store closes it. See ``AsyncKeyspace``.
    """

    __slots__ = ("_keyspace",)

    _keyspace: AsyncKeyspace

    def __init__(self, loop: BackgroundLoop, keyspace: AsyncKeyspace) -> None:
        super().__init__(loop, keyspace)
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

    @property
    def _large(self) -> AsyncLargeValues:
        return self._keyspace

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

    def head(
        self,
        bucket: Name,
        key: Name,
        subkey: Name = b"",
        *,
        tag: str = STANDARD,
        check: bool = False,
    ) -> ObjectHead | None:
        """Return what is known of an object, ``None`` when it is absent or has expired.

        The row is read by this thread, as it is acknowledged at this moment. See
        ``AsyncKeyspace.head``.
        """
        self._loop.check_caller()
        found = self._keyspace.head_key_of(tag, bucket, key, subkey)
        seen = None if check else self._keyspace.view_now(found)
        if seen is None:
            return self._loop.run(self._keyspace.head(bucket, key, subkey, tag=tag, check=check))
        return seen[0]

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

    def compact(self, *, accept_loss: bool = False) -> CompactionReport:
        """Compact the value segments that are worth most. See ``AsyncKeyspace.compact``."""
        return self._loop.run(self._keyspace.compact(accept_loss=accept_loss))

    def stat(self) -> KeyspaceInfo:
        """Count objects, value segments and bytes. See ``AsyncKeyspace.stat``."""
        return self._loop.run(self._keyspace.stat())

    def check(
        self, *, deep: bool = False, progress: Callable[[float], None] = lambda _: None
    ) -> Iterator[Finding]:
        """Yield what is wrong with the keyspace as it is now. See ``AsyncKeyspace.check``."""
        make = partial(self._keyspace.check, deep=deep, progress=progress)
        return self._loop.iterate(make, batch=1)

    def backup(
        self,
        place: Path | str,
        *,
        rate: int | None = None,
        allow_missing: bool = False,
        takeover: bool = False,
        progress: Progress = no_progress,
    ) -> KeyspaceBackupReport:
        """Make a backup of all that is acknowledged now. See ``AsyncKeyspace.backup``."""
        return self._loop.run(
            self._keyspace.backup(
                place,
                rate=rate,
                allow_missing=allow_missing,
                takeover=takeover,
                progress=progress,
            )
        )

    def doubtful(self) -> Iterator[DoubtfulObject]:
        """Yield the doubtful objects of the last rebuild. See ``AsyncKeyspace.doubtful``."""
        return self._loop.iterate(self._keyspace.doubtful)

    # --- folds ------------------------------------------------------------------------------------

    def snapshot(self, ttl_s: float = QUERY_TTL_S) -> KeyspaceSnapshot:
        """Return a handle that reads the keyspace as it is now. See ``AsyncKeyspace.snapshot``."""
        return KeyspaceSnapshot(self._loop, self._loop.run(self._keyspace.snapshot(ttl_s)))


def create(
    store: Store,
    name: str,
    *,
    tags: Mapping[str, str] | None = None,
    head_only: str | None = None,
) -> Keyspace:
    """Make a keyspace in an open store, and open it. See ``create_async``."""
    loop, inner = parts_of(store)
    return Keyspace(loop, loop.run(create_async(inner, name, tags=tags, head_only=head_only)))


def open(store: Store, name: str) -> Keyspace:
    """Open a keyspace of an open store. See ``open_async``."""
    loop, inner = parts_of(store)
    return Keyspace(loop, loop.run(open_async(inner, name)))


def rebuild(
    store: Store,
    name: str,
    *,
    tags: Mapping[str, str] | None = None,
    recalc: Mapping[str, Recalc] | None = None,
    accept_loss: bool = False,
    progress: Callable[[float], None] = lambda _: None,
) -> RebuildReport:
    """Make the ledger of a keyspace again from its values. See ``rebuild_async``."""
    loop, inner = parts_of(store)
    return loop.run(
        rebuild_async(
            inner, name, tags=tags, recalc=recalc, accept_loss=accept_loss, progress=progress
        )
    )


def restore(
    store: Store,
    name: str,
    place: Path | str,
    *,
    keyspace: str | None = None,
    of: str | None = None,
    generation: int | None = None,
    recalc: Mapping[str, Recalc] | None = None,
    allow_missing: bool = False,
    progress: Progress = no_progress,
) -> RebuildReport:
    """Make a keyspace of a backup. See ``restore_async``."""
    loop, inner = parts_of(store)
    return loop.run(
        restore_async(
            inner,
            name,
            place,
            keyspace=keyspace,
            of=of,
            generation=generation,
            recalc=recalc,
            allow_missing=allow_missing,
            progress=progress,
        )
    )


def names(store: Store) -> Iterator[str]:
    """Yield the names of the keyspaces of an open store, in the order of their bytes."""
    loop, inner = parts_of(store)
    return loop.iterate(lambda: names_async(inner))


def warnings(store: Store) -> Iterator[KeyspaceWarning]:
    """Yield what people should know of the keyspaces of a store. See ``warnings_async``."""
    loop, inner = parts_of(store)
    return loop.iterate(lambda: warnings_async(inner))


def check(
    store: Store,
    name: str,
    *,
    deep: bool = False,
    progress: Callable[[float], None] = lambda _: None,
) -> Iterator[Finding]:
    """Yield what is wrong with a keyspace, which need not open. See ``check_async``."""
    loop, inner = parts_of(store)
    return loop.iterate(partial(check_async, inner, name, deep=deep, progress=progress), batch=1)


def destroy(store: Store, name: str) -> RemovedKeyspace:
    """Remove a keyspace with all of its objects, for ever. See ``destroy_async``."""
    loop, inner = parts_of(store)
    return loop.run(destroy_async(inner, name))
