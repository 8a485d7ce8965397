"""What an owner that ends states on long-term storage: up to where its log was acknowledged.

A log that is put back as it was some hours ago looks whole. Only something outside it can tell that
it once held more: opening a container compares the end of the log with what the journal states. So
the last owner states it again, if frames hold what nothing else has.
"""

from __future__ import annotations

import logging

from siltstone.container.owner_parts import OwnerParts
from siltstone.container.state.replica import Replica
from siltstone.core.errors import ChunkError, FencedError, LogError

logger = logging.getLogger(__name__)


async def state_end(parts: OwnerParts) -> None:
    """Write the statement, by one small request; never fail, and never wait long.

    While storage does not answer, nothing is written: then the end is compared with what the
    journal stated before. An acknowledged frame stays one whatever ended this owner, so the end of
    a failed log is stated too.
    """
    journal, pipeline, storage = parts.journal, parts.pipeline, parts.storage
    if not journal.checkpoints or journal.failure is not None:
        return
    if storage.silent or storage.hanging:
        return
    if isinstance(pipeline.failure, FencedError):
        return  # The newer owner's first checkpoint says it.
    if _unflushed_index(pipeline.replica) <= journal.stated_newest_index:
        return
    try:
        await parts.pinned.state_end()
    except (ChunkError, LogError) as error:
        logger.warning("the end of the log is not stated on long-term storage: %s", error)


def _unflushed_index(replica: Replica) -> int:
    """Index of the newest frame that brought what is not on long-term storage yet, else -1."""
    last = [segment.tail.last.index for segment in replica.dirty.values()]
    if replica.table_tail:
        last.append(replica.table_tail.last.index)
    return max(last, default=-1)
