"""A container without a journal: whether it is new, by all that its owners leave behind."""

from __future__ import annotations

from collections.abc import Callable

from siltstone.core.environment import Environment, Pool
from siltstone.core.errors import LogLostError, LogTruncatedError
from siltstone.core.fenced_log import FencedLog, LogReader
from siltstone.core.records.frame import KIND_END
from siltstone.core.threads import AsyncChunkStorage
from siltstone.journal.recovery import Recovered, recover_opened


def is_used(reader: LogReader) -> bool:
    """Whether a log has frames that only an owner appends who has opened the container. Blocking.

    A first boot that failed leaves the end of its owner at most.
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
    """What a look at a container ends with whose log holds frames, and that has no journal."""
    return LogLostError(
        "the log holds frames, and long-term storage has no journal of them: the journal is gone,"
        " or the log belongs to another store",
        container=container,
    )


async def recover_known(
    storage: AsyncChunkStorage,
    environment: Environment,
    container: int,
    below_epoch: int,
    used: Callable[[], bool],
    pool: Pool,
) -> Recovered | None:
    """Do as ``recover_opened``, and let the log say, too, that the container is not new.

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
        recovered = await recover_opened(storage, environment, container, below_epoch)
        if recovered is not None or not await environment.run_blocking(pool, used):
            return recovered
        # Somebody may have opened it for the first time since the first look.
    raise no_journal(container)
