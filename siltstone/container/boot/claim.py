"""How an owner claims a container: the first four steps of a boot, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from siltstone.container.boot.log_consistency import (
    check_truncation,
    is_used_log,
    read_known_journal,
)
from siltstone.container.state.boot_state import BootState, boot_state_of, check_lineage, check_log
from siltstone.container.state.log_scan import LOG_POOL, kept_frames
from siltstone.core.environment import Environment
from siltstone.core.errors import FencedError, LogLostError, LogTruncatedError
from siltstone.core.fenced_log import FencedLog
from siltstone.core.records.frame import KIND_END
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.first_look import LOG_S, silent_log
from siltstone.core.storage.late_work import in_time
from siltstone.journal.journal_state import EPOCH_END, JournalState, list_epochs, read_journal

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A claimed container.

    Attributes:
        epoch: this owner's.
        boot_state: where the boot starts from; after the replay, with what that passed over.
        log_first: index of the first frame that the log kept then.
        log_end: one above the index of its newest frame then.
        dropped_tail: bytes of a torn last frame that the claim voided.
    """

    epoch: int
    boot_state: BootState
    log_first: int
    log_end: int
    dropped_tail: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownJournal:
    """What a journal and its log tell before the log is claimed.

    Attributes:
        above: the highest epoch that any file of the journal is of.
        log_first: the first index that the log kept before the journal was read.
        journal_state: what the journal states; ``None`` in a new container.
        tried: lineage of a new container whose first boots failed, if any did.
    """

    above: int
    log_first: int
    journal_state: JournalState | None
    tried: bytes | None


async def list_journal(
    log: FencedLog, storage: AsyncChunkStorage, environment: Environment, container: int
) -> KnownJournal:
    """Find the highest epoch and the lineage of the container.

    Raises:
        LogError: the log failed, or does not answer.
        CorruptDataError: the journal is damaged beyond what a boot may pass over.
    """
    above = await list_epochs(storage, container)
    first = await first_answer(environment, container, partial(_first, log))
    journal_state = await read_known_journal(
        storage, environment, container, EPOCH_END, partial(is_used_log, log), LOG_POOL
    )
    tried: bytes | None = None
    if journal_state is None:
        tried = await environment.run_blocking(LOG_POOL, lambda: _tried_before(log))
    return KnownJournal(above=above, log_first=first, journal_state=journal_state, tried=tried)


async def claim_log(
    known: KnownJournal, log: FencedLog, environment: Environment, *, owner: str, takeover: bool
) -> tuple[int, bytes]:
    """Look at the log, then claim it; return this owner's epoch and the lineage.

    Raises:
        StoreInUseError: a live owner holds it and ``takeover`` is false.
        LogLostError: the log is not the one that the journal belongs to, or older. Nothing was
            written to it.
        LogError: the log failed.
        FencedError: another owner claimed it in the meantime.
    """
    journal_state = known.journal_state
    if journal_state is not None:
        boot_state = boot_state_of(journal_state.checkpoint.lineage, journal_state)
        await environment.run_blocking(LOG_POOL, lambda: _look_at(log, boot_state, known.log_first))
        lineage = journal_state.checkpoint.lineage
    else:
        lineage = known.tried or environment.uuid()
    claim = partial(
        log.claim,
        lineage=lineage,
        new=journal_state is None and known.tried is None,
        above=known.above,
        takeover=takeover,
        owner=owner,
    )
    return await environment.run_blocking(LOG_POOL, claim), lineage


@asynccontextmanager
async def fenced_rather_than_lost(
    log: FencedLog, environment: Environment, epoch: int
) -> AsyncIterator[None]:
    """Raise ``FencedError`` for a loss that a newer owner explains.

    Newer owners delete what older ones boot from, and that must not look like a loss.
    """
    try:
        yield
    except LogLostError as error:
        newest = await environment.run_blocking(LOG_POOL, log.newest_epoch)
        if newest > epoch:
            raise FencedError("a newer epoch owns the log", epoch=newest) from error
        raise


async def read_journal_again(
    known: KnownJournal,
    storage: AsyncChunkStorage,
    environment: Environment,
    container: int,
    epoch: int,
    lineage: bytes,
) -> BootState:
    """Find what to boot from, now that the log is claimed.

    Whatever an older owner wrote before it was fenced counts, nothing later does.

    Raises:
        LogLostError: the journal is of another history, or gone.
        CorruptDataError: it is damaged beyond what a boot may pass over.
    """
    journal_state = await read_journal(storage, environment, container, epoch)
    if journal_state is not None and journal_state.checkpoint.lineage != lineage:
        raise LogLostError("another first owner opened the container meanwhile")
    if journal_state is None and known.journal_state is not None:
        raise LogLostError("the journal is gone")
    return boot_state_of(lineage, journal_state)


async def compare_log(
    boot_state: BootState, log: FencedLog, environment: Environment, epoch: int
) -> Claimed:
    """Check that the claimed log continues what the journal states.

    Raises:
        LogLostError: it is an older copy, was emptied, or is one of two under one store.
    """
    first, end, dropped = await environment.run_blocking(
        LOG_POOL, lambda: (log.first(), log.end(), log.dropped_tail())
    )
    try:
        check_log(boot_state, epoch, first, end)
    except LogLostError:
        check = partial(kept_frames, log, partial(check_truncation, boot_state))
        await environment.run_blocking(LOG_POOL, check)
        raise
    return Claimed(
        epoch=epoch, boot_state=boot_state, log_first=first, log_end=end, dropped_tail=dropped
    )


async def first_answer(environment: Environment, container: int, call: Callable[[], T]) -> T:
    """Ask a log for the first time: one that hangs must not block the caller that opens it.

    Raises:
        LogError: it does not answer.
    """
    work = asyncio.ensure_future(environment.run_blocking(LOG_POOL, call))
    if not await in_time(work, LOG_S):
        raise silent_log(container)
    return work.result()


def _first(log: FencedLog) -> int:
    """The first index that the log keeps, before the journal is read: an owner may truncate."""
    reader = log.open_read()
    try:
        return reader.first()
    finally:
        reader.close()


def _look_at(log: FencedLog, boot_state: BootState, first: int) -> None:
    """Refuse a log that is surely lost before anything is written to it.

    The claim decides for certain: only that tells whether the newest frame counts.

    Raises:
        LogLostError: it is not the log of the journal, or older.
        CorruptDataError: it is the journal that lacks something.
    """
    reader = log.open_read()
    try:
        check_lineage(boot_state, reader.lineage())
        check_log(boot_state, reader.epoch(), first, reader.end() + 1)
    except LogLostError:
        with suppress(LogTruncatedError):
            check_truncation(boot_state, reader.read(reader.first()))
        raise
    finally:
        reader.close()


def _tried_before(log: FencedLog) -> bytes | None:
    """Lineage of a log that holds only the ends of first boots that failed.

    Nothing was ever acknowledged there, so the container is as good as new.
    """
    reader = log.open_read()
    try:
        count = 0
        for frame in reader.read(reader.first()):
            if frame.kind != KIND_END or frame.index != count:
                return None
            count += 1
        return reader.lineage() if count else None
    except LogTruncatedError:
        # An owner is at work: this log is not new.
        return None
    finally:
        reader.close()
