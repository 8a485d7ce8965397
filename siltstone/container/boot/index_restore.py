"""The index of a boot from a checkpoint's files: of the newest one, or of one before it.

What is damaged on long-term storage is passed over, loudly, as long as the table log still holds
what an older index lacks.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from siltstone.container.state.boot_state import BootState
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError
from siltstone.core.records.checkpoint import Checkpoint
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.uncancellable import run_whole
from siltstone.journal.journal_state import JournalState, earlier_checkpoints
from siltstone.metadata.checkpoint import INDEX_POOL, restore_index
from siltstone.metadata.index import Index

logger = logging.getLogger(__name__)

OpenIndex = Callable[[Path], Index]
"""Opens the index in a folder; raises as ``Index.open``."""


async def restored_index(
    boot_state: BootState,
    storage: AsyncChunkStorage,
    environment: Environment,
    folder: Path,
    *,
    open_index: OpenIndex,
) -> tuple[Index, BootState]:
    """Fetch an index that the table log continues; return it and where it begins.

    Args:
        boot_state: what the journal says.
        storage: holds the index files of checkpoints.
        environment: gives threads.
        folder: where the index will lie; what is there goes.
        open_index: opens an index in a folder.

    Raises:
        CorruptDataError: the files of every checkpoint that would do are damaged; the error is that
            of the newest one.
        ChunkError: long-term storage did not answer.
    """
    try:
        return await _fetched(boot_state, storage, environment, folder, open_index), boot_state
    except CorruptDataError as error:
        failure = error
    warnings = list(boot_state.warnings)
    async for older in _older(boot_state, storage):
        warnings.append(f"passed over index checkpoint: {failure}")
        try:
            index = await _fetched(older, storage, environment, folder, open_index)
        except CorruptDataError as error:
            warnings.append(f"passed over index checkpoint: {error}")
            continue
        for warning in warnings[len(boot_state.warnings) :]:
            logger.warning("%s", warning)
        return index, replace(older, warnings=tuple(dict.fromkeys(warnings)), repaired=True)
    raise failure


async def _older(boot_state: BootState, storage: AsyncChunkStorage) -> AsyncIterator[BootState]:
    """Yield earlier beginnings that the table log continues, the newest first."""
    journal_state = boot_state.journal_state
    if journal_state is None:
        return
    tried = {boot_state.index_files}
    async for checkpoint in _earlier(storage, journal_state):
        older = boot_state.starting_at(checkpoint)
        if older.index_files in tried or older.index_version < boot_state.table_start:
            continue
        tried.add(older.index_files)
        yield older
    if boot_state.table_start == 0 and () not in tried:
        yield boot_state.starting_empty()


async def _earlier(
    storage: AsyncChunkStorage, journal_state: JournalState
) -> AsyncIterator[Checkpoint]:
    try:
        async for checkpoint in earlier_checkpoints(storage, journal_state):
            yield checkpoint
    except ChunkNotFoundError as error:
        # A living owner deletes what it does not need; what is left may suffice.
        logger.warning("an older checkpoint went away meanwhile: %s", error)


async def _fetched(
    boot_state: BootState,
    storage: AsyncChunkStorage,
    environment: Environment,
    folder: Path,
    open_index: OpenIndex,
) -> Index:
    files = boot_state.index_files
    if not files:
        clear = partial(shutil.rmtree, folder, ignore_errors=True)
        await run_whole(environment, INDEX_POOL, clear)
    else:
        await restore_index(files, storage, folder, environment)
    index = await run_whole(environment, INDEX_POOL, partial(open_index, folder), close_index)
    if not _is_meant(index, boot_state):
        position = index.position
        index.close()
        raise CorruptDataError(
            "index checkpoint is not what its checkpoint says",
            where=str(folder),
            version=0 if position is None else position.version,
            expected=boot_state.index_version,
        )
    return index


def close_index(index: Index | None) -> None:
    """Close the index that a cancelled caller does not get."""
    if index is not None:
        index.close()


def _is_meant(index: Index, boot_state: BootState) -> bool:
    position = index.position
    if position is None:
        return (boot_state.index_version, boot_state.index_crc) == (0, 0)
    meant = (boot_state.lineage, boot_state.index_version, boot_state.index_crc)
    return (position.lineage, position.version, position.running_crc) == meant
