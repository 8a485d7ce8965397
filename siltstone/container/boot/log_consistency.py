"""What the log says of the journal: whether its newest files are there.

A journal says by itself that something in the middle is missing, and not that its end is. The log
names each checkpoint and states each truncation once the journal file that it relies on is durable.

A container without a journal: whether it is new, judged by all that its owners leave.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from siltstone.container.state.boot_state import BootState
from siltstone.core.chunk_names import epoch_of
from siltstone.core.environment import Environment, Pool
from siltstone.core.errors import (
    ChunkNotFoundError,
    CorruptDataError,
    LogLostError,
    LogTruncatedError,
)
from siltstone.core.fenced_log import FencedLog, LogReader
from siltstone.core.records.frame import KIND_END, Frame
from siltstone.core.records.piece import (
    ControlKind,
    ControlPiece,
    decode_outlines,
    decode_truncation_record,
)
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.journal.journal_state import JournalState, read_opened_journal
from siltstone.journal.retention import journal_number

logger = logging.getLogger(__name__)


async def compare_newest_checkpoint(
    boot_state: BootState, name: str | None, storage: AsyncChunkStorage
) -> BootState:
    """Compare the newest checkpoint that the log names with the journal.

    Returns ``boot_state``, with a warning if they differ.

    A checkpoint that is gone is passed over: the one before it serves, with the batches after it.
    """
    journal_state = boot_state.journal_state
    if (
        journal_state is None
        or name is None
        or _place(name) <= _place(journal_state.checkpoint_file)
    ):
        return boot_state
    try:
        await storage.stat(name)
    except ChunkNotFoundError:
        warning = f"passed over missing checkpoint: where={name}"
        logger.warning("%s", warning)
        return replace(boot_state.warned(warning), repaired=True)
    # A living owner wrote it meanwhile, or it is damaged, which was reported.
    return boot_state


def check_truncation(boot_state: BootState, frames: Iterable[Frame]) -> None:
    """Find out whether it is the journal that lacks something when the log begins too late.

    Raises:
        CorruptDataError: the log was truncated as a durable journal file allowed, and no file of
            the journal says so.
    """
    journal_state = boot_state.journal_state
    stated = max(_truncations(frames), default=0)
    if journal_state is not None and stated > journal_state.safe_index:
        raise CorruptDataError(
            "the journal ends before a statement that the log relies on",
            where=journal_state.newest_file,
            stated=stated,
            found=journal_state.safe_index,
        )


def _place(name: str) -> tuple[int, int]:
    return epoch_of(name), journal_number(name) or 0


def _truncations(frames: Iterable[Frame]) -> Iterator[int]:
    return (
        decode_truncation_record(piece.payload, where=where)
        for frame in frames
        for where in (f"frame {frame.index}",)
        for piece in decode_outlines(frame.body, frame.count, where=where)
        if isinstance(piece, ControlPiece) and piece.control is ControlKind.TRUNCATION
    )


def is_used(reader: LogReader) -> bool:
    """Whether a log has frames that only an owner that opened the container appends. Blocking.

    A first boot that failed leaves at most the end of its owner.
    """
    try:
        first = reader.first()
        return first > 0 or any(frame.kind != KIND_END for frame in reader.read(first))
    except LogTruncatedError:
        return True  # An owner is at work.


def is_used_log(log: FencedLog) -> bool:
    """``is_used`` of a log, by a reader of its own. Blocking."""
    reader = log.open_read()
    try:
        return is_used(reader)
    finally:
        reader.close()


def no_journal(container: int) -> LogLostError:
    """The error for a container that has no journal, and whose log holds frames."""
    return LogLostError(
        "the log holds frames, and long-term storage has no journal of them: the journal is gone,"
        " or the log belongs to another store",
        container=container,
    )


async def read_known_journal(
    storage: AsyncChunkStorage,
    environment: Environment,
    container: int,
    below_epoch: int,
    used: Callable[[], bool],
    pool: Pool,
) -> JournalState | None:
    """Do as ``read_opened_journal``, and let the log say, too, that the container is not new.

    Args:
        storage: long-term storage.
        environment: gives threads.
        container: its index.
        below_epoch: of the epochs below this one.
        used: asks the log, see ``is_used``; only where long-term storage has nothing.
        pool: where that runs.

    Raises:
        LogLostError: no journal is there, and the log holds frames: one of them is wrong.
    """
    for _ in range(2):
        journal_state = await read_opened_journal(storage, environment, container, below_epoch)
        if journal_state is not None or not await environment.run_blocking(pool, used):
            return journal_state
        # An owner may have opened it for the first time since the first look.
    raise no_journal(container)
