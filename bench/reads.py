"""Reads of flushed bytes; peers read the same files, which are in the page cache for both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import BinaryIO

from crc32c import crc32c

import siltstone
from bench.figure import MIB_PER_SECOND, PER_SECOND, Figure, alternate
from bench.flush_child import append
from bench.workshop import Loop, Workshop, async_store, seconds_of
from siltstone import ChunkInfo
from siltstone.store.blocking.segment import READ_BUFFER_BYTES

MIB = 2**20
READ_BYTES = 8 * MIB
PIECE_BYTES = 2**16
SMALL_BYTES = (100, 2**16)
BLOCK_BYTES = 256 * 1024
"""Bytes with one checksum, so a small read that verifies reads as much."""

SEQUENTIAL_GOAL = 0.7
VERIFIED_GOAL = 0.9
REMEMBERED_GOALS = {2**16: 0.5}
"""By size; with fewer bytes, most is Python's own work."""


def run(workshop: Workshop) -> list[Figure]:
    """Measure sequential and random reads of one segment."""
    count = workshop.pick(1024, 24)
    with workshop.place() as place:
        file = workshop.store(place)
        append(file, count)
        with siltstone.open(file) as store:
            chunks = list(store.segment("large").chunks())
        folder = file.parent / "chunks"
        sequential = _sequential(workshop, file, [folder / chunk.chunk for chunk in chunks], count)
        figures = [*sequential, _file(workshop, file, [folder / chunk.chunk for chunk in chunks])]
        for size in SMALL_BYTES:
            figures += _random(workshop, file, folder, chunks, size)
        return figures


def _sequential(workshop: Workshop, file: Path, paths: Sequence[Path], count: int) -> list[Figure]:
    buffer = memoryview(bytearray(READ_BYTES))

    def readinto() -> None:
        for path in paths:
            with path.open("rb", buffering=0) as opened:
                while opened.readinto(buffer):
                    pass

    def verified() -> None:
        for path in paths:
            with path.open("rb", buffering=0) as opened:
                while read := opened.readinto(buffer):
                    for start in range(0, read, BLOCK_BYTES):
                        crc32c(buffer[start : min(read, start + BLOCK_BYTES)])

    with siltstone.open(file) as store:
        segment = store.segment("large")

        def read_into() -> None:
            offset = 0
            while read := segment.read_into(offset, buffer):
                offset += read

        ours, theirs, plain = alternate(
            workshop.rounds,
            lambda: count / seconds_of(read_into),
            lambda: count / seconds_of(verified),
            lambda: count / seconds_of(readinto),
        )
    peers = (
        ("readinto of the chunk files, and their sums", theirs, VERIFIED_GOAL),
        ("readinto of the chunk files", plain, SEQUENTIAL_GOAL),
    )
    return [
        Figure(
            what=f"sequential read_into of {count:,} MiB, 8 MiB each, verified",
            peer=peer,
            unit=MIB_PER_SECOND,
            ours=ours,
            theirs=values,
            goal=goal,
        )
        for peer, values, goal in peers
    ]


def _file(workshop: Workshop, file: Path, paths: Sequence[Path]) -> Figure:
    """Files of ``io``, read as by programs that know nothing of segments."""
    most = workshop.pick(256, 24) * MIB

    def read(opened: BinaryIO) -> int:
        count = 0
        while count < most and (piece := opened.read(PIECE_BYTES)):
            count += len(piece)
        return count

    with siltstone.open(file) as store:
        segment = store.segment("large")

        def ours() -> float:
            with segment.open("rb") as opened:
                return most / MIB / seconds_of(lambda: read(opened))

        def theirs() -> float:
            return most / MIB / seconds_of(read_plain)

        def read_plain() -> None:
            count = 0
            for path in paths:
                if count < most:
                    with path.open("rb", buffering=READ_BUFFER_BYTES) as opened:
                        count += read(opened)

        values, plain = alternate(workshop.rounds, ours, theirs)
    return Figure(
        what=f"file of {most // MIB:,} MiB, read({PIECE_BYTES:,}), verified",
        peer="read of the chunk files",
        unit=MIB_PER_SECOND,
        ours=values,
        theirs=plain,
    )


def _random(
    workshop: Workshop, file: Path, folder: Path, chunks: Sequence[ChunkInfo], size: int
) -> list[Figure]:
    ranges = _ranges(chunks, workshop.pick(2_000, 50), size)
    buffer = bytearray(size)
    fds = [os.open(folder / chunk.chunk, os.O_RDONLY) for chunk in chunks]
    remembered = []

    def ours() -> float:
        # A store that was just opened does not remember any block as verified.
        with Loop() as loop, async_store(loop, file) as store:
            segment = store.segment("large")

            async def read_into() -> None:
                for index, offset in ranges:
                    await segment.read_into(chunks[index].start + offset, buffer)

            cold = seconds_of(lambda: loop(read_into()))
            remembered.append(len(ranges) / seconds_of(lambda: loop(read_into())))
            return len(ranges) / cold

    def preadv() -> float:
        def read() -> None:
            for index, offset in ranges:
                os.preadv(fds[index], [buffer], offset)

        return len(ranges) / seconds_of(read)

    try:
        cold, theirs = alternate(workshop.rounds, ours, preadv)
    finally:
        for fd in fds:
            os.close(fd)
    return [
        Figure(
            what=f"random read_into of {size:,} B, one at a time, {how}",
            peer="preadv of the same ranges",
            unit=PER_SECOND,
            ours=values,
            theirs=theirs,
            goal=goal,
        )
        for how, values, goal in (
            ("each verified", cold, None),
            ("verified shortly before", remembered, REMEMBERED_GOALS.get(size)),
        )
    ]


def _ranges(chunks: Sequence[ChunkInfo], most: int, size: int) -> list[tuple[int, int]]:
    """Choose ranges as (index of the chunk, offset in it), no two of them in the same block."""
    random = Random(7)
    blocks = [
        (index, offset)
        for index, chunk in enumerate(chunks)
        for offset in range(0, chunk.length - BLOCK_BYTES + 1, BLOCK_BYTES)
    ]
    chosen = random.sample(blocks, min(most, len(blocks)))
    inside = BLOCK_BYTES - size
    return [(index, offset + random.randrange(inside)) for index, offset in chosen]
