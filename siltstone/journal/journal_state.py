"""How a boot finds the newest state that the journal holds.

It only reads, so two readings in a row are equal.

One epoch is read: the newest one below the claimant's that has a whole checkpoint, from the newest
one on. Such an epoch opened, or was about to; what older epochs write late cannot matter any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, replace

from siltstone.core.chunk_names import data_prefix, import_prefix, system_prefix
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError
from siltstone.core.records.checkpoint import Checkpoint
from siltstone.core.records.journal_batch import JournalBatch
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.listings import LISTING_PAGE, listed
from siltstone.journal.journal_file import FileKind, JournalFile, read_journal_file
from siltstone.journal.listed_epochs import ListedEpochs, listed_epochs
from siltstone.journal.pinned_state import Pinned
from siltstone.journal.replay import JournalReplay, replay
from siltstone.journal.retention import file_epoch, journal_number

EPOCH_END = 2**63
"""Above every epoch of an owner."""

STARTS_MAX = 5
"""Listings that a reading is tried on before what it found is final. A zombie may still write or
delete while we read; it is fenced and soon knows, so a few are enough."""

READS_AHEAD_MAX = 32
"""Journal files that are read at a time; each has 1 MiB at most, unless it is a checkpoint."""

PAUSE_S = 0.2
"""Pause before the second start; it doubles with each further one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalState:
    """What the journal says.

    Attributes:
        container: index of the container.
        epoch: whose journal was read.
        stated_epoch: the newest one that a file of the journal is known of; above ``epoch`` only
            when damage made an older one serve.
        checkpoint: the checkpoint that replay began with.
        checkpoint_file: name of its file.
        newest_file: name of the newest file that was read.
        batches: count of batches applied after the checkpoint.
        layouts: of the system segments, after those batches.
        safe_index: the newest safe index that a checkpoint or batch states.
        newest_index: the newest acknowledged log index that one states; -1 when there is none.
        next_sequence: one above the last batch's sequence.
        highest_epoch: the highest epoch below the claimant's that any system file is of.
        owners: epochs of which a claim or journal file is left, the claimant's not among them.
        passed_over: a checkpoint was damaged, and one before it serves.
        warnings: what was passed over, for a person to read; empty when all is well.
    """

    container: int
    epoch: int
    stated_epoch: int
    checkpoint: Checkpoint
    checkpoint_file: str
    newest_file: str
    batches: int
    layouts: Pinned
    safe_index: int
    newest_index: int
    next_sequence: int
    highest_epoch: int
    owners: int
    passed_over: bool
    warnings: tuple[str, ...]


async def list_epochs(storage: AsyncChunkStorage, container: int) -> int:
    """Return the highest epoch that a system file of ``container`` is of, 0 without any.

    Raises:
        CorruptDataError: a name has an epoch that no owner can have, so none could be above it.
    """
    highest = 0
    async for stat in system_files(storage, container):
        epoch = file_epoch(stat.name, container) or 0
        if epoch >= EPOCH_END - 1:
            raise CorruptDataError("no owner made this: its epoch is too high", where=stat.name)
        highest = max(highest, epoch)
    return highest


async def read_journal(
    storage: AsyncChunkStorage,
    environment: Environment,
    container: int,
    below_epoch: int,
    *,
    page: int = LISTING_PAGE,
) -> JournalState | None:
    """Return what the newest epoch below ``below_epoch`` that has a whole checkpoint left.

    Call it after the claim. It reads files that one listing, made here, shows, each up to the
    length that the listing shows. When a file is gone meanwhile, or when what was found contradicts
    itself and a fresh listing differs, it starts over with the fresh one, a bounded number of
    times.

    An epoch is passed over only if it never opened: it has no journal file but checkpoints that
    were not written to the end. Its owner acknowledged nothing. An epoch with any other file and
    without a whole checkpoint did open and is damaged; the state of an older one might then be
    wrong.

    Returns:
        ``None`` when no epoch ever opened: the container is new, or its first boot failed;
        ``list_epochs`` tells which.

    Raises:
        CorruptDataError: files are damaged beyond what the rules allow; ``where`` names one.
        FormatError: a file was made by a newer version.
        ChunkNotFoundError: files went away under each of several listings.
        ChunkError: the service failed.
    """
    before: dict[str, int] | None = None
    failure: ChunkNotFoundError | CorruptDataError | None = None
    for start in range(STARTS_MAX):
        if start:
            await environment.sleep(PAUSE_S * 2 ** (start - 1))
        listing = await list_files(storage, container, below_epoch, page)
        if listing == before and isinstance(failure, CorruptDataError):
            break
        try:
            return await _read_from(storage, container, listing)
        except (ChunkNotFoundError, CorruptDataError) as error:
            before, failure = listing, error
    assert failure is not None, "the loop ends early by a result or with a failure"
    raise failure


async def read_opened_journal(
    storage: AsyncChunkStorage, environment: Environment, container: int, below_epoch: int
) -> JournalState | None:
    """Read the journal, and tell a container that is new from one whose journal is gone.

    Raises:
        CorruptDataError: as ``read_journal``; or no journal is left, and something is there that
            only an owner makes that has opened the container.
    """
    for _ in range(2):
        journal_state = await read_journal(storage, environment, container, below_epoch)
        if journal_state is not None:
            return journal_state
        made = await _made_by_an_owner(storage, container)
        if made is None:
            return None
        # An owner may have opened it for the first time since the first look.
    raise CorruptDataError(
        "the journal is gone, and the container was opened before",
        where=system_prefix(container),
        container=container,
        found=made,
    )


async def _made_by_an_owner(storage: AsyncChunkStorage, container: int) -> str | None:
    """The name of a chunk of segments or of the table log: a first boot makes neither."""
    for prefix in (data_prefix(container), import_prefix(container)):
        for stat in await storage.list(prefix, "", 1):
            return stat.name
    async for stat in system_files(storage, container):
        if stat.name.rpartition("/")[2].startswith("tables-"):
            return stat.name
    return None


async def earlier_checkpoints(
    storage: AsyncChunkStorage, journal_state: JournalState
) -> AsyncIterator[Checkpoint]:
    """Yield the whole checkpoints before the one of this state, the newest first.

    They are of the same lineage, of the same epoch and of those before it. Their layouts are out of
    date; their index files may serve.

    Raises:
        ChunkNotFoundError: a file went away meanwhile.
        ChunkError: the service failed.
    """
    listing = await list_files(storage, journal_state.container, journal_state.epoch + 1)

    def place(name: str) -> tuple[int, int]:
        return file_epoch(name, journal_state.container) or 0, journal_number(name) or 0

    # An owner may have made newer ones meanwhile, and dropped that one.
    end = place(journal_state.checkpoint_file)
    order = {name: place(name) for name in listing if journal_number(name) is not None}
    names = [name for name in order if order[name] < end]
    for name in sorted(names, key=lambda name: order[name], reverse=True):
        data = await storage.read_all(name, listing[name])
        try:
            file = read_journal_file(name, data)
        except CorruptDataError:
            continue
        checkpoint = file.checkpoint
        if checkpoint is not None and checkpoint.lineage == journal_state.checkpoint.lineage:
            yield checkpoint


def system_files(
    storage: AsyncChunkStorage, container: int, page: int = LISTING_PAGE
) -> AsyncIterator[ChunkStat]:
    """Yield all system files of ``container``, in the order of their names."""
    return listed(storage, system_prefix(container), page)


async def list_files(
    storage: AsyncChunkStorage, container: int, below_epoch: int, page: int = LISTING_PAGE
) -> dict[str, int]:
    """Return the lengths of all system files of epochs below ``below_epoch``, by name."""
    found = {}
    async for stat in system_files(storage, container, page):
        epoch = file_epoch(stat.name, container)
        if epoch is not None and epoch < below_epoch:
            found[stat.name] = stat.length
    return found


async def _read_from(
    storage: AsyncChunkStorage, container: int, listing: dict[str, int]
) -> JournalState | None:
    listed = listed_epochs(container, listing)
    warnings: list[str] = []
    for epoch in sorted(listed.files, reverse=True):
        names = listed.files[epoch][::-1]
        files = await _newest_files(storage, epoch, names, listing)
        if files[0].kind is FileKind.CHECKPOINT:
            return journal_state_after(
                container,
                epoch,
                files,
                replay(epoch, files),
                listed,
                warnings,
                stated_epoch=epoch,
                passed_over=any(file.kind is FileKind.BROKEN_CHECKPOINT for file in files),
            )
        for file in files:
            if not file.may_be_failed_boot:
                raise CorruptDataError(
                    "journal has no whole checkpoint and is not that of a failed boot",
                    where=file.name,
                    epoch=epoch,
                )
        warnings.append(f"epoch {epoch} never opened and was passed over")
    return None


async def _newest_files(
    storage: AsyncChunkStorage, epoch: int, names: list[str], listing: dict[str, int]
) -> list[JournalFile]:
    """Read files from the newest back to the first whole checkpoint; return them oldest first.

    The file before a checkpoint is read too: a checkpoint that it contradicts is of another place.
    """
    files: list[JournalFile] = []
    contents = read_ahead(storage, names, listing)
    async for name, data in contents:
        if files and files[-1].kind is FileKind.CHECKPOINT:
            damage = _misplaced(epoch, files[-1], _readable(name, data))
            if damage is None:
                break
            files[-1] = replace(
                files[-1], kind=FileKind.BROKEN_CHECKPOINT, checkpoint=None, damage=damage
            )
        if isinstance(data, BaseException):
            raise data
        files.append(read_journal_file(name, data))
    if files[-1].kind is FileKind.CHECKPOINT and (damage := _misplaced(epoch, files[-1], None)):
        raise damage
    await contents.aclose()
    files.reverse()
    return files


async def read_ahead(
    storage: AsyncChunkStorage, names: list[str], listing: dict[str, int]
) -> AsyncGenerator[tuple[str, bytearray | BaseException], None]:
    """Yield the contents of ``names`` in their order, or why there is none; some are read ahead."""
    position, count = 0, 2
    while part := names[position : position + count]:
        reads = (storage.read_all(name, listing[name]) for name in part)
        for name, data in zip(
            part, await asyncio.gather(*reads, return_exceptions=True), strict=True
        ):
            yield name, data
        position, count = position + count, min(2 * count, READS_AHEAD_MAX)


def _readable(name: str, data: bytearray | BaseException) -> JournalFile | None:
    """The file if it can be read: nothing but a comparison needs it."""
    if isinstance(data, BaseException):
        return None
    try:
        return read_journal_file(name, data)
    except CorruptDataError:
        return None


def _misplaced(
    epoch: int, file: JournalFile, before: JournalFile | None
) -> CorruptDataError | None:
    """Why a whole checkpoint is not the one of its file; ``None`` if it may be."""
    checkpoint = file.checkpoint
    assert checkpoint is not None, "asked of checkpoints only"
    if checkpoint.epoch != epoch:
        return CorruptDataError(
            "checkpoint of another epoch", where=file.name, epoch=checkpoint.epoch
        )
    if before is None:
        return None
    record: Checkpoint | JournalBatch
    if before.checkpoint is not None:
        record, passed = before.checkpoint, before.checkpoint.sequence
    elif before.batches:
        record = before.batches[-1][0]
        passed = record.sequence + 1
    else:
        return None
    if record.epoch != epoch or record.lineage != checkpoint.lineage:
        return (
            None
            if record.epoch != epoch
            else CorruptDataError(
                "checkpoint of another lineage than the file before it", where=file.name
            )
        )
    if checkpoint.sequence < passed:
        return CorruptDataError(
            "checkpoint is older than the file before it",
            where=file.name,
            sequence=checkpoint.sequence,
        )
    return None


def journal_state_after(
    container: int,
    epoch: int,
    files: Sequence[JournalFile],
    replayed: JournalReplay,
    listed: ListedEpochs,
    warnings: Sequence[str],
    *,
    stated_epoch: int,
    passed_over: bool,
) -> JournalState:
    """The state at the end of a replay of ``files``; the warnings are those from before it."""
    return JournalState(
        container=container,
        epoch=epoch,
        stated_epoch=stated_epoch,
        checkpoint=replayed.checkpoint,
        checkpoint_file=files[0].name,
        newest_file=files[-1].name,
        batches=replayed.batches,
        layouts=replayed.layouts,
        safe_index=replayed.safe_index,
        newest_index=replayed.newest_index,
        next_sequence=replayed.next_sequence,
        highest_epoch=listed.highest,
        owners=listed.owners,
        passed_over=passed_over,
        warnings=(*warnings, *replayed.warnings),
    )
