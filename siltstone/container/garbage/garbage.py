"""What may be asked about garbage, of an owner and of a reader."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from siltstone.container.garbage.status import garbage_status
from siltstone.container.garbage.sweeper import SweepScope, look
from siltstone.container.models.garbage import GarbageStatus, SweepFinding
from siltstone.container.models.imports import Adoption
from siltstone.container.reads.adoption_list import list_adoptions
from siltstone.container.reads.pin_watch import PinWatch
from siltstone.container.state.backoff import Failures
from siltstone.container.state.replica import Replica
from siltstone.core.environment import Environment
from siltstone.core.errors import ClosedError, ReadOnlyError
from siltstone.core.storage.async_storage import AsyncChunkStorage

if TYPE_CHECKING:
    from siltstone.container.commit.pipeline import Pipeline
    from siltstone.container.flush.table_log_flusher import TableLogFlusher
    from siltstone.container.garbage.collector import Collector
    from siltstone.container.garbage.sweeper import Sweeper


T = TypeVar("T")


class CleaningParts(Protocol):
    """The parts of an owned container that deal with garbage."""

    container: int
    pipeline: Pipeline
    storage: AsyncChunkStorage
    environment: Environment
    collector: Collector
    table_log_flusher: TableLogFlusher
    sweeper: Sweeper
    ground: SweepScope
    pins: PinWatch


class GarbageVerbs:
    """The garbage of an owned container."""

    def __init__(self, parts: CleaningParts) -> None:
        self._parts = parts

    async def status(self) -> GarbageStatus:
        """What waits to be deleted, and what for; see ``garbage_status``."""
        parts = self._parts
        parts.pipeline.check_alive()
        replica = parts.pipeline.replica
        return await garbage_status(parts.container, replica, parts.pins, parts.environment)

    async def adoptions(self) -> list[Adoption]:
        """What was taken in place, and is kept or not; see ``list_adoptions``."""
        parts = self._parts
        parts.pipeline.check_alive()
        return await list_adoptions(parts.container, parts.pipeline.replica.rows)

    async def run(self) -> int:
        """Carry out one round now, a flush of the table log between its two halves.

        Returns:
            How many chunks were deleted.

        Raises:
            ChunkError, CorruptDataError, StorageFullError: the first failure, after the round;
                ``status`` tells what became of the rest.
        """
        parts = self._parts
        parts.pipeline.check_alive()
        deleted = 0
        failures = Failures()
        with failures.kept():
            deleted += await parts.collector.collect()
        with failures.kept():
            await parts.table_log_flusher.flush()
        with failures.kept():
            deleted += await parts.collector.collect()
        failures.raise_first()
        return deleted

    async def replay(self) -> int:
        """Give deletions that were set aside new attempts; return how many there were."""
        self._parts.pipeline.check_alive()
        return await self._parts.collector.replay()

    async def sweep(
        self, *, delete: bool = False, all_epochs: bool = False
    ) -> AsyncIterator[SweepFinding]:
        """Look for what nothing names; with ``delete`` give it tasks, which ``run`` carries out.

        Args:
            delete: yield only what is on record to be deleted, apart from what stays.
            all_epochs: look into epochs that were found clean long ago as well.
        """
        parts = self._parts
        parts.pipeline.check_alive()
        if delete:
            found = parts.sweeper.sweep(all_epochs=all_epochs)
        else:
            found = look(parts.ground, all_epochs=all_epochs)
        async for finding in found:
            yield finding


class ReadGarbage:
    """The garbage of a container that is only read: nothing here changes anything.

    Args:
        container: its index.
        seen: returns what is shown at the moment, and the newest epoch.
        storage: long-term storage.
        environment: gives the time.
    """

    def __init__(
        self,
        container: int,
        seen: Callable[[], tuple[Replica, int]],
        storage: AsyncChunkStorage,
        environment: Environment,
    ) -> None:
        self._container = container
        self._seen = seen
        self._storage = storage
        self._environment = environment
        self._pins = PinWatch(storage, environment, container, None)

    async def status(self) -> GarbageStatus:
        """See ``GarbageVerbs.status``."""

        def call(replica: Replica) -> Awaitable[GarbageStatus]:
            return garbage_status(self._container, replica, self._pins, self._environment)

        return await self._of_one_start(call)

    async def adoptions(self) -> list[Adoption]:
        """See ``GarbageVerbs.adoptions``."""
        return await self._of_one_start(
            lambda replica: list_adoptions(self._container, replica.rows)
        )

    async def _of_one_start(self, call: Callable[[Replica], Awaitable[T]]) -> T:
        """Run ``call`` with what is shown; again when the reader started again meanwhile."""
        while True:
            replica, _ = self._seen()
            try:
                return await call(replica)
            except ClosedError:
                if self._seen()[0] is replica:
                    raise

    async def run(self) -> int:
        """Refused."""
        raise ReadOnlyError("the store was opened read-only", verb="collect")

    async def replay(self) -> int:
        """Refused."""
        raise ReadOnlyError("the store was opened read-only", verb="replay")

    async def sweep(
        self, *, delete: bool = False, all_epochs: bool = False
    ) -> AsyncIterator[SweepFinding]:
        """See ``GarbageVerbs.sweep``; ``delete`` is refused."""
        if delete:
            raise ReadOnlyError("the store was opened read-only", verb="sweep")
        _, epoch = self._seen()
        ground = SweepScope(
            container=self._container,
            epoch=epoch,
            rows_now=lambda: self._seen()[0].rows,
            storage=self._storage,
            environment=self._environment,
            pins=self._pins,
        )
        async for finding in look(ground, all_epochs=all_epochs):
            yield finding
