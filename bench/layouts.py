"""Segments of very many chunks: to locate one, to end many, to join segments by rows alone.

Long-term storage and tier 1 are in memory here, and the rows of segments of many chunks are made
without them: only the layer and its index are measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random

from bench.figure import MICROSECONDS, Figure, alternate, bounded
from bench.workshop import Loop, Workshop, distinct, seconds_of
from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.container.container import Container
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.owner_boot import open_container
from siltstone.core.chunk_names import data_chunk
from siltstone.core.constants import BLOCK_BYTES, MIB
from siltstone.core.environment import SystemEnvironment
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.table_record import TableEntry
from siltstone.core.storage.block_sums import patches
from siltstone.metadata import changes
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from siltstone.tier1.memory.shared_log import SharedLog

CHUNK_BYTES = MIB
CHUNK_ID_MIN = 1 << 40
CHUNKS_PER_UPDATE = 500
LOCATE_US = 50.0
LOOKS = 2_000
SOURCE_BYTES = MIB + 1
"""A source that is not larger is appended again."""

NEVER_S = 1e6

_numbers = count()


def run(workshop: Workshop) -> list[Figure]:
    """Locate, truncate, delete, join."""
    with workshop.place() as place, Loop() as loop, _opened(loop, place / "index") as container:
        return [
            _locate(workshop, loop, container),
            _ending(workshop, loop, container, "truncate"),
            _ending(workshop, loop, container, "delete"),
            _concat(workshop, loop, container),
        ]


@contextmanager
def _opened(loop: Loop, folder: Path) -> Iterator[Container]:
    environment = SystemEnvironment()
    container = loop(
        open_container(
            container=0,
            log=MemoryFencedLog("bench", 0, shared=SharedLog()),
            storage=MemoryChunkStorage(Bucket()),
            environment=environment,
            settings=ContainerSettings(
                flush_age_s=NEVER_S,
                optimiser_interval_s=NEVER_S,
                garbage_interval_s=NEVER_S,
                garbage_delay_s=0.0,
            ),
            index_folder=folder,
            owner="bench",
            takeover=False,
        )
    )
    try:
        yield container
    finally:
        loop(container.close())
        environment.close()


def _segment(loop: Loop, container: Container, length: int, step: int) -> str:
    """Make a segment, flushed every ``step`` bytes; return its name."""
    name = f"segment-{next(_numbers)}"
    make = distinct(step)

    async def fill() -> None:
        await container.create(name)
        for offset in range(0, length, step):
            await container.append(name, make(offset)[: length - offset])
            await container.flush(name)

    loop(fill())
    return name


def _chunks(loop: Loop, container: Container, chunks: int) -> str:
    """Make the rows of a segment of this many chunks of 1 MiB; return its name."""
    name = f"segment-{next(_numbers)}"
    parts = container._parts

    async def fill() -> None:
        await container.create(name)
        segment_id = parts.reading.segment(name).segment_id
        for first in range(0, chunks, CHUNKS_PER_UPDATE):
            numbers = range(first, min(first + CHUNKS_PER_UPDATE, chunks))
            entries = [entry for number in numbers for entry in _rows(segment_id, number)]
            length = (numbers[-1] + 1) * CHUNK_BYTES
            layout = Layout(segment_id=segment_id, storage_length=length)
            await parts.pipeline.update([changes.put_layout(layout), *entries])

    loop(fill())
    return name


def _rows(segment_id: int, number: int) -> list[TableEntry]:
    chunk_id = CHUNK_ID_MIN + next(_numbers)
    start = number * CHUNK_BYTES
    extent = Extent(
        segment_id=segment_id, start=start, chunk_id=chunk_id, chunk_offset=0, length=CHUNK_BYTES
    )
    name = data_chunk(0, 1, f"segment-{segment_id}", start, chunk_id)
    chunk = Chunk(chunk_id=chunk_id, name=name, epoch=1, length=CHUNK_BYTES, closed=True)
    sums = patches(chunk_id, 0, [0] * (CHUNK_BYTES // BLOCK_BYTES))
    return [
        changes.put_extent(extent),
        changes.put_chunk(chunk),
        *(changes.put_sums(patch) for patch in sums),
    ]


def _locate(workshop: Workshop, loop: Loop, container: Container) -> Figure:
    """Look up which chunk holds an offset, as a read does: its extent, and its row."""
    chunks = workshop.pick(100_000, 2_000)
    name = _chunks(loop, container, chunks)
    rows = container._parts.pipeline.replica.rows
    segment_id = container._parts.reading.segment(name).segment_id
    chance = Random(1)

    def look() -> None:
        for _ in range(LOOKS):
            offset = chance.randrange(chunks * CHUNK_BYTES)
            (found,) = rows.extents(segment_id, offset, offset + 1, 1)
            chunk = rows.chunk(found.chunk_id)
            if chunk is None or found.start != offset - offset % CHUNK_BYTES:
                raise AssertionError(f"{offset} is not in {found}")

    look()
    (ours,) = alternate(workshop.rounds, lambda: seconds_of(look) * 1e6 / LOOKS)
    return bounded(f"locate one of {chunks:,} chunks, warm", MICROSECONDS, ours, LOCATE_US)


def _ending(workshop: Workshop, loop: Loop, container: Container, verb: str) -> Figure:
    """End many chunks: the cost of one chunk, among many and among few."""
    many, few = workshop.pick(10_000, 500), workshop.pick(1_000, 50)

    def end(chunks: int) -> float:
        name = _chunks(loop, container, chunks)
        # Earlier garbage must not interfere.
        loop(container.flush())
        loop(container.collect())

        async def carry_out() -> None:
            if verb == "truncate":
                await container.truncate(name, chunks * CHUNK_BYTES)
            else:
                await container.delete(name)
            await container.collect()

        return seconds_of(lambda: loop(carry_out())) * 1e6 / chunks

    ours, theirs = alternate(workshop.rounds, lambda: end(many), lambda: end(few))
    return Figure(
        what=f"{verb} {many:,} chunks, each",
        peer=f"of {few:,} chunks",
        unit=MICROSECONDS,
        ours=ours,
        theirs=theirs,
        goal=0.5,
    )


def _concat(workshop: Workshop, loop: Loop, container: Container) -> Figure:
    """Join sources whose bytes stay where they are, against bytes that are written again."""
    sources = workshop.pick(1_000, 15) // workshop.rounds

    def join() -> float:
        target = _segment(loop, container, 1, 1)
        names = [_segment(loop, container, SOURCE_BYTES, SOURCE_BYTES) for _ in range(sources)]

        async def carry_out() -> None:
            for name in names:
                await container.seal(name)
                await container.concat(target, name)

        microseconds = seconds_of(lambda: loop(carry_out())) * 1e6 / sources
        loop(container.delete(target))
        return microseconds

    def write() -> float:
        return (
            seconds_of(lambda: _segment(loop, container, sources * SOURCE_BYTES, SOURCE_BYTES))
            * 1e6
            / sources
        )

    ours, theirs = alternate(workshop.rounds, join, write)
    return Figure(
        what=f"seal and concat {sources:,} sources of 1 MiB, each",
        peer="append and flush 1 MiB",
        unit=MICROSECONDS,
        ours=ours,
        theirs=theirs,
        goal=1,
    )
