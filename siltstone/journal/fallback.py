"""What is left of a journal that is damaged beyond what a boot may pass over.

Each state here was once the newest one. What was stated after it is lost, so only a recovery that
may lose something continues from one, and only a caller that looks without writing reads one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from siltstone.core.errors import CorruptDataError
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.journal.journal_file import FileKind, JournalFile, read_journal_file
from siltstone.journal.journal_state import (
    JournalState,
    journal_state_after,
    list_files,
    read_ahead,
)
from siltstone.journal.listed_epochs import ListedEpochs, listed_epochs
from siltstone.journal.replay import replay_to_damage


async def earlier_states(
    storage: AsyncChunkStorage, container: int, below_epoch: int
) -> AsyncGenerator[JournalState]:
    """Yield the states that whole checkpoints and the batches after them give, newest first.

    One for each whole checkpoint: it, and the batches after it up to the first that is damaged or
    missing.

    Raises:
        FormatError: a file was made by a newer version.
        ChunkNotFoundError: a file went away meanwhile.
        ChunkError: the service failed.
    """
    listing = await list_files(storage, container, below_epoch)
    listed = listed_epochs(container, listing)
    warnings: list[str] = []
    for epoch in sorted(listed.files, reverse=True):
        files = await _files(storage, listed.files[epoch], listing)
        whole = [at for at, file in enumerate(files) if file.kind is FileKind.CHECKPOINT]
        for at in reversed(whole):
            try:
                state = _state(container, epoch, files[at:], listed, warnings)
            except CorruptDataError as error:
                warnings.append(f"passed over a checkpoint: {error}")
            else:
                yield state
        if not whole:
            warnings.append(f"epoch {epoch} has no whole checkpoint and was passed over")


async def _files(
    storage: AsyncChunkStorage, names: list[str], listing: dict[str, int]
) -> list[JournalFile]:
    files = []
    async for name, data in read_ahead(storage, names, listing):
        if isinstance(data, BaseException):
            raise data
        files.append(read_journal_file(name, data, to_damage=True))
    return files


def _state(
    container: int,
    epoch: int,
    files: Sequence[JournalFile],
    listed: ListedEpochs,
    warnings: Sequence[str],
) -> JournalState:
    replayed, damage = replay_to_damage(epoch, files)
    newest = max(listed.files)
    state = journal_state_after(
        container, epoch, files, replayed, listed, warnings, stated_epoch=newest, passed_over=True
    )
    if damage is None:
        return state
    told = f"went back to what stands before damage: {damage}"
    return replace(state, warnings=(*state.warnings, told))
