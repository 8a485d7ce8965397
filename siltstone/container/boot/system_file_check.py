"""Which system files of long-term storage are damaged or missing, though a state needs them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from siltstone.container.state.boot_state import boot_state_of
from siltstone.container.state.table_log import read_table_log
from siltstone.core.checksums import crc32c
from siltstone.core.errors import ChunkNotFoundError, ChunkOffsetError, CorruptDataError
from siltstone.core.records.checkpoint import IndexFile
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.journal.journal_file import read_journal_file
from siltstone.journal.journal_state import JournalState, earlier_checkpoints, list_files
from siltstone.journal.listed_epochs import listed_epochs
from siltstone.metadata.checkpoint import without_options
from siltstone.segments.segment_storage import ChunkedSegmentStorage


async def harmed_files(
    journal_state: JournalState,
    system: ChunkedSegmentStorage,
    storage: AsyncChunkStorage,
    whole: Sequence[IndexFile],
) -> tuple[str, ...]:
    """Read the table log and the index files of the two newest checkpoints; say what is wrong.

    The older of the two is what a boot falls back to, and nothing that it names is deleted before
    another one is durable. Checkpoints of an earlier epoch are left out: an owner drops them piece
    by piece.

    Args:
        journal_state: what the journal says.
        system: where the bytes of the table log are.
        storage: the same service, for index files.
        whole: index files that were read before, and match their sums.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    harm: list[str] = []
    for layout in journal_state.layouts:
        for chunk in layout.chunks:
            finding = await system.verify_chunk(chunk)
            if finding is not None:
                harm.append(f"{chunk.name} is {finding.problem}: part of the table log")
    harm = harm or await _damaged_records(journal_state, system)
    if journal_state.passed_over:
        harm.append("a checkpoint in the journal is damaged, one before it serves")
    seen = set(whole)
    async for file in _index_files(journal_state, storage):
        if file in seen:
            continue
        seen.add(file)
        problem = await index_file_problem(storage, file, deep=True)
        if problem is not None:
            harm.append(f"{file.chunk_name}: {problem}: part of an index checkpoint")
    return tuple(harm)


async def _damaged_records(journal_state: JournalState, system: ChunkedSegmentStorage) -> list[str]:
    """What is wrong with the records of chunks that match their sums.

    Bytes that end in their own CRC all have the same one, so the sum of a chunk that lies in the
    place of another one is right if records of both have the same lengths.
    """
    boot_state = boot_state_of(journal_state.checkpoint.lineage, journal_state)
    try:
        async for _ in read_table_log(system, boot_state.table_start, boot_state.table_end):
            pass
    except CorruptDataError as error:
        return [f"{error}: part of the table log"]
    return []


async def _index_files(
    journal_state: JournalState, storage: AsyncChunkStorage
) -> AsyncIterator[IndexFile]:
    for file in without_options(journal_state.checkpoint.index_files):
        yield file
    if journal_state.passed_over:
        return  # what the damaged one made unnecessary may be gone
    async for checkpoint in earlier_checkpoints(storage, journal_state):
        if checkpoint.epoch == journal_state.epoch:
            for file in without_options(checkpoint.index_files):
                yield file
        return


async def damaged_journal_files(
    journal_state: JournalState, storage: AsyncChunkStorage
) -> tuple[str, ...]:
    """Say which journal files before the newest checkpoint are damaged, in its epoch.

    No boot needs them while that checkpoint is whole. A write that was repeated in the next file
    leaves such a file too, until a later checkpoint drops it.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    container, epoch = journal_state.container, journal_state.epoch
    listing = await list_files(storage, container, epoch + 1)
    names = listed_epochs(container, listing).files.get(epoch, [])
    found: list[str] = []
    # By name, not by place: an owner at work may have removed the checkpoint from the listing.
    for name in names:
        if name >= journal_state.checkpoint_file:
            break
        try:
            file = read_journal_file(name, await storage.read_all(name, listing[name]))
        except CorruptDataError as error:
            found.append(str(error))
        except ChunkNotFoundError:
            continue  # its owner no longer needs it
        else:
            found += [] if file.damage is None else [str(file.damage)]
    return tuple(f"damaged, and nothing needs it now: {text}" for text in found)


async def index_file_problem(
    storage: AsyncChunkStorage, file: IndexFile, *, deep: bool
) -> str | None:
    """What is wrong with a file of an index checkpoint; ``None`` if nothing is.

    Args:
        storage: long-term storage.
        file: what a checkpoint says of it.
        deep: read it; else presence and length are looked at.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    try:
        if not deep:
            length = (await storage.stat(file.chunk_name)).length
            # Bytes that were put beyond its end are never read.
            return None if length >= file.length else f"length is {length}, not {file.length}"
        data = await storage.read_all(file.chunk_name, file.length)
    except ChunkNotFoundError:
        return "it is missing"
    except ChunkOffsetError:
        return f"it is shorter than {file.length} bytes"
    if len(data) != file.length:
        return f"length is {len(data)}, not {file.length}"
    if crc32c(data) != file.crc:
        return "does not match its sum"
    return None
