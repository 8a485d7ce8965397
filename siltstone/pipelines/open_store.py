"""A store opened read-only for questions, a container when it is first asked.

Claims nothing and writes only local indexes of its own, so it works while a writer or another such
reader runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

from siltstone.container.models.segments import SegmentInfo
from siltstone.container.reader.read_container import ReadContainer
from siltstone.core.closed_on_exit import Closing
from siltstone.core.constants import container_of
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import CapabilityError
from siltstone.core.text import uuid_text
from siltstone.store.blocking.background_loop import BackgroundLoop
from siltstone.store.store_assembly import assembled

T = TypeVar("T")

PAGE: Final = 1_000


class OpenStore(Closing):
    """A store, opened read-only for blocking callers: a container when it is first asked.

    Methods that are no coroutines may be called from any thread except the loop's own, on which all
    coroutines run.

    Args:
        store: the settings file, or the folder that holds it.

    Attributes:
        path: the settings file, absolute, as workers find it.
        manifest: what long-term storage says of the store.
        uuid: of the store.
        container_count: of the store.
        environment: gives time and waits.

    Raises:
        StoreNotFoundError: there is no store.
        SettingsError: the settings file is wrong.
    """

    def __init__(self, store: Path | str) -> None:
        self.environment = SystemEnvironment()
        try:
            self._assembly = assembled(store, self.environment)
        except BaseException:
            self.environment.close()
            raise
        # The file itself, not a path to it: workers may have another folder.
        self.path = str(Path(self._assembly.settings.file).absolute())
        self.manifest = self._assembly.manifest
        self.uuid = uuid_text(self.manifest.store_id)
        self.container_count = self.manifest.container_count
        self._containers: dict[int, ReadContainer] = {}
        self._opening = asyncio.Lock()
        self._loop = BackgroundLoop(name="siltstone-view")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run what asks the containers, and wait for it."""
        return self._loop.run(work)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work that runs next to the questions; cancel it before ``close``."""
        return self._loop.submit(work)

    def ask(self, segment: str, question: Callable[[ReadContainer], Awaitable[T]]) -> T:
        """Ask the container of a segment, and wait for the answer."""

        async def asked() -> T:
            return await question(await self.container_of(segment))

        return self.run(asked())

    async def container_of(self, segment: str) -> ReadContainer:
        """The container that has a segment of this name, opened."""
        return await self._opened(container_of(segment, self.container_count))

    async def containers(self) -> list[ReadContainer]:
        """All containers, opened, in the order of their indexes."""
        return [await self._opened(index) for index in range(self.container_count)]

    async def _opened(self, index: int) -> ReadContainer:
        async with self._opening:
            if index not in self._containers:
                self._containers[index] = await self._assembly.open_reader(index)
            return self._containers[index]

    async def refresh(self) -> None:
        """See what was acknowledged since, in every container that is open."""
        for container in self._containers.values():
            await container.refresh()

    async def list(self, prefix: str, count_max: int | None = None) -> list[SegmentInfo]:
        """All segments whose names begin with ``prefix``, in the order of names.

        Raises:
            CapabilityError: they are more than ``count_max``.
        """
        found: list[SegmentInfo] = []
        for container in await self.containers():
            after = ""
            while page := await container.list_segments(prefix, after, PAGE):
                found += page
                after = page[-1].name
                if count_max is not None and len(found) > count_max:
                    raise CapabilityError(
                        "too many segments for one read", prefix=prefix, limit=count_max
                    )
        return sorted(found, key=lambda info: info.name)

    def close(self) -> None:
        """Close what was opened. Idempotent."""
        try:
            if self._containers:
                self.run(self._close_all())
        finally:
            self._loop.close()
            self._assembly.close()
            self.environment.close()

    async def _close_all(self) -> None:
        while self._containers:
            _, container = self._containers.popitem()
            await container.close()
