"""A store as one job sees it: every container read-only, at one version, and kept from deletion."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from siltstone.container.chunk_rows import ChunkRows
from siltstone.container.pins import FoundPin
from siltstone.container.reader import ReadContainer
from siltstone.container.segment_map import SegmentMap
from siltstone.container.views import SegmentInfo
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkError, SegmentNotFoundError, SiltstoneError
from siltstone.core.words import container_of
from siltstone.store.assemble import Assembly, assembled
from siltstone.store.background_loop import BackgroundLoop
from siltstone.store.manifest import uuid_text

logger = logging.getLogger(__name__)

PIN_TTL_S: Final = 3600.0
"""So long a job's chunks stay if it is killed; while it runs, its pins are made anew."""

_PAGE: Final = 1_000


@dataclass(slots=True)
class _Held:
    """A container and the pin that keeps what it shows."""

    index: int
    reader: ReadContainer
    pin: FoundPin


@dataclass(slots=True)
class StoreView:
    """What is planned from. Every method may be called from any thread but the loop's own.

    Attributes:
        path: the settings file or its folder, absolute, as workers find it.
        uuid: of the store.
    """

    path: str
    uuid: str
    _loop: BackgroundLoop
    _held: list[_Held] = field(default_factory=list)

    def chunk_rows(self, *, again: bool = False) -> list[ChunkRows]:
        """Every chunk that the store names, each once.

        Args:
            again: look at everything anew, also at what lies below the tables themselves.
        """
        return self._loop.run(self._chunk_rows(again=again))

    async def _chunk_rows(self, *, again: bool) -> list[ChunkRows]:
        found: list[ChunkRows] = []
        for held in self._held:
            found += await held.reader.chunk_rows(system_now=again)
        return found

    def segments(self, names: Iterable[str] = (), prefix: str = "") -> list[SegmentInfo]:
        """The segments of these names, or without names those whose names begin with ``prefix``.

        Raises:
            SegmentNotFoundError: there is none of a name.
        """
        chosen = list(dict.fromkeys(names))
        if chosen:
            return [self._loop.run(self._of(name).info(name)) for name in chosen]
        found = self._loop.run(self._segments(prefix))
        return sorted(found, key=lambda info: info.name.encode())

    async def _segments(self, prefix: str) -> list[SegmentInfo]:
        found: list[SegmentInfo] = []
        for held in self._held:
            after = ""
            while page := await held.reader.list_segments(prefix, after, _PAGE):
                found += page
                after = page[-1].name
        return found

    def map(self, info: SegmentInfo, start: int, end: int) -> SegmentMap:
        """Where ``[start, end)`` of a segment lies; see ``Reading.map``."""
        found = self._loop.run(self._of(info.name).map(info.name, start, end))
        if found.info.segment_id != info.segment_id:
            raise SegmentNotFoundError("the segment was deleted meanwhile", segment=info.name)
        return found

    def read(self, info: SegmentInfo, offset: int, length: int) -> bytes:
        """Some bytes of a segment, for planning; see ``Reading.read``."""
        return self._loop.run(self._of(info.name).read(info.name, offset, length))

    def _of(self, name: str) -> ReadContainer:
        return self._held[container_of(name, len(self._held))].reader


@contextmanager
def store_view(path: Path | str) -> Iterator[StoreView]:
    """Open every container of a store read-only and pin what it shows, until the end of the block.

    The pins last an hour and are made anew meanwhile; a job that is killed leaves them to expire.

    Raises:
        StoreNotFoundError: there is no store, or it was never opened.
        SettingsError: the settings file is wrong.
        ChunkError: long-term storage failed.
    """
    environment = SystemEnvironment()
    loop = BackgroundLoop(name="siltstone-view")
    assembly: Assembly | None = None
    view: StoreView | None = None
    try:
        assembly = assembled(path, environment)
        uuid = uuid_text(assembly.manifest.store_id)
        # The file itself, not what names it: workers may have another folder.
        view = StoreView(str(Path(assembly.settings.file).absolute()), uuid, loop)
        loop.run(_open(assembly, view))
        renewing = loop.submit(_renew(environment, view))
        try:
            yield view
        finally:
            renewing.cancel()
    finally:
        if view is not None:
            loop.run(_close(view))
        loop.close()
        if assembly is not None:
            assembly.close()
        environment.close()


async def _open(assembly: Assembly, view: StoreView) -> None:
    for index in range(assembly.manifest.container_count):
        reader = await assembly.open_reader(index)
        try:
            view._held.append(_Held(index, reader, await reader.pin(PIN_TTL_S)))
        except BaseException:
            await reader.close()
            raise


async def _renew(environment: SystemEnvironment, view: StoreView) -> None:
    """Make the pins anew long before they expire, until cancelled."""
    while True:
        await environment.sleep(PIN_TTL_S / 4)
        for held in view._held:
            try:
                held.pin = await held.reader.renew(held.pin, PIN_TTL_S)
            except ChunkError as error:
                logger.warning("a pin could not be made anew: %s", error)


async def _close(view: StoreView) -> None:
    for held in view._held:
        try:
            await held.reader.unpin(held.pin)
        except SiltstoneError as error:
            logger.warning("%s stays until it expires: %s", held.pin.name, error)
        finally:
            await asyncio.shield(held.reader.close())
