"""A legacy layout as it travels to a worker, and as that opens it: the driver's own, or none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.errors import SettingsError
from siltstone.core.storage.bandwidth import Bandwidth
from siltstone.migration.source.places import FolderPlace, LegacyPlace, PlacedFile, StoragePlace
from siltstone.store.worker_store import worker_store


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLayout:
    """Where a layout lies.

    Attributes:
        store: the settings file of the store.
        uuid: of the store.
        folder: where the files are; ``None`` if they are on the store's long-term storage.
        prefix: of their keys there.
    """

    store: str
    uuid: str
    folder: str | None
    prefix: str

    @contextmanager
    def open(self, rate: int | None) -> Iterator[LegacyPlace]:
        """Open the layout, until the end of the block.

        Args:
            rate: bytes a second that are read at most; ``None`` for no limit.

        Raises:
            SettingsError: there is no such folder here.
            StoreError: another store is under this path.
            ChunkError: long-term storage did not answer.
        """
        if self.folder is None:
            with closing(worker_store(self.store, self.uuid, rate)) as storage:
                yield StoragePlace(storage, self.prefix)
            return
        if not Path(self.folder).is_dir():
            raise SettingsError(f"{self.folder}: there is no such folder")
        place = FolderPlace(Path(self.folder))
        with closing(SystemEnvironment()) as environment:
            yield place if rate is None else PacedPlace(place, environment, rate)


class PacedPlace:
    """A place that is read no faster than this many bytes a second.

    Args:
        inner: what is read.
        environment: gives time and waits.
        rate: bytes a second, at least 1.
    """

    def __init__(self, inner: LegacyPlace, environment: Environment, rate: int) -> None:
        self._inner = inner
        self._environment = environment
        self._bandwidth = Bandwidth(environment, rate, small_wait_s=float("inf"))

    @property
    def where(self) -> str:
        """See ``LegacyPlace.where``."""
        return self._inner.where

    @property
    def told_sealed(self) -> frozenset[str]:
        """See ``LegacyPlace.told_sealed``."""
        return self._inner.told_sealed

    @property
    def piece_bytes(self) -> int:
        """See ``LegacyPlace.piece_bytes``."""
        return self._inner.piece_bytes

    def files(self) -> Iterator[PlacedFile]:
        """See ``LegacyPlace.files``."""
        return self._inner.files()

    def length_of(self, key: str) -> int:
        """See ``LegacyPlace.length_of``."""
        return self._inner.length_of(key)

    def read_into(self, key: str, offset: int, buffer: memoryview) -> int:
        """See ``LegacyPlace.read_into``; it waits for what was read before."""
        wait_s = self._bandwidth.wait_s(len(buffer))
        if wait_s:
            self._environment.pause(wait_s)
        return self._inner.read_into(key, offset, buffer)
