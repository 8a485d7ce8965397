"""Where an open store itself brings the chunks of an import session."""

from __future__ import annotations

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.closed_on_exit import Closing
from siltstone.core.environment import Environment
from siltstone.core.storage.uncancellable import run_whole
from siltstone.store.async_store import AsyncStore
from siltstone.store.handles.import_writer import NONCE_BYTES
from siltstone.store.store_assembly import OPEN_POOL, Assembly


class OwnTarget(Closing):
    """Long-term storage of a store that is open here. See ``ChunkTarget``.

    Args:
        storage: a client of its own, which is closed here.
        chunk_bytes_max: most bytes of a chunk.
        environment: gives what makes names unique.
    """

    def __init__(
        self, storage: ChunkStorage, chunk_bytes_max: int, environment: Environment
    ) -> None:
        self.storage = storage
        self.chunk_bytes_max = chunk_bytes_max
        self._environment = environment

    def nonce(self) -> str:
        """What makes the name of a chunk unique."""
        return self._environment.random_bytes(NONCE_BYTES).hex()

    def close(self) -> None:
        """Free what it holds. Idempotent."""
        self.storage.close()


async def own_target(store: AsyncStore) -> OwnTarget:
    """Open long-term storage once more, for chunks that are imported into this open store.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    assembly = store._parts
    assert isinstance(assembly, Assembly), "it was opened by its settings"

    def opened() -> OwnTarget:
        storage = assembly.new_storage()
        limits = (assembly.settings.container.chunk_bytes, storage.capabilities.chunk_bytes_max)
        return OwnTarget(storage, min(limits), store.environment)

    return await run_whole(store.environment, OPEN_POOL, opened, OwnTarget.close)
