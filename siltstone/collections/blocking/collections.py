"""The collections of a store for blocking callers, on any thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow

from siltstone.collections.async_collections import AsyncCollections, open_async_collections
from siltstone.collections.blocking.collection import Collection
from siltstone.core.closed_on_exit import Closing
from siltstone.store.blocking.background_loop import BackgroundLoop

if TYPE_CHECKING:
    from siltstone.collections.compaction import ShareDone
    from siltstone.collections.place import CollectionSettings
    from siltstone.collections.row_imports import CollectionImport
    from siltstone.collections.sources.table_source import Note, TableSource
    from siltstone.collections.state.state_warnings import CollectionWarning
    from siltstone.collections.used_space import CollectionSpace
    from siltstone.container.models.segments import Finding
    from siltstone.core.environment import Environment
    from siltstone.core.records.collection_part import CollectionPart
    from siltstone.store.store import Store


def open_collections(
    store: Path | str | Store,
    *,
    settings: CollectionSettings | None = None,
    environment: Environment | None = None,
) -> Collections:
    """Open the collections of a store, by its path or in its owner.

    See ``open_async_collections``.
    """
    if not isinstance(store, Path | str):
        opening = open_async_collections(store._store, settings=settings)
        return Collections(store._loop, store._loop.run(opening), closes=None)
    loop = BackgroundLoop("siltstone-collections")
    try:
        opened = loop.run(open_async_collections(store, settings=settings, environment=environment))
    except BaseException:
        loop.close()
        raise
    return Collections(loop, opened, closes=loop)


class Collections(Closing):
    """All collections of a store. See ``AsyncCollections``.

    Args:
        loop: on which they are used.
        collections: what was opened.
        closes: a loop that is closed with them; ``None`` for that of an open store.
    """

    def __init__(
        self, loop: BackgroundLoop, collections: AsyncCollections, *, closes: BackgroundLoop | None
    ) -> None:
        self._loop = loop
        self._collections = collections
        self._closes = closes

    def create(
        self,
        name: str,
        schema: pyarrow.Schema,
        *,
        key: Sequence[str],
        history: str | int = "all",
        times: str = "ms",
    ) -> Collection:
        """Make a collection."""
        made = self._loop.run(
            self._collections.create(name, schema, key=key, history=history, times=times)
        )
        return Collection(self._loop, made)

    def import_new(
        self,
        name: str,
        source: TableSource,
        *,
        key: Sequence[str],
        time: int | None = None,
        writer: str | None = None,
        sequence: int | None = None,
        progress: Note | None = None,
        dry_run: bool = False,
    ) -> CollectionImport:
        """Make a collection of a table elsewhere. See ``AsyncCollections.import_new``."""
        return self._loop.run(
            self._collections.import_new(
                name,
                source,
                key=key,
                time=time,
                writer=writer,
                sequence=sequence,
                progress=progress,
                dry_run=dry_run,
            )
        )

    def collection(self, name: str) -> Collection:
        """Return the collection of this name."""
        return Collection(self._loop, self._loop.run(self._collections.collection(name)))

    def list(self) -> list[str]:
        """Names of all collections, in order."""
        return self._loop.run(self._collections.list())

    def rename(self, name: str, new: str) -> None:
        """Give a collection another name."""
        self._loop.run(self._collections.rename(name, new))

    def drop(self, name: str) -> None:
        """Drop a collection for ever."""
        self._loop.run(self._collections.drop(name))

    def collect(self, *, dry_run: bool = False) -> int:
        """Delete what nothing needs any more, in any collection; return how many objects."""
        return self._loop.run(self._collections.collect(dry_run=dry_run))

    def sweep(self, *, nameless: bool = False) -> int:
        """Delete what died processes left in any collection; return how many objects."""
        return self._loop.run(self._collections.sweep(nameless=nameless))

    def check(
        self,
        names: Sequence[str] = (),
        *,
        deep: bool = False,
        reads_parts: bool = True,
        progress: ShareDone | None = None,
    ) -> Iterator[Finding]:
        """Compare what collections name with long-term storage, both ways."""
        yield from self._loop.iterate(
            lambda: self._collections.check(
                names, deep=deep, reads_parts=reads_parts, progress=progress
            ),
            batch=1,
        )

    def stored_parts(self) -> dict[str, CollectionPart]:
        """The parts that collections need, by the names of their objects."""
        return self._loop.run(self._collections.stored_parts())

    def space(self, names: Sequence[str] = ()) -> Sequence[CollectionSpace]:
        """Say how much of long-term storage collections use."""
        return self._loop.run(self._collections.space(names))

    def warnings(self) -> Sequence[CollectionWarning]:
        """Say what people should look at in any collection."""
        return self._loop.run(self._collections.warnings())

    def settle(self) -> None:
        """Wait until what appends of this process made due is done: for programs that end soon."""
        self._loop.run(self._collections.settle())

    def close(self) -> None:
        """End all handles. Idempotent; nothing in a forked child."""
        try:
            if not (self._collections.closed or self._loop.forked):
                self._loop.run(self._collections.close())
        finally:
            if self._closes is not None:
                self._closes.close()
