"""A place of backups as a worker opens it: the one that the driver means, or none.

A worker opens settings files by their paths, for credentials do not travel. On another machine such
a path may lead elsewhere, to a folder of its own for instance. What was written there would be no
backup, and what is not there would look like damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkNotFoundError, SettingsError
from siltstone.store.admin.place_settings import find_place, open_place


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlace:
    """A place of backups as it travels to a worker.

    Attributes:
        path: as ``find_place`` takes it.
        witness: an object that is there as long as the work continues.
    """

    path: str
    witness: str

    @contextmanager
    def open(self, rate: int | None) -> Iterator[ChunkStorage]:
        """Open the place, until the end of the block.

        Args:
            rate: bytes a second to and from it at most; ``None`` for no limit.

        Raises:
            SettingsError: there is no such place here, or it is another one.
            ChunkError: it did not answer.
        """
        environment = SystemEnvironment()
        with (
            closing(environment),
            closing(open_place(find_place(self.path), environment, rate=rate)) as place,
        ):
            try:
                place.stat(self.witness)
            except ChunkNotFoundError as error:
                raise SettingsError(
                    f"{self.path}: not the place that the job works in, or another process took "
                    f"over: it has no {self.witness}"
                ) from error
            yield place
