"""A store as one job sees it: every container read-only, at one version, and kept from deletion."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from siltstone.container.flush.write_through_hooks import written_adoption
from siltstone.container.models.segments import SegmentInfo
from siltstone.container.reader.backup_image import ContainerImage
from siltstone.container.reader.read_container import ReadContainer
from siltstone.container.reads.chunk_rows import ChunkRows
from siltstone.container.reads.pins import FoundPin
from siltstone.container.reads.same_segment import same_segment
from siltstone.container.state.segment_map import SegmentMap
from siltstone.core.constants import container_of
from siltstone.core.errors import (
    ChunkError,
    CorruptDataError,
    SegmentNotFoundError,
    SiltstoneError,
    StoreError,
)
from siltstone.core.text import counted
from siltstone.metadata.tables import Tables
from siltstone.pipelines.last_block import Bytes, sums_of
from siltstone.pipelines.open_store import OpenStore

T = TypeVar("T")

logger = logging.getLogger(__name__)

PIN_TTL_S: Final = 3600.0
"""A killed job's chunks stay for this long; while it runs, its pins are made again."""


class StoreView:
    """What is planned from. Every method may be called from any thread except the loop's own.

    Args:
        store: stays the caller's.

    Attributes:
        path: the settings file, absolute, as workers find it.
        uuid: of the store.
        manifest: what long-term storage says of the store.
        container_count: of the store.
    """

    def __init__(self, store: OpenStore) -> None:
        self.path = store.path
        self.uuid = store.uuid
        self.manifest = store.manifest
        self.container_count = store.container_count
        self._store = store
        self._pins: dict[ReadContainer, FoundPin] = {}

    def chunk_rows(self, *, again: bool = False) -> list[ChunkRows]:
        """Every chunk that the store names, each once.

        Args:
            again: look at everything again, also at what lies below the tables themselves.
        """
        return self._store.run(self._chunk_rows(again=again))

    async def _chunk_rows(self, *, again: bool) -> list[ChunkRows]:
        found: list[ChunkRows] = []
        for container in await self._store.containers():
            found += await container.chunk_rows(system_now=again)
        return found

    def refresh(self) -> None:
        """Let what follows show all that was acknowledged before."""
        self._store.run(self._store.refresh())

    def written_adoption(self) -> str | None:
        """The adoption of a layout that the owner writes, as of now; ``None`` when none is."""
        found = self.ask_tables(written_adoption)
        return next((name for name in found if name is not None), None)

    def ask_tables(self, question: Callable[[Tables], T]) -> list[T]:
        """Ask the tables of every container, as of now."""

        async def asked() -> list[T]:
            containers = await self._store.containers()
            return [question(await container.tables()) for container in containers]

        return self._store.run(asked())

    def segments(self, names: Iterable[str] = (), prefix: str = "") -> list[SegmentInfo]:
        """The segments of these names, or without names those whose names begin with ``prefix``.

        Raises:
            SegmentNotFoundError: there is none of a name.
        """
        chosen = list(dict.fromkeys(names))
        if chosen:
            return [self._info(name) for name in chosen]
        return self._store.run(self._store.list(prefix))

    def _info(self, name: str) -> SegmentInfo:
        return self._store.ask(name, lambda container: container.info(name))

    def now(self, info: SegmentInfo) -> SegmentInfo:
        """What a segment is like now. Raises ``SegmentNotFoundError`` if it was deleted."""
        self.refresh()
        return same_segment(info.segment_id, self._info(info.name))

    def still_there(self, infos: Iterable[SegmentInfo]) -> list[SegmentInfo]:
        """Those of these segments that were not deleted, as the view shows them."""
        found = []
        for info in infos:
            with suppress(SegmentNotFoundError):
                found.append(same_segment(info.segment_id, self._info(info.name)))
        return found

    def lineage_of(self, info: SegmentInfo) -> str:
        """The lineage of a segment's container, in hex; a recovery with loss begins another one."""
        pins = list(self._pins.values())
        return pins[container_of(info.name, self.container_count)].pin.lineage.hex()

    def map(self, info: SegmentInfo, start: int, end: int) -> SegmentMap:
        """Where ``[start, end)`` of a segment lies; see ``Reading.map``."""
        name = info.name
        found = self._store.ask(name, lambda container: container.map(name, start, end))
        same_segment(info.segment_id, found.info)
        return found

    def read(self, info: SegmentInfo, offset: int, length: int) -> bytes:
        """Some bytes of a segment, for planning; see ``Reading.read``."""
        name = info.name
        return self._store.ask(name, lambda container: container.read(name, offset, length))

    def sums(self, ranges: Sequence[Bytes]) -> list[int | CorruptDataError | None]:
        """See ``sums_of``."""

        async def read(info: SegmentInfo, start: int, end: int) -> bytes:
            container = await self._store.container_of(info.name)
            return await container.read(info.name, start, end - start)

        return self._store.run(sums_of(ranges, read))

    def images(self, containers: Collection[int] | None = None) -> list[ContainerImage]:
        """All that is acknowledged of containers, of each at one moment after this call began.

        What they name is kept as long as this view lives; their files go with it.

        Args:
            containers: which ones; ``None`` means all.

        Raises:
            StoreError: a container was recovered with loss meanwhile.
            ValueError: there is no such container.
        """
        for index in containers or ():
            if not 0 <= index < self.container_count:
                count = counted(self.container_count, "container")
                raise ValueError(f"no container {index}: the store has {count}, from 0 on")
        return self._store.run(self._images(containers))

    async def _images(self, containers: Collection[int] | None) -> list[ContainerImage]:
        found = []
        for index, container in enumerate(await self._store.containers()):
            if containers is not None and index not in containers:
                continue
            image = await container.image()
            if image.lineage != self._pins[container].pin.lineage:
                raise StoreError("the container was made again meanwhile", container=index)
            found.append(image)
        return found

    async def pin(self) -> None:
        """Open every container and pin what it shows."""
        for container in await self._store.containers():
            self._pins[container] = await container.pin(PIN_TTL_S)

    async def renew(self) -> None:
        """Make the pins again long before they expire, until cancelled."""
        while True:
            await self._store.environment.sleep(PIN_TTL_S / 4)
            for container, pin in self._pins.items():
                try:
                    self._pins[container] = await container.renew(pin, PIN_TTL_S)
                except ChunkError as error:
                    logger.warning("a pin could not be made again: %s", error)

    async def unpin(self) -> None:
        """Give every pin back."""
        for container, pin in self._pins.items():
            try:
                await container.unpin(pin)
            except SiltstoneError as error:
                logger.warning("%s stays until it expires: %s", pin.name, error)


@contextmanager
def store_view(path: Path | str) -> Iterator[StoreView]:
    """Open every container of a store read-only and pin what it shows, until the end of the block.

    The pins last an hour and are made again meanwhile; a job that is killed leaves them to expire.

    Raises:
        StoreNotFoundError: there is no store, or it was never opened.
        SettingsError: the settings file is wrong.
        ChunkError: long-term storage failed.
    """
    with OpenStore(path) as store:
        view = StoreView(store)
        try:
            store.run(view.pin())
            renewing = store.submit(view.renew())
            try:
                yield view
            finally:
                renewing.cancel()
        finally:
            store.run(view.unpin())
