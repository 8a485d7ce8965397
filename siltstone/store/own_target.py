"""Where an open store itself brings the chunks of an import session."""

from __future__ import annotations

from siltstone.core.storage.uncancellable import run_whole
from siltstone.store.async_store import AsyncStore
from siltstone.store.handles.import_writer import ImportTarget
from siltstone.store.store_assembly import OPEN_POOL, Assembly, paced


async def own_target(store: AsyncStore) -> ImportTarget:
    """Open long-term storage once more, for chunks that are imported into this open store.

    It writes no more bytes a second than the settings allow for uploads and background work.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    assembly = store._parts
    assert isinstance(assembly, Assembly), "it was opened by its settings"

    def opened() -> ImportTarget:
        settings, storage = assembly.settings, assembly.new_storage()
        limits = (settings.upload_rate, settings.container.background_rate)
        rate = min((each for each in limits if each is not None), default=None)
        if rate is not None:
            storage = paced(storage, store.environment, rate)
        return ImportTarget(storage, settings.container.chunk_bytes, store.environment)

    return await run_whole(store.environment, OPEN_POOL, opened, ImportTarget.close)
