"""A keyspace as it was at one moment, as asyncio applications hold it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.objects.async_folds import AsyncFolds
from siltstone.objects.changes import STANDARD, Name
from siltstone.objects.object_views import ObjectHead, StoredObject
from siltstone.objects.open_value import AsyncOpenValue, open_value
from siltstone.store.handles.unpicklable import LivingHandle

if TYPE_CHECKING:
    from siltstone.objects.moment import Moment
    from siltstone.objects.space_parts import SpaceParts


class AsyncKeyspaceSnapshot(LivingHandle, AsyncClosing, AsyncFolds):
    """A keyspace as it was when this was made by ``AsyncKeyspace.snapshot``. Close it when done.

    What is put or deleted later is not seen. What has expired meanwhile is not seen either. Every
    method raises ``SnapshotExpiredError`` once its time is over.
    """

    def __init__(self, moment: Moment) -> None:
        self._taken = moment

    def __repr__(self) -> str:
        return f"AsyncKeyspaceSnapshot({self._parts.names.name!r}, version={self.version})"

    @property
    def version(self) -> int:
        """The table version that it shows."""
        return self._taken.version

    async def close(self) -> None:
        """End it. Idempotent."""
        self._taken.release()

    async def head(
        self, bucket: Name, key: Name, subkey: Name = b"", *, tag: str = STANDARD
    ) -> ObjectHead | None:
        """Return what was known of an object, ``None`` when it was absent or has expired."""
        found = self._parts.head_key_of(tag, bucket, key, subkey)
        head = await self._taken.head(found)
        return None if head is None else ObjectHead(found, head)

    async def get(self, bucket: Name, key: Name, *, tag: str = STANDARD) -> StoredObject | None:
        """Return an object with its value. Raises like ``AsyncKeyspace.get``."""
        found = self._parts.key_of(tag, bucket, key)
        head = await self._taken.head(found)
        return None if head is None else await self._taken.read((found, head))

    async def open_value(
        self, bucket: Name, key: Name, *, tag: str = STANDARD
    ) -> AsyncOpenValue | None:
        """Return what reads the value that an object had by parts, also after this has ended.

        See ``AsyncKeyspace.open_value``.
        """
        found = self._parts.key_of(tag, bucket, key)
        return await open_value(
            self._parts,
            found,
            lambda: self._taken.head(found),
            lambda head: self._taken.read((found, head)),
        )

    @property
    def _parts(self) -> SpaceParts:
        return self._taken.parts

    @asynccontextmanager
    async def _moment(self, ttl_s: float) -> AsyncIterator[Moment]:
        yield self._taken
