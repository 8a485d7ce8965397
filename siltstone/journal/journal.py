"""The system journal of one epoch: its writer, one record at a time.

The rules that a boot relies on, and that only this file keeps:

- One batch or checkpoint is in flight. Its content is composed when its turn comes, so it states
  what is true after everything that was written before it.
- A checkpoint fills a file alone. Once its create was issued no batch goes to an older file.
- A write that was not acknowledged is repeated, the same bytes, in the next file before anything
  else is written: a sequence never has two contents, whatever becomes of the first attempt.
- A file that a doubtful write went to is never written again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from math import inf
from typing import TypeVar

from siltstone.core.chunk_names import journal_file
from siltstone.core.constants import MIB
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkError, LogError
from siltstone.core.records.checkpoint import Checkpoint, SystemLayout, encode_checkpoint
from siltstone.core.records.journal_batch import JournalBatch, encode_journal_batch
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.late_work import finish
from siltstone.journal.retention import DurableCheckpoint, plan_deletion

T = TypeVar("T")

FILE_BYTES_MAX = MIB
"""Batches go to the next file beyond this size: boot reads and verifies a file as a whole."""

ATTEMPTS_MAX = 6
"""Files that one record is tried in before the journal gives up."""

BACKOFF_S = 0.1
"""Pause before the second attempt; it doubles with each further one, and jitter comes on top."""


PATIENCE_S = 600.0
"""How long one record waits for storage that does not answer. The flush that it ends waits too."""

LAST_BATCH_S = 5.0
"""How long the end of an owner waits for its last batch. A healthy service needs less for so small
a batch, and without the batch nothing is lost but a comparison."""


class Journal:
    """The writer of the journal files of one epoch. Every method belongs to one event loop.

    A cancelled write is carried to its end first: what was composed once must become durable, or
    end the journal. After a failure every write raises ``LogError``, and the owner must stop.

    Args:
        storage: where the files go.
        environment: gives time and randomness for the pauses between attempts.
        container: index of the container.
        epoch: of the owner; no other process writes under it.
        lineage: 16 bytes.
        next_file: number of the first file.
        next_sequence: sequence of the first batch.
        file_bytes_max: size beyond which a batch goes to a new file.
    """

    def __init__(
        self,
        storage: AsyncChunkStorage,
        environment: Environment,
        container: int,
        epoch: int,
        lineage: bytes,
        *,
        next_file: int = 1,
        next_sequence: int = 0,
        file_bytes_max: int = FILE_BYTES_MAX,
    ) -> None:
        self._storage = storage
        self._environment = environment
        self._container = container
        self._epoch = epoch
        self._lineage = lineage
        self._next_file = next_file
        self._next_sequence = next_sequence
        self._file_bytes_max = file_bytes_max
        self._lock = asyncio.Lock()
        self._failure: LogError | None = None
        self._in_service = False
        self._file = _OpenFile(name="", length=0, writes=0)
        self._files: list[str] = []
        self._checkpoints: list[DurableCheckpoint] = []
        self._batch_chunks: list[tuple[int, frozenset[str]]] = []
        self._stated_safe_index = 0
        self._stated_newest_index = -1

    @property
    def container(self) -> int:
        """Index of the container."""
        return self._container

    @property
    def epoch(self) -> int:
        """The owner's epoch."""
        return self._epoch

    @property
    def lineage(self) -> bytes:
        """The container's lineage."""
        return self._lineage

    @property
    def next_sequence(self) -> int:
        """Sequence of the batch that is composed next."""
        return self._next_sequence

    @property
    def files(self) -> tuple[str, ...]:
        """Every file whose create was issued in this epoch, acknowledged or not, oldest first."""
        return tuple(self._files)

    @property
    def failure(self) -> LogError | None:
        """The error that ended the journal, else ``None``."""
        return self._failure

    @property
    def checkpoints(self) -> tuple[DurableCheckpoint, ...]:
        """The two newest durable checkpoints of this epoch, oldest first; none before boot."""
        return tuple(self._checkpoints)

    @property
    def stated_safe_index(self) -> int:
        """The newest safe index that a log truncation may rely on: what is durable states it.

        A batch counts at once, a checkpoint only when a later one of this epoch is durable: were
        the newest damaged, a boot would start from the one before.
        """
        return self._stated_safe_index

    @property
    def stated_newest_index(self) -> int:
        """The newest acknowledged log index that a durable record of this epoch states, else -1."""
        return self._stated_newest_index

    async def write_batch(
        self,
        compose: Callable[[int], JournalBatch],
        applied: Callable[[JournalBatch], None] | None = None,
    ) -> JournalBatch:
        """Make one batch durable and return it.

        Args:
            compose: makes the batch from its sequence when its turn comes; what it raises is raised
                here and nothing was written.
            applied: called once the batch is durable, before the next record is composed. It must
                not fail.

        Raises:
            LogError: the batch may or may not be durable, or an earlier record failed. The owner
                must stop.
        """
        async with self._lock:
            self._check_usable()
            assert self._checkpoints, "the first checkpoint of an epoch precedes its batches"
            return await _finished(self._batch(compose, applied))

    async def write_last_batch(self, compose: Callable[[int], JournalBatch]) -> None:
        """Make one batch durable if a single attempt of a few seconds does; nothing follows it.

        Raises:
            ChunkError: the batch may or may not be durable; nothing relies on it.
            LogError: an earlier record failed.
        """
        async with self._lock:
            self._check_usable()
            assert self._checkpoints, "the first checkpoint of an epoch precedes its batches"
            batch = compose(self._next_sequence)
            self._check_composed(batch)
            self._failure = LogError("the last batch was written", sequence=batch.sequence)
            data = encode_journal_batch(batch)
            await _finished(self._attempt(data, alone=False, within_s=LAST_BATCH_S))

    async def write_checkpoint(self, compose: Callable[[int], Checkpoint]) -> str:
        """Make a checkpoint durable, alone in a file, and return the file's name.

        ``compose`` makes it from the sequence of the next batch when its turn comes. Raises like
        ``write_batch``.
        """
        async with self._lock:
            self._check_usable()
            return await _finished(self._checkpoint(compose, copies=1))

    async def write_first_checkpoint(self, compose: Callable[[int], Checkpoint]) -> str:
        """Make the epoch's first checkpoint durable in two files; return the second one's name.

        Were it in one file, damage to that would leave the epoch without a beginning.
        """
        async with self._lock:
            self._check_usable()
            assert not self._checkpoints, "there is one first checkpoint"
            return await _finished(self._checkpoint(compose, copies=2))

    def deletable(
        self,
        listing: Iterable[str],
        pinned: Iterable[SystemLayout],
        in_progress: Collection[str],
        *,
        pinned_version: int | None = None,
    ) -> list[str]:
        """Return the system files in ``listing`` that nothing needs; see ``plan_deletion``.

        Args:
            listing: names of system files, listed before this call.
            pinned: ``PinnedLayoutStore.snapshot()``.
            in_progress: ``PinnedLayoutStore.uncommitted`` and the index files of any checkpoint
                that is not durable yet, from before their upload on.
            pinned_version: the oldest table version that an unexpired pin promises.
        """
        passed = [name for _, names in self._batch_chunks for name in names]
        return plan_deletion(
            listing,
            self._checkpoints,
            pinned,
            {*in_progress, *passed},
            container=self._container,
            pinned_version=pinned_version,
        )

    async def _batch(
        self,
        compose: Callable[[int], JournalBatch],
        applied: Callable[[JournalBatch], None] | None,
    ) -> JournalBatch:
        batch = compose(self._next_sequence)
        self._check_composed(batch)
        number = await self._put(encode_journal_batch(batch), alone=False)
        self._next_sequence += 1
        change = batch.change
        names = {chunk.name for chunk in (*change.chunks_put, *change.chunks_dropped)}
        self._batch_chunks.append((number, frozenset(names)))
        self._stated_safe_index = max(self._stated_safe_index, batch.safe_index)
        self._stated_newest_index = max(self._stated_newest_index, batch.newest_index)
        if applied is not None:
            applied(batch)
        return batch

    async def _checkpoint(self, compose: Callable[[int], Checkpoint], *, copies: int) -> str:
        checkpoint = compose(self._next_sequence)
        self._check_composed(checkpoint)
        data = encode_checkpoint(checkpoint)
        for _ in range(copies):
            number = await self._put(data, alone=True)
            self._add_durable(number, checkpoint)
        return self._checkpoints[-1].file_name

    def _add_durable(self, number: int, checkpoint: Checkpoint) -> None:
        if self._checkpoints:
            stated = self._checkpoints[-1].checkpoint.safe_index
            self._stated_safe_index = max(self._stated_safe_index, stated)
        self._stated_newest_index = max(self._stated_newest_index, checkpoint.newest_index)
        name = journal_file(self._container, self._epoch, number)
        durable = DurableCheckpoint(number=number, file_name=name, checkpoint=checkpoint)
        self._checkpoints = [*self._checkpoints[-1:], durable]
        oldest = self._checkpoints[0].number
        self._batch_chunks = [row for row in self._batch_chunks if row[0] > oldest]

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise LogError("journal has failed", cause=self._failure) from self._failure

    def _check_composed(self, record: JournalBatch | Checkpoint) -> None:
        assert record.lineage == self._lineage, "composed for another lineage"
        assert record.epoch == self._epoch, "composed for another epoch"
        assert record.sequence == self._next_sequence, "composed for another sequence"

    async def _put(self, data: bytes, *, alone: bool) -> int:
        """Make ``data`` durable; return the number of the file that has it."""
        try:
            return await self._repeat(data, alone=alone)
        except BaseException as error:
            # Whatever it was, bytes of this sequence may lie in a file, so no others may follow.
            failed = LogError("journal write failed", cause=repr(error))
            self._failure = failed
            if isinstance(error, Exception):
                raise failed from error
            raise

    async def _repeat(self, data: bytes, *, alone: bool) -> int:
        for attempt in range(1, ATTEMPTS_MAX):
            await self._answering()
            try:
                await self._attempt(data, alone=alone)
            except ChunkError:
                self._file.usable = False
                await self._pause(attempt)
            else:
                return self._next_file - 1
        await self._answering()
        await self._attempt(data, alone=alone)
        return self._next_file - 1

    def begin_service(self) -> None:
        """The owner is open, so no caller waits for one record.

        From now on, before a record is sent to a storage that does not answer, wait for it, up to
        ten minutes.
        """
        self._in_service = True

    def end_service(self) -> None:
        """The owner closes: wait no longer."""
        self._in_service = False

    async def _answering(self) -> None:
        """Wait while storage is not known to answer: it should not be asked by an attempt."""
        waited_s = 0.0
        while self._in_service and self._storage.silent and waited_s < PATIENCE_S:
            await self._environment.sleep(BACKOFF_S)
            waited_s += BACKOFF_S

    async def _pause(self, attempt: int) -> None:
        seconds = BACKOFF_S * 2 ** (attempt - 1)
        await self._environment.sleep(seconds * (1 + self._environment.random() / 2))

    async def _attempt(self, data: bytes, *, alone: bool, within_s: float = inf) -> None:
        file = self._file
        if not alone and self._takes(file, len(data)):
            file.writes += 1
            await self._storage.write(file.name, file.length, [data], within_s=within_s)
            file.length += len(data)
            return
        name = journal_file(self._container, self._epoch, self._next_file)
        # The number is used up and the older file is closed before the call, whatever it brings.
        self._next_file += 1
        self._files.append(name)
        self._file = _OpenFile(name=name, length=len(data), writes=1)
        self._file.usable = False
        await self._storage.create(name, [data], within_s=within_s)
        self._file.usable = not alone

    def _takes(self, file: _OpenFile, length: int) -> bool:
        capabilities = self._storage.capabilities
        return (
            capabilities.append
            and file.usable
            and file.writes < capabilities.appends_max
            and file.length + length <= min(self._file_bytes_max, capabilities.chunk_bytes_max)
        )


class _OpenFile:
    """The newest journal file; only while it is usable may a batch be appended to it."""

    __slots__ = ("length", "name", "usable", "writes")

    def __init__(self, *, name: str, length: int, writes: int) -> None:
        self.name = name
        self.length = length
        self.writes = writes
        self.usable = False


async def _finished(work: Coroutine[None, None, T]) -> T:
    """Carry ``work`` to its end although the caller is cancelled meanwhile."""
    return await finish(asyncio.ensure_future(work))
