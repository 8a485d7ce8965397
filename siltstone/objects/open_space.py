"""An open keyspace: what its handles share. There is one for each open store and name."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.errors import ClosedError, ReadOnlyError
from siltstone.objects.batches import BatchWriter
from siltstone.objects.changes import Name, object_key
from siltstone.objects.errors import UnsupportedError
from siltstone.objects.expiry import reap, reap_always
from siltstone.objects.ledger import Ledger
from siltstone.objects.opening import FoundSpace, find_space
from siltstone.objects.records.space_rows import Space, ValueStatus
from siltstone.objects.snapshots import LedgerSnapshots
from siltstone.objects.value_log import ValueLog
from siltstone.objects.value_segments import RollLimits, ValueSegments
from siltstone.store.system_table import close_before

if TYPE_CHECKING:
    from siltstone.objects.names import SpaceNames
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.store.async_store import AsyncStore


class OpenSpace(AsyncClosing):
    """What the handles of a keyspace share. Used on the loop of its store.

    Args:
        store: of the keyspace.
        names: of the keyspace.
        found: what it was when it was opened.
        limits: when a value segment is full.

    Attributes:
        store: of the keyspace.
        names: of the keyspace.
        space: what it is.
        ledger: its rows.
        values: its value segments.
        snapshots: of its rows.
        closed: whether it was closed.
    """

    def __init__(
        self, store: AsyncStore, names: SpaceNames, found: FoundSpace, limits: RollLimits
    ) -> None:
        self.store = store
        self.names = names
        self.space: Space = found.space
        self.ledger = Ledger(store, names)
        self.values = ValueLog(store, names)
        self.snapshots = LedgerSnapshots(store.table(names.ledger))
        self.closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._batches: BatchWriter | None = None
        self._run: asyncio.Task[None] | None = None
        if store.read_only:
            return
        segments = ValueSegments(store, names, limits, self._begin)
        self._batches = BatchWriter(store, names, self.ledger, segments)
        self._run = asyncio.get_running_loop().create_task(self._batches.run())
        self._begin(reap_always(store, names, self._batches))
        for row in found.manifest:
            if row.status is ValueStatus.ROLLING:
                segments.finish(row)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def check_tag(self, tag: str) -> None:
        """Refuse a tag that the keyspace does not have. Raises ``UnsupportedError``."""
        if tag not in self.space.tags:
            raise UnsupportedError(
                f"the keyspace has no tag {tag!r}, only {', '.join(self.space.tags)}",
                keyspace=self.names.name,
            )

    def key_of(self, tag: str, bucket: Name, key: Name) -> ObjectKey:
        """Return the key of an object of this keyspace.

        Raises:
            ObjectLimitError: a part is empty or too long.
            UnsupportedError: the keyspace has no such tag.
        """
        self.check_tag(tag)
        return object_key(tag, bucket, key)

    async def reap(self) -> int:
        """Remove what has expired; return how many objects that were."""
        return await reap(self.store, self.names, self.batches)

    @property
    def batches(self) -> BatchWriter:
        """What takes changes.

        Raises:
            ReadOnlyError: the store was opened read-only.
            ClosedError: it was closed.
        """
        self.check_open()
        if self._batches is None:
            raise ReadOnlyError("the store was opened read-only", keyspace=self.names.name)
        return self._batches

    def check_open(self) -> None:
        """Raise ``ClosedError`` once it was closed."""
        if self.closed:
            raise ClosedError("the keyspace was closed")

    async def close(self) -> None:
        """Settle every request that was taken, and end. Idempotent."""
        self.closed = True
        self.snapshots.end()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if self._batches is not None and self._run is not None:
            self._batches.stop()
            tasks.append(self._run)
        if tasks:
            await asyncio.wait(tasks)


class _OpenSpaces:
    """The open keyspaces of one store."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.spaces: dict[str, OpenSpace] = {}


_open: WeakKeyDictionary[AsyncStore, _OpenSpaces] = WeakKeyDictionary()


async def open_space(
    store: AsyncStore, names: SpaceNames, limits: RollLimits | None = None
) -> OpenSpace:
    """Return the open keyspace of a store, which all its handles share.

    Args:
        store: of the keyspace; it closes the keyspace before it closes itself.
        names: of the keyspace.
        limits: when a value segment is full, if it is not open yet; ``None`` is the default.

    Raises what ``find_space`` raises.
    """
    opened = _open.setdefault(store, _OpenSpaces())
    async with opened.lock:
        space = opened.spaces.get(names.name)
        if space is None or space.closed:
            found = await find_space(store, names)
            space = OpenSpace(store, names, found, limits or RollLimits())
            opened.spaces[names.name] = space
            close_before(store, space)
        return space
