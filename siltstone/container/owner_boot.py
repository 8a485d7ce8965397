"""How a container is opened by its owner, step by step.

The steps are those of "Boot" in ARCHITECTURE.md; a boot that fails leaves a few files under its own
epoch and changes nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from siltstone.container.boot.claim import (
    Claimed,
    claim_log,
    compare_log,
    fenced_rather_than_lost,
    list_journal,
    read_journal_again,
)
from siltstone.container.boot.replay import replay
from siltstone.container.boot.storage_layers import bridged
from siltstone.container.container import Container
from siltstone.container.flush.write_through_hooks import OpenHooks, refuse_write_through
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.owner_parts import OwnerParts
from siltstone.container.state.boot_state import OWNERS_MAX
from siltstone.container.state.log_scan import LOG_POOL
from siltstone.container.state.work_events import WorkEvents
from siltstone.core.chunk_names import claim_file
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkError,
    CorruptDataError,
    LogError,
    StorageFullError,
    StoreError,
)
from siltstone.core.fenced_log import FencedLog
from siltstone.core.metrics import NO_METRICS, Metrics
from siltstone.core.records.claim import Claim, encode_claim
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.uncancellable import closed_in_time

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHooks:
    """What a store does while one of its containers opens.

    Attributes:
        confirm: looks at long-term storage after the claim, before more is written; its errors end
            the opening. ``None`` looks at nothing.
        open_write_through: called where rows say that a layout of another program is written.
    """

    confirm: Callable[[ChunkStorage], None] | None = None
    open_write_through: OpenHooks = refuse_write_through


_NO_STORE = StoreHooks()


async def open_container(
    *,
    container: int,
    log: FencedLog,
    storage: ChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    index_folder: Path,
    owner: str,
    takeover: bool,
    metrics: Metrics = NO_METRICS,
    hooks: StoreHooks = _NO_STORE,
) -> Container:
    """Claim a container and bring it up, by the eight steps of a boot in ARCHITECTURE.md.

    The container owns ``log`` and ``storage`` from now on and closes them, also when opening fails.

    Args:
        container: its index in the store.
        log: its tier-1 log, not claimed yet.
        storage: long-term storage of the store.
        environment: gives time, randomness and threads.
        settings: of the container.
        index_folder: where the local index lies; a cache of this container alone.
        owner: what others are told about this owner.
        metrics: takes what is measured.
        takeover: claim although a live owner exists.
        hooks: what the store does meanwhile.

    Raises:
        StoreInUseError: a live owner exists and ``takeover`` is false.
        LogLostError: tier 1 is lost; only an explicit recovery can continue.
        CorruptDataError: journal, log or index checkpoint are damaged.
        ChunkError: long-term storage did not answer.
    """
    chunks = bridged(storage, environment, settings, metrics)
    opened: Container | None = None
    try:
        # 1. List the journal.  2. Claim the log.  3. Read the journal again.  4. Compare the two,
        # as far as the ends of the log tell; steps 5 and 6 compare its frames, too.
        claimed = await claim(
            log,
            chunks,
            environment,
            container,
            owner=owner,
            takeover=takeover,
            confirm=hooks.confirm,
        )
        # 5. Look at all frames, and get an index.  6. Replay what it lacks.
        events = WorkEvents()
        flush_thresholds = events.flush_thresholds(settings, chunks.capabilities)
        replayed = await replay(
            claimed, log, chunks, environment, settings, index_folder, flush_thresholds
        )
        # 7. Create the claim object, write the first checkpoint, and open.
        open_write_through = hooks.open_write_through
        parts = OwnerParts(
            replayed, events, container, log, chunks, environment, settings, open_write_through
        )
        opened = Container(parts)
        await _create_claim(parts, owner)
        boot_state = parts.claimed.boot_state
        await parts.checkpointer.write_first(boot_state)
        opened.begin()
        # 8. Clean up what many owners left.
        if boot_state.journal_state is not None and boot_state.journal_state.owners >= OWNERS_MAX:
            await _clean_up(opened, parts)
    except BaseException:
        # The first error is the one to raise; errors of the closing are dropped.
        with suppress(LogError, ChunkError):
            if opened is not None:
                await opened.close()
            else:
                await closed_in_time(environment, LOG_POOL, log.close, "tier 1")
                await chunks.close()
        raise
    return opened


async def claim(
    log: FencedLog,
    storage: AsyncChunkStorage,
    environment: Environment,
    container: int,
    *,
    owner: str,
    takeover: bool,
    confirm: Callable[[ChunkStorage], None] | None = None,
) -> Claimed:
    """Claim the log, above every epoch that the journal shows, and find what to boot from.

    Raises:
        StoreInUseError: a live owner holds it and ``takeover`` is false.
        LogLostError: the log is not the one that the journal belongs to, or older.
        LogError: the log failed, or does not answer.
        FencedError: another owner claimed it in the meantime.
        CorruptDataError: the journal is damaged beyond what a boot may pass over.
    """
    # 1. List the journal.
    known = await list_journal(log, storage, environment, container)
    # 2. Look at the log, then claim it.
    epoch, lineage = await claim_log(known, log, environment, owner=owner, takeover=takeover)
    if confirm is not None:
        await storage.run("stat", "", confirm)
    async with fenced_rather_than_lost(log, environment, epoch):
        # 3. Read the journal again.
        boot_state = await read_journal_again(
            known, storage, environment, container, epoch, lineage
        )
        # 4. Compare log and journal. What only the frames tell is compared in the replay, which
        # reads them: by ``LogScan.check``, and ``compare_newest_checkpoint``.
        return await compare_log(boot_state, log, environment, epoch)


async def _create_claim(parts: OwnerParts, owner: str) -> None:
    """State on long-term storage who owns the container."""
    journal = parts.journal
    record = Claim(
        lineage=journal.lineage,
        epoch=journal.epoch,
        owner=owner,
        claimed_ms=int(parts.environment.time() * 1000),
    )
    await parts.storage.create(claim_file(journal.container, journal.epoch), [encode_claim(record)])


async def _clean_up(container: Container, parts: OwnerParts) -> None:
    """Flush everything and write a checkpoint, which drops what many short owners left.

    Each left files that a boot lists or reads, and none lived until a checkpoint was due.
    """
    try:
        await container.flush()
        await container.checkpoint()
    except (ChunkError, CorruptDataError, StorageFullError, StoreError) as error:
        parts.pipeline.check_alive()
        logger.warning("could not drop what older owners left: %s", error)
