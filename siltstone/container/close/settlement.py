"""What a clean close settles on long-term storage, and why.

An owner that lives for seconds never flushes by age. If nothing were settled at its end, tier 1
would keep what each of many short owners appended, and every opening would read all of it again. So
a close settles what it finds to be worth a few requests, and the next opening begins with little.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from siltstone.container.flush.checkpointer import REPLAY_BYTES
from siltstone.container.models.settings import CloseFlush
from siltstone.container.state.boot_state import OWNERS_MAX
from siltstone.core.constants import MIB
from siltstone.core.errors import SiltstoneError

if TYPE_CHECKING:
    from siltstone.container.owner_parts import OwnerParts

logger = logging.getLogger(__name__)

CLOSE_S: Final = 10.0
"""How long a close settles. A healthy service takes what back-pressure lets wait in less time; the
rest stays safe in tier 1."""

TAIL_BYTES_MAX: Final = MIB
"""With more bytes than this only in tier 1, reading them again costs more than a flush."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """What an owner that closes has not brought to long-term storage.

    Attributes:
        tail_bytes: of segments and of the table log, only in tier 1.
        inherited: some of them were appended before this owner.
        flushing: a flush runs at the moment.
        replay_bytes: of the table log after the newest checkpoint.
        owners: how many before this one have left files on long-term storage.
    """

    tail_bytes: int
    inherited: bool
    flushing: bool
    replay_bytes: int
    owners: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What a close does.

    Attributes:
        flush: bring everything to long-term storage and truncate tier 1.
        merge: let the optimiser do one round: each short owner begins chunks of its own.
        checkpoint: write a checkpoint.
    """

    flush: bool
    merge: bool
    checkpoint: bool


def plan_settlement(choice: CloseFlush, found: Unsettled) -> Settlement:
    """Decide what a close does.

    Few bytes of this owner alone stay in tier 1: the next owner may live long and flush them with
    others. If it does not, they are inherited, and its close settles them; so tier 1 holds what
    two owners left, at most.
    """
    if choice == "never":
        return Settlement(flush=False, merge=False, checkpoint=False)
    worth = found.inherited or found.flushing or found.tail_bytes > TAIL_BYTES_MAX
    return Settlement(
        flush=found.tail_bytes > 0 and (worth or choice == "always"),
        merge=found.owners >= OWNERS_MAX,
        checkpoint=found.replay_bytes > REPLAY_BYTES,
    )


async def settle(parts: OwnerParts, choice: CloseFlush, log_end: int) -> None:
    """Settle what the plan says, while background work continues.

    Args:
        parts: of an owner that takes no more calls.
        choice: what its user wants.
        log_end: one above the newest frame before this owner.

    Raises, where ``choice`` is ``always`` and not everything could be flushed:
        ChunkError, CorruptDataError, StorageFullError: the rest stays in tier 1.
        FencedError: another owner has the container, and the rest is in its hands.
        ClosedError: the log failed. What was acknowledged is in tier 1, for the next owner.
    """
    if parts.pipeline.failure is None:
        await _settle(parts, choice, log_end)
    # The pipeline, which has closed the container, reports the failure to callers.
    if parts.pipeline.failure is not None and choice == "always":
        size = _tail_bytes(parts)
        if size:
            ended = parts.pipeline.closed_error()
            error = type(ended)(f"not all was flushed: {ended}", unflushed_bytes=size)
            raise error from parts.pipeline.failure


async def _settle(parts: OwnerParts, choice: CloseFlush, log_end: int) -> None:
    """Settle what can be. What fails because the owner ended meanwhile is not raised here."""
    plan = plan_settlement(choice, _unsettled(parts, log_end))
    try:
        if choice == "always":
            await _carry_out(parts, plan)
        elif not (parts.storage.silent or parts.storage.hanging):
            async with asyncio.timeout(CLOSE_S):
                await _carry_out(parts, plan)
    except TimeoutError:
        logger.warning(
            "not all was settled within %.0f s: container=%d unflushed_bytes=%d; "
            "it is safe in tier 1",
            CLOSE_S,
            parts.container,
            _tail_bytes(parts),
        )
    except SiltstoneError as error:
        if parts.pipeline.failure is not None:
            return
        if choice == "always":
            raise
        logger.warning("not all was settled; it is safe in tier 1: %s", error)


async def _carry_out(parts: OwnerParts, plan: Settlement) -> None:
    """Do what a close settles: first what runs, since a chunk without its row would be garbage."""
    await parts.segment_flusher.finish()
    if plan.flush:
        await parts.pipeline.barrier()
        await parts.segment_flusher.flush_all()
    if plan.merge:
        await parts.optimiser.round()
    if plan.flush or plan.merge:
        await parts.table_log_flusher.flush()
        await parts.table_log_flusher.truncate_log()
    if plan.checkpoint:
        await parts.checkpointer.write()


def _unsettled(parts: OwnerParts, log_end: int) -> Unsettled:
    replica = parts.pipeline.replica
    journal_state = parts.claimed.boot_state.journal_state
    needed = replica.safe_index(replica.table_flushed)
    return Unsettled(
        tail_bytes=_tail_bytes(parts),
        inherited=needed < log_end,
        flushing=parts.segment_flusher.is_flushing,
        replay_bytes=parts.checkpointer.grown,
        owners=0 if journal_state is None else journal_state.owners,
    )


def _tail_bytes(parts: OwnerParts) -> int:
    replica = parts.pipeline.replica
    return replica.unflushed_bytes + replica.table_tail.size
