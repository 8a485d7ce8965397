"""A store opened read-only for questions, a container when it is first asked.

Claims nothing and writes nothing but local indexes of its own, so it works beside a running writer
and beside its like.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, Self, TypeVar

from siltstone.container.reader import ReadContainer
from siltstone.container.views import SegmentInfo
from siltstone.core.closing import Closing
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import CapabilityError
from siltstone.core.words import container_of
from siltstone.spark.options import SEGMENTS_MAX
from siltstone.store.assemble import assembled

T = TypeVar("T")

PAGE: Final = 1_000


class OpenStore(Closing):
    """A store, opened read-only for blocking callers: a container when it is first asked.

    Args:
        store: the settings file, or the folder that holds it.

    Raises:
        StoreNotFoundError: there is no store.
        SettingsError: the settings file is wrong.
    """

    def __init__(self, store: str) -> None:
        self._environment = SystemEnvironment()
        try:
            self._assembly = assembled(store, self._environment)
        except BaseException:
            self._environment.close()
            raise
        self._containers: dict[int, ReadContainer] = {}
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run what asks the containers, and wait for it."""
        return self._runner.run(work)

    def place(self, segment: str) -> int:
        """Index of the container that has a segment of this name."""
        return container_of(segment, self._assembly.manifest.container_count)

    async def container_of(self, segment: str) -> ReadContainer:
        """The container that has a segment of this name, opened."""
        return await self._opened(self.place(segment))

    async def _opened(self, index: int) -> ReadContainer:
        if index not in self._containers:
            self._containers[index] = await self._assembly.open_reader(index)
        return self._containers[index]

    async def refresh(self) -> None:
        """See what was acknowledged since, in every container that is open."""
        for container in self._containers.values():
            await container.refresh()

    async def list(self, prefix: str) -> list[SegmentInfo]:
        """All segments whose names begin with ``prefix``, in the order of names.

        Raises:
            CapabilityError: they are more than one read may have.
        """
        found: list[SegmentInfo] = []
        for index in range(self._assembly.manifest.container_count):
            container = await self._opened(index)
            after = ""
            while page := await container.list_segments(prefix, after, PAGE):
                found += page
                after = page[-1].name
                if len(found) > SEGMENTS_MAX:
                    raise CapabilityError(
                        "too many segments for one read", prefix=prefix, limit=SEGMENTS_MAX
                    )
        return sorted(found, key=lambda info: info.name)

    def close(self) -> None:
        """Close what was opened. Idempotent."""
        while self._containers:
            _, container = self._containers.popitem()
            self._runner.run(container.close())
        self._runner.close()
        self._assembly.close()
        self._environment.close()
