"""A small world for the journal: a bucket that fails on demand, an owner, and what it was told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

from siltstone.core.chunk_names import index_file
from siltstone.core.chunk_storage import Buffer, Capabilities, ChunkStat
from siltstone.core.constants import BLOCK_BYTES, GROUP_BLOCKS, TABLE_LOG_ID
from siltstone.core.environment import Pool
from siltstone.core.errors import (
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkOffsetError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.layout_store import LayoutChange
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.checkpoint import Checkpoint, IndexFile
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.journal.journal import Journal
from siltstone.journal.journal_state import JournalState, read_journal
from siltstone.journal.pinned_layout import PinnedLayoutStore
from siltstone.journal.pinned_state import Pinned, apply_change

T = TypeVar("T")

CONTAINER = 3
LINEAGE = bytes(range(16))


class Fate(Enum):
    """What becomes of one mutation."""

    DONE = "done"
    LOST_REPLY = "applied, reported unknown"
    LOST_CALL = "not applied, reported unknown"
    REFUSED = "not applied, reported so"
    TORN = "applied in part, reported unknown"
    LATE = "reported unknown, applied later"


@dataclass
class Bucket:
    """The service, which outlives its clients."""

    chunks: dict[str, bytearray] = field(default_factory=dict)
    late: list[Callable[[], None]] = field(default_factory=list)

    def deliver_late(self) -> None:
        """Let the delayed calls have their effect, if they still can."""
        late, self.late = self.late, []
        for call in late:
            call()

    def copy(self) -> Bucket:
        return Bucket({name: bytearray(content) for name, content in self.chunks.items()})


class Client:
    """A ``ChunkStorage`` whose mutations meet the fates that ``fates`` yields; then ``DONE``."""

    def __init__(
        self,
        bucket: Bucket,
        *,
        append: bool = True,
        fates: Iterator[Fate] | None = None,
        appends_max: int = 2**63 - 1,
    ) -> None:
        self.bucket = bucket
        self.capabilities = Capabilities(append=append, appends_max=appends_max)
        self.fates = fates or iter(())
        self.dead = False
        self.mutations: list[tuple[str, str]] = []
        self.pages: list[int] = []

    def _mutate(self, operation: str, name: str, apply: Callable[[float], None]) -> None:
        if self.dead:
            raise ChunkUnavailableError("dead", chunk=name, operation=operation)
        self.mutations.append((operation, name))
        fate = next(self.fates, Fate.DONE)
        if fate in (Fate.DONE, Fate.LOST_REPLY):
            apply(1.0)
        elif fate is Fate.TORN:
            apply(0.6)
        elif fate is Fate.LATE:
            self.bucket.late.append(lambda: self._quietly(apply))
        if fate is not Fate.DONE:
            outcome = Outcome.NOT_APPLIED if fate is Fate.REFUSED else Outcome.UNKNOWN
            raise ChunkUnavailableError(
                fate.value, chunk=name, operation=operation, outcome=outcome
            )

    @staticmethod
    def _quietly(apply: Callable[[float], None]) -> None:
        try:
            apply(1.0)
        except (ChunkExistsError, ChunkOffsetError, ChunkNotFoundError):
            return

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        assert data, "a chunk has at least one byte"

        def apply(part: float) -> None:
            if name in self.bucket.chunks:
                raise ChunkExistsError("exists", chunk=name, operation="create")
            self.bucket.chunks[name] = bytearray(data[: int(len(data) * part)])

        self._mutate("create", name, apply)

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        assert self.capabilities.append, "must not append here"
        data = b"".join(buffers)

        def apply(part: float) -> None:
            content = self._content(name, "write")
            if len(content) != offset:
                raise ChunkOffsetError(
                    chunk=name, operation="write", expected=len(content), actual=offset
                )
            content += data[: int(len(data) * part)]

        self._mutate("write", name, apply)

    def delete(self, name: str) -> None:
        def apply(part: float) -> None:
            self._content(name, "delete")
            del self.bucket.chunks[name]

        self._mutate("delete", name, apply)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        data = self._content(name, "read_into")[offset : offset + len(buffer)]
        memoryview(buffer)[: len(data)] = data
        return len(data)

    def stat(self, name: str) -> ChunkStat:
        return ChunkStat(name=name, length=len(self._content(name, "stat")), version="")

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        for name in sorted(self.bucket.chunks):
            if name.startswith(prefix) and name > start_after:
                yield self.stat(name)

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        raise NotImplementedError

    def seal(self, name: str) -> None:
        raise NotImplementedError

    def used_space(self) -> int:
        raise NotImplementedError

    def free_space(self) -> int:
        raise NotImplementedError

    def close(self) -> None:
        self.dead = True

    def _content(self, name: str, operation: str) -> bytearray:
        if name not in self.bucket.chunks:
            raise ChunkNotFoundError("not found", chunk=name, operation=operation)
        return self.bucket.chunks[name]


class Stage:
    """An ``Environment`` without threads and waiting, which pauses one call, before or after it."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.calls = 0
        self.pause_at: int | None = None
        self.pause_after = False
        self.paused = asyncio.Event()
        self.resume = asyncio.Event()

    def time(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def pause(self, seconds: float) -> None:
        raise AssertionError("nothing here waits on a thread")

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)

    def uuid(self) -> bytes:
        return bytes(16)

    def random(self) -> float:
        return 0.5

    async def run_blocking(self, pool: Pool, call: Callable[[], T]) -> T:
        number = self.calls
        self.calls += 1
        await asyncio.sleep(0)
        pauses = number == self.pause_at
        if pauses and not self.pause_after:
            await self._pause()
        result = call()
        if pauses and self.pause_after:
            await self._pause()
        return result

    async def _pause(self) -> None:
        self.paused.set()
        await self.resume.wait()

    def close(self) -> None:
        return


@dataclass
class Owner:
    """One epoch: its journal and layouts, and what was issued and acknowledged."""

    storage: AsyncChunkStorage
    stage: Stage
    client: Client
    journal: Journal
    store: PinnedLayoutStore
    states: list[Pinned] = field(default_factory=list)
    """The layouts after 0, 1, 2, … batches, as far as they were issued."""
    acknowledged: int = 0
    issued: int = 0
    log_index: int = 0
    uploaded: set[str] = field(default_factory=set)
    """Index files of checkpoints that are not durable yet."""

    def statement(self) -> tuple[int, int]:
        self.log_index += 7
        return self.log_index - 5, self.log_index

    def checkpoint(self, sequence: int) -> Checkpoint:
        safe_index, newest_index = self.statement()
        index_name = index_file(CONTAINER, self.journal.epoch, 1, 77, f"n{newest_index}")
        self.client.bucket.chunks[index_name] = bytearray(1)
        self.uploaded.add(index_name)
        return Checkpoint(
            lineage=self.journal.lineage,
            epoch=self.journal.epoch,
            sequence=sequence,
            system=self.store.snapshot(),
            index_files=(
                IndexFile(file_name="000012.sst", chunk_name=index_name, length=77, crc=1),
            ),
            index_version=self.store.layout(TABLE_LOG_ID).storage_length,
            index_crc=17,
            replay_index=newest_index,
            safe_index=safe_index,
            newest_index=newest_index,
        )

    async def begin(self) -> None:
        self.states.append(self.store.snapshot())
        await self.journal.write_first_checkpoint(self.checkpoint)
        self.uploaded.clear()

    async def flush(self, length: int) -> None:
        """Put ``length`` more bytes of the table log into a chunk."""
        change = await flush_change(self.store, self.client, length)
        for chunk in change.chunks_put:
            self.client.bucket.chunks.setdefault(chunk.name, bytearray(1))
        await self.commit(change)

    async def trim(self) -> None:
        """Drop all chunks but the last."""
        change = trim_change(self.store)
        if change is not None:
            await self.commit(change)

    async def commit(self, change: LayoutChange) -> None:
        self.issued += 1
        self.states.append(apply_change(self.store.snapshot(), change))
        await self.store.commit(change)
        self.acknowledged = self.issued

    async def write_checkpoint(self) -> None:
        await self.journal.write_checkpoint(self.checkpoint)
        self.uploaded.clear()

    def collect(self) -> list[str]:
        """Delete what nothing needs any more, at the service itself."""
        bucket = self.client.bucket
        in_progress = self.store.uncommitted | self.uploaded
        names = self.journal.deletable(sorted(bucket.chunks), self.store.snapshot(), in_progress)
        for name in names:
            del bucket.chunks[name]
        return names


def make_owner(
    client: Client,
    *,
    epoch: int = 1,
    journal_state: JournalState | None = None,
    stage: Stage | None = None,
    file_bytes_max: int = 2_000,
) -> Owner:
    """Return an owner whose journal has no file yet."""
    stage = stage or Stage()
    storage = AsyncChunkStorage(client, stage)
    journal = Journal(storage, stage, CONTAINER, epoch, LINEAGE, file_bytes_max=file_bytes_max)
    owners: list[Owner] = []
    store = PinnedLayoutStore(
        journal, journal_state.layouts if journal_state else (), lambda _: owners[0].statement()
    )
    owner = Owner(storage, stage, client, journal, store)
    if journal_state:
        owner.log_index = journal_state.newest_index + 10
    owners.append(owner)
    return owner


async def read_journal_of(
    bucket: Bucket, below_epoch: int = 2, *, page: int = 1_000, stage: Stage | None = None
) -> JournalState | None:
    stage = stage or Stage()
    storage = AsyncChunkStorage(Client(bucket), stage)
    return await read_journal(storage, stage, CONTAINER, below_epoch, page=page)


def check_journal_state(owner: Owner, journal_state: JournalState | None) -> int:
    """Check that the state that was read is one between acknowledged and issued; return which."""
    assert journal_state is not None
    assert journal_state.epoch == owner.journal.epoch
    reached = journal_state.next_sequence
    assert owner.acknowledged <= reached <= owner.issued
    assert journal_state.layouts == owner.states[reached]
    assert owner.journal.stated_safe_index <= journal_state.safe_index <= journal_state.newest_index
    assert journal_state.newest_index <= owner.log_index
    for system in journal_state.layouts:
        assert {chunk.name for chunk in system.chunks} <= owner.client.bucket.chunks.keys()
    named = {file.chunk_name for file in journal_state.checkpoint.index_files}
    assert named <= owner.client.bucket.chunks.keys()
    return reached


async def flush_change(store: PinnedLayoutStore, client: Client, length: int) -> LayoutChange:
    """Plan a flush of ``length`` bytes, to the last chunk where that may be."""
    before = store.layout(TABLE_LOG_ID)
    start = before.storage_length
    last = store.chunk(before.last_chunk_id)
    extent = store.floor(TABLE_LOG_ID, start)
    may_append = client.capabilities.append and last is not None and last.epoch == store.epoch
    if last and extent and may_append and last.length < 3 * BLOCK_BYTES:
        grown = replace(last, length=last.length + length)
        return LayoutChange(
            segment_id=TABLE_LOG_ID,
            before=before,
            after=replace(before, storage_length=start + length),
            extents_put=(replace(extent, length=extent.length + length),),
            chunks_put=(grown,),
            sums=sums_from(grown, last.length),
        )
    new = await store.new_chunk(TABLE_LOG_ID, start)
    chunk = Chunk(chunk_id=new.chunk_id, name=new.name, epoch=store.epoch, length=length)
    return LayoutChange(
        segment_id=TABLE_LOG_ID,
        before=before,
        after=replace(before, storage_length=start + length, last_chunk_id=new.chunk_id),
        extents_put=(
            Extent(
                segment_id=TABLE_LOG_ID,
                start=start,
                chunk_id=new.chunk_id,
                chunk_offset=0,
                length=length,
            ),
        ),
        chunks_put=(chunk,),
        sums=sums_from(chunk, 0),
    )


def sums_from(chunk: Chunk, old_length: int) -> tuple[BlockSumsPatch, ...]:
    """Sums of the blocks that a chunk has again, having grown from ``old_length``."""
    first, end = old_length // BLOCK_BYTES, -(-chunk.length // BLOCK_BYTES)
    assert end <= GROUP_BLOCKS, "tests stay within one group"
    if first == end:
        return ()
    sums = tuple((chunk.chunk_id * 31 + chunk.length + n) % 2**32 for n in range(first, end))
    return (BlockSumsPatch(chunk_id=chunk.chunk_id, group=0, first_block=first, sums=sums),)


def trim_change(store: PinnedLayoutStore) -> LayoutChange | None:
    """Plan to drop every extent that is not in the last chunk; ``None`` when there is none."""
    before = store.layout(TABLE_LOG_ID)
    extents = store.extents(TABLE_LOG_ID, 0, before.storage_length, 1_000)
    removed = [extent for extent in extents if extent.chunk_id != before.last_chunk_id]
    if not removed:
        return None
    dropped = [store.chunk(extent.chunk_id) for extent in removed]
    return LayoutChange(
        segment_id=TABLE_LOG_ID,
        before=before,
        after=replace(before, storage_start=removed[-1].end),
        extents_removed=tuple(removed),
        chunks_dropped=tuple(chunk for chunk in dropped if chunk),
    )
