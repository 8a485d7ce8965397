"""A container of a new store that begins from an image of another one.

Its lineage is new and was chosen by the caller, so a try that died can be told from anything else,
and the next one continues. Its epoch is above all that the image knew, so its owner never appends
to a chunk that came with it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeVar

from siltstone.container.boot.storage_layers import bridged, segment_storage
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.recovery.new_lineage import begin_log, write_beginning
from siltstone.container.recovery.recovered_state import build_cut
from siltstone.container.state.boot_state import BootState
from siltstone.container.state.log_scan import LOG_POOL
from siltstone.core.chunk_names import claim_file
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import TABLE_LOG_ID
from siltstone.core.environment import Environment
from siltstone.core.errors import LogLostError
from siltstone.core.fenced_log import FencedLog
from siltstone.core.records.checkpoint import IndexFile
from siltstone.core.records.claim import Claim, encode_claim
from siltstone.core.records.frame import Frame
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.uncancellable import run_whole
from siltstone.core.text import uuid_text
from siltstone.journal.journal import Journal
from siltstone.journal.journal_state import EPOCH_END, JournalState, list_epochs, read_journal
from siltstone.journal.pinned_layout import PinnedLayoutStore
from siltstone.journal.pinned_state import empty_layout
from siltstone.metadata.checkpoint import INDEX_POOL

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSource:
    """What a restored container is made from.

    Attributes:
        lineage: of the image.
        epoch: the highest that the image knew.
        table_version: that the index files hold, exactly.
        table_crc: running CRC32C of the table log there.
        index_files: where each lies in the place that they are read from.
        tail: frames with the bytes that are in no chunk.
    """

    lineage: bytes
    epoch: int
    table_version: int
    table_crc: int
    index_files: tuple[IndexFile, ...]
    tail: Sequence[Frame]


def check_log_free(log: FencedLog, lineage: bytes) -> None:
    """Refuse a log that holds anything but what a restore of ``lineage`` began. Blocking.

    Raises:
        LogLostError: it belongs to another container, perhaps the one that was backed up.
    """
    reader = log.open_read()
    try:
        found = reader.lineage()
    finally:
        reader.close()
    if found is not None and found != lineage:
        raise LogLostError("the tier-1 log is in use by another container", found=uuid_text(found))


async def restore_container(
    *,
    container: int,
    lineage: bytes,
    origin: RestoreSource,
    source: ChunkStorage,
    new_log: Callable[[], FencedLog],
    storage: ChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    owner: str,
) -> None:
    """Let a container begin from ``origin``. It may be repeated, and does what is left to do.

    Args:
        container: its index in the store.
        lineage: the new one, the same in each try.
        origin: what it is made from; its chunks are on ``storage`` already.
        source: holds the index files; closed here.
        new_log: gives handles of its tier-1 log; each is closed here.
        storage: long-term storage of the new store; closed here.
        environment: gives time, randomness and threads.
        settings: those of the container.
        owner: what to say about who did it.

    Raises:
        LogLostError: the log belongs to another container; nothing was written.
        CorruptDataError: what the image is made of is damaged.
        ChunkError: ``source`` or ``storage`` failed.
    """
    chunks = bridged(storage, environment, settings)
    read = bridged(source, environment, settings)
    scratch = Path(await environment.run_blocking(INDEX_POOL, partial(mkdtemp, "-siltstone")))
    try:
        await _blocking(environment, new_log, partial(check_log_free, lineage=lineage))
        journal_state = await read_journal(chunks, environment, container, EPOCH_END)
        if journal_state is None or journal_state.checkpoint.lineage != lineage:
            work = _Restoring(container, lineage, chunks, environment, settings, scratch, owner)
            journal_state = await work.write(origin, read)
        begin = partial(_begin, container, journal_state=journal_state, owner=owner)
        await _blocking(environment, new_log, begin)
    finally:
        remove = partial(shutil.rmtree, scratch, ignore_errors=True)
        await environment.run_blocking(INDEX_POOL, remove)
        await read.close()
        await chunks.close()


class _Restoring:
    def __init__(
        self,
        container: int,
        lineage: bytes,
        storage: AsyncChunkStorage,
        environment: Environment,
        settings: ContainerSettings,
        scratch: Path,
        owner: str,
    ) -> None:
        self._container = container
        self._lineage = lineage
        self._storage = storage
        self._environment = environment
        self._settings = settings
        self._scratch = scratch
        self._owner = owner

    async def write(self, origin: RestoreSource, source: AsyncChunkStorage) -> JournalState:
        """Write the checkpoint that makes the container begin; return what it says."""
        storage, environment, container = self._storage, self._environment, self._container
        # A try that died may have left files, and its epoch is not used again.
        epoch = max(origin.epoch, await list_epochs(storage, container)) + 1
        claim = Claim(
            lineage=self._lineage,
            epoch=epoch,
            owner=self._owner,
            claimed_ms=int(environment.time() * 1000),
        )
        await storage.create(claim_file(container, epoch), [encode_claim(claim)])
        journal = Journal(storage, environment, container, epoch, self._lineage)
        pinned = PinnedLayoutStore(journal, (empty_layout(TABLE_LOG_ID),), lambda _: (0, -1))
        boot_state = BootState(
            lineage=origin.lineage,
            journal_state=None,
            table_start=origin.table_version,
            table_end=origin.table_version,
            index_files=origin.index_files,
            index_version=origin.table_version,
            index_crc=origin.table_crc,
        )
        cut = await build_cut(
            boot_state,
            origin.tail,
            segment_storage(storage, pinned, environment, self._settings),
            source,
            environment,
            self._settings,
            self._scratch / "index",
        )
        try:
            await write_beginning(
                container,
                cut,
                journal,
                storage,
                environment,
                self._settings,
                self._scratch,
                self._owner,
            )
        finally:
            await run_whole(environment, INDEX_POOL, cut.index.close)
        journal_state = await read_journal(storage, environment, container, epoch + 1)
        assert journal_state is not None, "its checkpoint is durable"
        return journal_state


def _begin(container: int, log: FencedLog, *, journal_state: JournalState, owner: str) -> None:
    """Begin the log, unless an earlier try or an owner did."""
    reader = log.open_read()
    try:
        begun = reader.end() > 0
    finally:
        reader.close()
    if not begun:
        begin_log(container, log, journal_state, owner)


async def _blocking(
    environment: Environment, new_log: Callable[[], FencedLog], call: Callable[[FencedLog], T]
) -> T:
    """Run ``call`` with a handle of the log of its own."""

    def run() -> T:
        log = new_log()
        try:
            return call(log)
        finally:
            log.close()

    return await environment.run_blocking(LOG_POOL, run)
