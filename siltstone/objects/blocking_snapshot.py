"""A keyspace as it was at one moment, as blocking applications hold it, on any thread."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from siltstone.core.closed_on_exit import Closing
from siltstone.core.errors import ClosedError
from siltstone.objects.blocking_folds import Folds
from siltstone.objects.blocking_large import OpenValue
from siltstone.objects.changes import STANDARD, Name
from siltstone.objects.object_views import ObjectHead, StoredObject
from siltstone.store.blocking.background_loop import BackgroundLoop
from siltstone.store.handles.unpicklable import LivingHandle

if TYPE_CHECKING:
    from siltstone.objects.async_snapshot import AsyncKeyspaceSnapshot


class KeyspaceSnapshot(LivingHandle, Closing, Folds):
    """A keyspace as it was; ``Keyspace.snapshot`` makes one. See ``AsyncKeyspaceSnapshot``."""

    def __init__(self, loop: BackgroundLoop, snapshot: AsyncKeyspaceSnapshot) -> None:
        super().__init__(loop, snapshot)
        self._snapshot = snapshot

    def __repr__(self) -> str:
        return repr(self._snapshot).removeprefix("Async")

    @property
    def version(self) -> int:
        """The table version that it shows."""
        return self._snapshot.version

    def close(self) -> None:
        """End it. Idempotent."""
        with suppress(ClosedError):  # It ended with the store.
            self._loop.run(self._snapshot.close())

    def head(
        self, bucket: Name, key: Name, subkey: Name = b"", *, tag: str = STANDARD
    ) -> ObjectHead | None:
        """Return what was known of an object, ``None`` when it was absent or has expired."""
        return self._loop.run(self._snapshot.head(bucket, key, subkey, tag=tag))

    def get(self, bucket: Name, key: Name, *, tag: str = STANDARD) -> StoredObject | None:
        """Return an object with its value. See ``AsyncKeyspace.get``."""
        return self._loop.run(self._snapshot.get(bucket, key, tag=tag))

    def open_value(self, bucket: Name, key: Name, *, tag: str = STANDARD) -> OpenValue | None:
        """Return the value that an object had as a file. See ``AsyncKeyspaceSnapshot``."""
        value = self._loop.run(self._snapshot.open_value(bucket, key, tag=tag))
        return None if value is None else OpenValue(self._loop, value)
