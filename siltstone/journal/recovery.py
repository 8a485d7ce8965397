"""How a boot finds the newest state that the journal holds.

It only reads, so two recoveries in a row are equal.

One epoch is read: the newest one below the claimant's that has a whole checkpoint, from the newest
one on. Such an epoch opened, or was about to; what older epochs write late can not matter any more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from siltstone.core.chunk_names import system_prefix
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError
from siltstone.core.records.checkpoint import Checkpoint
from siltstone.core.threads import AsyncChunkStorage
from siltstone.journal.journal_file import FileKind, JournalFile, read_journal_file
from siltstone.journal.pinned_state import Pinned
from siltstone.journal.replay import replay
from siltstone.journal.retention import file_epoch, journal_number

LISTING_PAGE = 1_000

STARTS_MAX = 5
"""Listings that a recovery is tried on before what it found is final. A zombie may still write or
delete while we read; it is fenced and soon knows, so a few are enough."""

PAUSE_S = 0.2
"""Pause before the second start; it doubles with each further one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What the journal says.

    Attributes:
        epoch: whose journal was read.
        checkpoint: the checkpoint that replay began with.
        checkpoint_file: name of its file.
        batches: count of batches applied behind it.
        layouts: of the system segments, after those batches.
        safe_index: the newest safe index that a checkpoint or batch states.
        newest_index: the newest acknowledged log index that one states; -1 when there is none.
        next_sequence: one above the last batch's sequence.
        highest_epoch: the highest epoch below the claimant's that any system file is of.
        warnings: what was passed over, for a person to read; empty when all is well.
    """

    epoch: int
    checkpoint: Checkpoint
    checkpoint_file: str
    batches: int
    layouts: Pinned
    safe_index: int
    newest_index: int
    next_sequence: int
    highest_epoch: int
    warnings: tuple[str, ...]


async def list_epochs(storage: AsyncChunkStorage, container: int) -> int:
    """Return the highest epoch that a system file of ``container`` is of, 0 without any."""
    highest = 0
    async for stat in _system_files(storage, container, LISTING_PAGE):
        highest = max(highest, file_epoch(stat.name, container) or 0)
    return highest


async def recover(
    storage: AsyncChunkStorage,
    environment: Environment,
    container: int,
    below_epoch: int,
    *,
    page: int = LISTING_PAGE,
) -> Recovered | None:
    """Return what the newest epoch below ``below_epoch`` that has a whole checkpoint left.

    Call it after the claim. It reads files that one listing, made here, shows, each up to the
    length that the listing shows. When a file is gone meanwhile, or when what was found contradicts
    itself and a fresh listing differs, it starts over with the fresh one, a bounded number of
    times.

    An epoch is passed over only if it never opened: it has no journal file but checkpoints that are
    cut short. Its owner acknowledged nothing. An epoch with any other file and without a
    whole checkpoint did open and is damaged; the state of an older one might then be wrong.

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
        listing = await _listing(storage, container, below_epoch, page)
        if listing == before and isinstance(failure, CorruptDataError):
            break
        try:
            return await _recover_from(storage, container, listing)
        except (ChunkNotFoundError, CorruptDataError) as error:
            before, failure = listing, error
    assert failure is not None, "the loop ends early by a result or with a failure"
    raise failure


async def _system_files(
    storage: AsyncChunkStorage, container: int, page: int
) -> AsyncIterator[ChunkStat]:
    start_after = ""
    while True:
        stats = await storage.list(system_prefix(container), start_after, page)
        for stat in stats:
            yield stat
        if len(stats) < page:
            return
        start_after = stats[-1].name


async def _listing(
    storage: AsyncChunkStorage, container: int, below_epoch: int, page: int
) -> dict[str, int]:
    """Return the lengths of all system files of epochs below ``below_epoch``, by name."""
    found = {}
    async for stat in _system_files(storage, container, page):
        epoch = file_epoch(stat.name, container)
        if epoch is not None and epoch < below_epoch:
            found[stat.name] = stat.length
    return found


async def _recover_from(
    storage: AsyncChunkStorage, container: int, listing: dict[str, int]
) -> Recovered | None:
    numbers: dict[int, dict[int, str]] = {}
    highest_epoch = 0
    for name in listing:
        epoch = file_epoch(name, container)
        assert epoch is not None, "the listing holds names of ours"
        highest_epoch = max(highest_epoch, epoch)
        number = journal_number(name)
        if number is not None:
            numbers.setdefault(epoch, {})[number] = name
    warnings: list[str] = []
    for epoch in sorted(numbers, reverse=True):
        names = [name for _, name in sorted(numbers[epoch].items(), reverse=True)]
        files = await _newest_files(storage, names, listing)
        if files[0].kind is FileKind.CHECKPOINT:
            return _recovered(epoch, files, highest_epoch, warnings)
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
    storage: AsyncChunkStorage, names: list[str], listing: dict[str, int]
) -> list[JournalFile]:
    """Read files from the newest back to the first whole checkpoint; return them oldest first."""
    files: list[JournalFile] = []
    for name in names:
        data = await storage.read_all(name, listing[name])
        files.append(read_journal_file(name, data))
        if files[-1].kind is FileKind.CHECKPOINT:
            break
    files.reverse()
    return files


def _recovered(
    epoch: int, files: list[JournalFile], highest_epoch: int, warnings: list[str]
) -> Recovered:
    replayed = replay(epoch, files)
    return Recovered(
        epoch=epoch,
        checkpoint=replayed.checkpoint,
        checkpoint_file=files[0].name,
        batches=replayed.batches,
        layouts=replayed.layouts,
        safe_index=replayed.safe_index,
        newest_index=replayed.newest_index,
        next_sequence=replayed.next_sequence,
        highest_epoch=highest_epoch,
        warnings=(*warnings, *replayed.warnings),
    )
