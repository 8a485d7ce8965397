"""The index of a boot from a checkpoint's files: of the newest one, or of one before it.

What is damaged on long-term storage is passed over, loudly, as long as the table log still holds
what an older index lacks.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from siltstone.container.found import Found
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError, StoreError
from siltstone.core.records.checkpoint import Checkpoint
from siltstone.core.threads import AsyncChunkStorage
from siltstone.core.whole_calls import run_whole
from siltstone.journal.recovery import Recovered, earlier_checkpoints
from siltstone.metadata.checkpoint import INDEX_POOL, link_index, restore_index
from siltstone.metadata.index import Index

logger = logging.getLogger(__name__)

OpenIndex = Callable[[Path], Index]
"""Opens the index in a folder; raises as ``Index.open``."""


async def restored_index(
    where: Found,
    storage: AsyncChunkStorage,
    environment: Environment,
    folder: Path,
    *,
    open_index: OpenIndex,
    copies: Sequence[Path],
) -> tuple[Index, Found]:
    """Fetch an index that the table log continues; return it and where it begins.

    Args:
        where: what the journal says.
        storage: holds the index files of checkpoints.
        environment: gives threads.
        folder: where the index will lie; what is there goes.
        open_index: opens an index in a folder.
        copies: folders any of which may hold the files of the checkpoint, or of another one of
            this or another owner; see ``link_index``.

    Raises:
        CorruptDataError: the files of every checkpoint that would do are damaged; the error is that
            of the newest one.
        ChunkError: long-term storage did not answer.
    """
    try:
        return await _fetched(where, storage, environment, folder, open_index, copies), where
    except CorruptDataError as error:
        failure = error
    warnings = list(where.warnings)
    async for older in _older(where, storage):
        warnings.append(f"passed over index checkpoint: {failure}")
        try:
            index = await _fetched(older, storage, environment, folder, open_index, ())
        except CorruptDataError as error:
            warnings.append(f"passed over index checkpoint: {error}")
            continue
        for warning in warnings[len(where.warnings) :]:
            logger.warning("%s", warning)
        return index, replace(older, warnings=tuple(dict.fromkeys(warnings)), repaired=True)
    raise failure


async def _older(where: Found, storage: AsyncChunkStorage) -> AsyncIterator[Found]:
    """Yield earlier beginnings that the table log continues, the newest first."""
    recovered = where.recovered
    if recovered is None:
        return
    tried = {where.index_files}
    async for checkpoint in _earlier(storage, recovered):
        older = where.starting_at(checkpoint)
        if older.index_files in tried or older.index_version < where.table_start:
            continue
        tried.add(older.index_files)
        yield older
    if where.table_start == 0 and () not in tried:
        yield where.starting_empty()


async def _earlier(storage: AsyncChunkStorage, recovered: Recovered) -> AsyncIterator[Checkpoint]:
    try:
        async for checkpoint in earlier_checkpoints(storage, recovered):
            yield checkpoint
    except ChunkNotFoundError as error:
        # A living owner deletes what it does not need; what is left may do.
        logger.warning("an older checkpoint went away meanwhile: %s", error)


async def _fetched(
    where: Found,
    storage: AsyncChunkStorage,
    environment: Environment,
    folder: Path,
    open_index: OpenIndex,
    copies: Sequence[Path],
) -> Index:
    files = where.index_files
    if not files:
        clear = partial(shutil.rmtree, folder, ignore_errors=True)
        await run_whole(environment, INDEX_POOL, clear)
    else:
        for candidate in copies:
            link = partial(_linked, where, candidate, folder, open_index)
            linked = await run_whole(environment, INDEX_POOL, link, _close)
            if linked is not None:
                return linked
        await restore_index(files, storage, folder, environment)
    index = await run_whole(environment, INDEX_POOL, partial(open_index, folder), _close)
    if not _is_meant(index, where):
        position = index.position
        index.close()
        raise CorruptDataError(
            "index checkpoint is not what its checkpoint says",
            where=str(folder),
            version=0 if position is None else position.version,
            expected=where.index_version,
        )
    return index


def _linked(where: Found, copies: Path, folder: Path, open_index: OpenIndex) -> Index | None:
    """The index from local copies; ``None`` when they are not those of the checkpoint. Blocking.

    Owners change their copies meanwhile, so anything may be found here and none of it is damage:
    the files on long-term storage are what counts.
    """
    if not link_index(where.index_files, copies, folder):
        return None
    try:
        index = open_index(folder)
    except (CorruptDataError, StoreError) as error:
        logger.info("local copies are not the checkpoint: %s", error)
        return None
    if _is_meant(index, where):
        return index
    index.close()
    return None


def _close(index: Index | None) -> None:
    if index is not None:
        index.close()


def _is_meant(index: Index, where: Found) -> bool:
    position = index.position
    if position is None:
        return (where.index_version, where.index_crc) == (0, 0)
    meant = (where.lineage, where.index_version, where.index_crc)
    return (position.lineage, position.version, position.running_crc) == meant
