"""A segment layer over memory, on a storage that fails as it is told, and short cuts to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, TypeVar

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import Buffer, Capabilities, ChunkStat
from siltstone.core.environment import Environment, Pool
from siltstone.core.errors import ChunkUnavailableError, Outcome
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.segments.concat_staging import Joining
from siltstone.segments.invariants import check_chunk
from siltstone.segments.packing_segment_storage import PackingSegmentStorage
from siltstone.segments.rewrite_plan import MergeRules
from siltstone.segments.segment_storage import SegmentStorageSettings
from tests.support.oracles.memory_layout_store import MemoryLayoutStore, check_rows

T = TypeVar("T")


class InlineEnvironment:
    """An environment whose threads are the caller's own and whose clock does not advance."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def pause(self, seconds: float) -> None:
        raise AssertionError("nothing here waits on a thread")

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)

    def uuid(self) -> bytes:
        return bytes(16)

    def random(self) -> float:
        return 0.5

    async def run_blocking(self, pool: Pool, call: Callable[[], T]) -> T:
        return call()

    def close(self) -> None:
        pass


class Fault(Enum):
    """How a call fails. Each mutation has these outcomes besides success."""

    REFUSED = auto()
    """Not applied, and reported so."""
    LOST = auto()
    """Not applied; the outcome is unknown."""
    UNREPORTED = auto()
    """Applied; the outcome is unknown."""
    PARTIAL = auto()
    """Half applied; the outcome is unknown."""
    LATE = auto()
    """Applied after the next call of any kind; the outcome is unknown."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call that reached the storage."""

    verb: str
    name: str
    offset: int
    length: int


class FailingStorage:
    """Counts calls and lets each fail as ``decide`` says; what is late comes with the next call."""

    def __init__(self, inner: MemoryChunkStorage) -> None:
        self.inner = inner
        self.calls: list[Call] = []
        self.decide: Callable[[Call], Fault | None] = lambda _: None
        self._late: list[Callable[[], None]] = []

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.inner.capabilities, whole=False)

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        half = _half(buffers)
        self._mutate(
            "create",
            name,
            0,
            buffers,
            lambda: self.inner.create(name, buffers),
            lambda: self.inner.create(name, half),
        )

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        kept, half = [bytes(buffer) for buffer in buffers], _half(buffers)
        self._mutate(
            "write",
            name,
            offset,
            buffers,
            lambda: self.inner.write(name, offset, kept),
            lambda: self.inner.write(name, offset, half),
        )

    def _mutate(
        self,
        verb: str,
        name: str,
        offset: int,
        buffers: Sequence[Buffer],
        apply: Callable[[], None],
        apply_half: Callable[[], None],
    ) -> None:
        self._settle_late()
        call = Call(verb, name, offset, sum(map(len, buffers)))
        self.calls.append(call)
        fault = self.decide(call)
        if fault is Fault.LATE:
            self._late.append(apply)
        if fault in (None, Fault.UNREPORTED):
            apply()
        if fault is Fault.PARTIAL:
            apply_half()
        if fault is not None:
            outcome = Outcome.NOT_APPLIED if fault is Fault.REFUSED else Outcome.UNKNOWN
            raise ChunkUnavailableError("no answer", chunk=name, operation=verb, outcome=outcome)

    def _settle_late(self) -> None:
        late, self._late = self._late, []
        for apply in late:
            apply()

    def _note(self, verb: str, name: str, offset: int = 0, length: int = 0) -> None:
        self._settle_late()
        call = Call(verb, name, offset, length)
        self.calls.append(call)
        if self.decide(call) is not None:
            raise ChunkUnavailableError("no answer", chunk=name, operation=verb)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        self._note("read_into", name, offset, len(buffer))
        return self.inner.read_into(name, offset, buffer)

    def stat(self, name: str) -> ChunkStat:
        self._note("stat", name)
        return self.inner.stat(name)

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        return self.inner.list(prefix, start_after)

    def delete(self, name: str) -> None:
        self._note("delete", name)
        self.inner.delete(name)

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        self._settle_late()
        call = Call("concat", target, 0, sum(length for _, length in sources))
        self.calls.append(call)
        fault = self.decide(call)
        if fault is Fault.LATE:
            self._late.append(lambda: self.inner.concat(target, sources))
        if fault in (None, Fault.UNREPORTED, Fault.PARTIAL):
            self.inner.concat(target, sources)
        if fault is not None:
            outcome = Outcome.NOT_APPLIED if fault is Fault.REFUSED else Outcome.UNKNOWN
            raise ChunkUnavailableError(
                "no answer", chunk=target, operation="concat", outcome=outcome
            )

    def seal(self, name: str) -> None:
        self._note("seal", name)
        self.inner.seal(name)

    def used_space(self) -> int:
        return self.inner.used_space()

    def free_space(self) -> int:
        return self.inner.free_space()

    def close(self) -> None:
        self.inner.close()


def _half(buffers: Sequence[Buffer]) -> list[Buffer]:
    data = b"".join(buffers)
    return [data[: -(-len(data) // 2)]]


class World:
    """A segment layer and what it stands on."""

    def __init__(
        self,
        profile: Profile | None = None,
        *,
        bucket: Bucket | None = None,
        layouts: MemoryLayoutStore | None = None,
        environment: Environment | None = None,
        settings: SegmentStorageSettings | None = None,
    ) -> None:
        self.profile = profile
        self.bucket = bucket or Bucket()
        self.storage = FailingStorage(MemoryChunkStorage(self.bucket, profile))
        self.layouts = layouts or MemoryLayoutStore()
        self.environment: Environment = environment or InlineEnvironment()
        self.settings = settings or SegmentStorageSettings()
        self.segments = PackingSegmentStorage(
            AsyncChunkStorage(self.storage, self.environment),
            self.layouts,
            self.environment,
            self.settings,
        )

    @property
    def calls(self) -> list[Call]:
        return self.storage.calls

    def content(self, name: str) -> bytearray:
        """The physical bytes of a chunk, to be looked at and damaged."""
        return self.bucket.chunks[name.encode()].content

    def chunk_lengths(self, segment_id: int = 1) -> list[int]:
        return [entry.extent.length for entry in self.segments.chunks(segment_id)]

    async def read(self, segment_id: int, offset: int, length: int) -> bytes:
        buffer = bytearray(length)
        count = await self.segments.read_into(segment_id, offset, memoryview(buffer))
        return bytes(buffer[:count])

    def joining(self, offset: int, target_id: int = 1, source_id: int = 2) -> Joining:
        """A concat of the source's readable bytes after ``offset`` bytes of the target."""
        return Joining(
            target_id=target_id,
            source_id=source_id,
            offset=offset,
            start=self.layouts.states[source_id].start_offset,
        )

    def check(self) -> None:
        """Check every invariant of rows and chunks from outside the segment layer."""
        rows = self.layouts.rows
        check_rows(rows)
        for chunk in rows.chunks.values():
            content = self.content(chunk.name)
            check_chunk(chunk, ChunkStat(name=chunk.name, length=len(content), version=""))
        for segment_id in rows.extents:
            for entry in self.segments.chunks(segment_id):
                whole = bytes(self.content(entry.chunk.name)[: entry.chunk.length])
                assert entry.crc == crc32c(whole)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def small(chunk_bytes: int) -> SegmentStorageSettings:
    return SegmentStorageSettings(chunk_bytes=chunk_bytes)


def data(length: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(length)


async def write_pieces(world: World, pieces: Sequence[int]) -> bytes:
    """Write one segment in pieces; return what it then holds."""
    world.layouts.add(1)
    whole = data(sum(pieces))
    offset = 0
    for length in pieces:
        offset = await world.segments.write(1, offset, [whole[offset : offset + length]])
    world.check()
    assert await world.read(1, 0, len(whole) + 1) == whole
    return whole


async def write_chunks(world: World, segment_id: int, lengths: Sequence[int]) -> bytes:
    """Write a segment whose chunks have these lengths, none of them open; return its bytes."""
    if segment_id not in world.layouts.states:
        world.layouts.add(segment_id)
    offset = world.layouts.layout(segment_id).storage_length
    whole = data(sum(lengths), 100 * segment_id + offset)
    position = 0
    for length in lengths:
        part = whole[position : position + length]
        await world.segments.write(segment_id, offset + position, [part])
        await world.segments.close_chunk(segment_id)
        position += length
    return whole


async def merge(world: World, segment_id: int, rules: MergeRules) -> int:
    """Carry out what ``rules`` find worth it in a segment; return how many chunks were made."""
    extents = world.layouts.extents(segment_id, 0, 2**63, 10_000)
    plan = world.segments.plan_merges(segment_id, extents, rules)
    return sum([await world.segments.rewrite(rewrite) for rewrite in plan.rewrites])


async def two_segments(world: World, target: int, source: int) -> bytes:
    for segment_id, length in ((1, target), (2, source)):
        world.layouts.add(segment_id)
        if length:
            await world.segments.write(segment_id, 0, [data(length, segment_id)])
    world.layouts.change(2, sealed_length=source)
    return data(target, 1) + data(source, 2)
