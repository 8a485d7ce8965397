"""The look for a newer owner before anything is destroyed or made final."""

from __future__ import annotations

from siltstone.container.commit.pipeline import Pipeline
from siltstone.core.chunk_names import system_epoch_prefix, system_prefix
from siltstone.core.errors import FencedError
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.journal.retention import file_epoch

_BEHIND_ALL = "~"
"""Above every character that our names of system files hold."""

_PAGE = 100


class Fence:
    """Asks the log and long-term storage whether a newer epoch exists.

    The log is what fences; this finds the case that the log cannot know: two logs under one store.
    """

    def __init__(self, pipeline: Pipeline, storage: AsyncChunkStorage, container: int) -> None:
        self._pipeline = pipeline
        self._storage = storage
        self._container = container

    async def check(self) -> None:
        """Close the container if there is a newer epoch.

        Raises:
            FencedError: there is one; the pipeline has failed with it.
            ChunkError: long-term storage did not answer, so nothing may be destroyed now.
        """
        epoch = self._pipeline.epoch
        newest = await self._pipeline.newest_epoch()
        if newest <= epoch:
            behind = system_epoch_prefix(self._container, epoch) + _BEHIND_ALL
            file = await self._newer_file(behind)
            if file is None:
                return
            error = FencedError("a newer epoch has files in this store", file=file)
        else:
            error = FencedError("a newer epoch owns the log", epoch=newest)
        self._pipeline.fail(error)
        raise error

    async def _newer_file(self, start_after: str) -> str | None:
        """The first system file after our own; a foreign file is no epoch."""
        prefix = system_prefix(self._container)
        while found := await self._storage.list(prefix, start_after, _PAGE):
            for stat in found:
                if file_epoch(stat.name, self._container) is not None:
                    return stat.name
            start_after = found[-1].name
        return None
