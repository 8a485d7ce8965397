"""The call of a read-only container that takes an image of it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.container.chunk_rows import named_chunks
from siltstone.container.image import ContainerImage, encoded_tail, tail_pieces
from siltstone.container.living_states import living_states
from siltstone.container.log_facts import LogFacts
from siltstone.container.tail import LogSlice, TailPiece
from siltstone.core.environment import Environment
from siltstone.core.errors import LogTruncatedError
from siltstone.core.records.legacy_row import NEW_SEGMENTS
from siltstone.core.whole_calls import run_whole
from siltstone.core.words import Buffer
from siltstone.metadata.adoption_rows import layout_adoption
from siltstone.metadata.checkpoint import INDEX_POOL, take_index
from siltstone.metadata.import_rows import is_named
from siltstone.metadata.legacy_rows import legacy_pages, pending_legacy

if TYPE_CHECKING:
    from siltstone.container.view import View


_TRIES: Final = 5
"""Looks at a log that an owner truncates meanwhile."""


class ReaderImage:
    """How a read-only container tells all that it shows; part of ``ReadContainer``."""

    _container: int
    _environment: Environment
    _folder: Path
    _generation: int
    _log_facts: LogFacts
    _lock: asyncio.Lock

    if TYPE_CHECKING:

        def _current(self) -> View: ...
        async def _refresh(self) -> None: ...

    async def legacy_adoption(self) -> str | None:
        """The adoption of the legacy layout that the owner writes, as of now; else ``None``.

        Raises as ``image``.
        """
        async with self._lock:
            await self._refresh()
            tables = self._current().replica.tables
            new = pending_legacy(tables, NEW_SEGMENTS)
            return None if new is None else layout_adoption(tables, new)

    async def leaving_legacy(self, adoption: str, files: Mapping[str, Collection[str]]) -> set[str]:
        """Which segments of a layout that the owner writes have rows still: also deleted ones.

        Args:
            adoption: of the layout; of another one nothing is known.
            files: segments of the layout, each with keys of its files.

        Raises as ``image``.
        """
        async with self._lock:
            await self._refresh()
            tables = self._current().replica.tables
            new = pending_legacy(tables, NEW_SEGMENTS)
            if new is None or layout_adoption(tables, new) != adoption:
                return set()
            found = {
                name
                for name, keys in files.items()
                if any(is_named(tables, new.prefix + key) for key in keys)
            }
            for page in legacy_pages(tables):
                rows = [pending_legacy(tables, segment_id) for segment_id in page]
                found |= {row.source for row in rows if row is not None} & files.keys()
            return found

    async def _tails(self) -> tuple[list[tuple[TailPiece, int]], Mapping[LogSlice, Buffer]]:
        """What the tails are made of, and the bytes of it that the log has.

        An owner truncates what it flushed, so there may have to be a look at what it flushed.
        """
        for left in reversed(range(_TRIES)):
            view = self._current()
            pieces = tail_pieces(view.replica)
            if view.reading.kept is None:
                return pieces, {}
            try:
                return pieces, await view.reading.kept.whole([piece for piece, _ in pieces])
            except LogTruncatedError:
                if not left:
                    raise
                await self._refresh()
        raise AssertionError("the last look ends this")

    async def image(self) -> ContainerImage:
        """All that is acknowledged at one moment after this call began.

        Pin the container first, and compare the lineage of the pin with that of the image: then
        every chunk that it names stays. Its index files lie in the folder of this reader and go
        when it closes. It holds the tails of all segments in memory, which back-pressure bounds.

        Raises:
            CorruptDataError: a row is missing, or something else is damaged.
            ChunkError: long-term storage did not answer.
        """
        async with self._lock:
            # Nothing is applied until the end of the block, so all of it is of one moment.
            await self._refresh()
            pieces, fetched = await self._tails()
            view = self._current()
            self._generation += 1
            folder = self._folder / f"image-{self._generation}"
            position, files = await run_whole(
                self._environment, INDEX_POOL, partial(take_index, view.index, folder)
            )
            lineage = view.replica.tables.lineage
            epoch = max(self._log_facts.epoch, view.recovered.highest_epoch)
            version, crc = (0, 0) if position is None else (position.version, position.running_crc)
            assert version == view.replica.tables.applied_version, "a reader applies to its index"
            return ContainerImage(
                container=self._container,
                lineage=lineage,
                epoch=epoch,
                table_version=version,
                table_crc=crc,
                index_files=files,
                tail=encoded_tail(pieces, fetched, lineage, epoch),
                chunks=tuple(
                    named_chunks(self._container, view.reading, view.segments, view.system, ())
                ),
                segments=sum(1 for _ in living_states(view.replica)),
            )
