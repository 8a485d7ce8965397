"""Whole segments in S3: their flush, reads in order and at random, and their peak of memory."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import obstore
import yaml

import siltstone
from bench.figure import MIB as MEBIBYTES
from bench.figure import MIB_PER_SECOND, PER_SECOND, Better, Figure, Unit, alternate
from bench.flush_child import append
from bench.s3_place import BUCKET, S3Place
from bench.workshop import Loop, Workshop, async_store, seconds_of
from siltstone import ChunkInfo, Segment

MIB = 2**20
PIECE_BYTES = 8 * MIB
IN_FLIGHT = 8
"""Pieces that the peer reads ahead, as Siltstone does by default."""
CHUNK_BYTES = 64 * MIB
SMALL_BYTES = 2**16
SEQUENTIAL_GOAL = 0.9
PEAKS_MIB = {"flush": 556, "read": 300}
"""Of a flush: the bound of back-pressure and what is allowed beside it."""
LARGE_ROUNDS = 2
"""A gibibyte says the same each time."""
TRANSPORTS = ("sdk", "obstore")
REQUESTS = Unit(text="requests", better=Better.LOWER)


def run(workshop: Workshop, place: S3Place) -> list[Figure]:
    """Measure stores whose chunks are in the bucket."""
    return [*_in_order(workshop, place), *_at_random(workshop, place), *_large(workshop, place)]


def _store(place: S3Place, folder: Path, name: str) -> Path:
    return siltstone.init(folder / name, binding="s3", options={**place.options, "prefix": name})


def _changed(file: Path, transport: str, more: str = "") -> None:
    """Let the store read by another transport from its next opening on."""
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    settings["long_term_storage"]["s3"]["transport"] = transport
    settings.pop("cache", None)
    file.write_text(yaml.safe_dump(settings) + more, encoding="utf-8")


def _in_order(workshop: Workshop, place: S3Place) -> list[Figure]:
    count = workshop.pick(512, 24)
    buffer = bytearray(PIECE_BYTES)
    with workshop.place() as folder, Loop() as loop, ExitStack() as stores:
        calls = []
        for transport in TRANSPORTS:
            file = _store(place, folder, transport)
            append(file, count)
            _changed(file, transport)
            segment = stores.enter_context(siltstone.open(file)).segment("large")

            def ours(segment: Segment = segment) -> float:
                def read_into() -> None:
                    offset = 0
                    while read := segment.read_into(offset, buffer):
                        offset += read

                return count / seconds_of(read_into)

            calls.append(ours)
        chunks = list(segment.chunks())
        *values, theirs = alternate(
            workshop.rounds,
            *calls,
            lambda: count / seconds_of(lambda: loop(_ranges(place, TRANSPORTS[-1], chunks))),
        )
    place.empty()
    return [
        Figure(
            what=f"read_into of {count} MiB in order, 8 MiB each, verified, transport: {transport}",
            peer=f"obstore: ranges of 8 MiB, {IN_FLIGHT} in flight",
            unit=MIB_PER_SECOND,
            ours=rates,
            theirs=theirs,
            goal=SEQUENTIAL_GOAL,
        )
        for transport, rates in zip(TRANSPORTS, values, strict=True)
    ]


async def _ranges(place: S3Place, folder: str, chunks: Sequence[ChunkInfo]) -> None:
    """Read all bytes in order into one buffer, with so many ranges on their way."""
    buffer = memoryview(bytearray(PIECE_BYTES))
    waiting: deque[asyncio.Task[obstore.Bytes]] = deque()

    async def take() -> None:
        found = await waiting.popleft()
        buffer[: len(found)] = memoryview(found)

    for chunk in chunks:
        end = chunk.chunk_offset + chunk.length
        for start in range(chunk.chunk_offset, end, PIECE_BYTES):
            asked = obstore.get_range_async(
                place.obstore,
                f"{folder}/{chunk.chunk}",
                start=start,
                end=min(start + PIECE_BYTES, end),
            )
            waiting.append(asyncio.ensure_future(asked))
            if len(waiting) >= IN_FLIGHT:
                await take()
    while waiting:
        await take()


def _at_random(workshop: Workshop, place: S3Place) -> list[Figure]:
    count = workshop.pick(100, 10)
    size = workshop.pick(64, 8)
    buffer = bytearray(SMALL_BYTES)
    offsets = [number * 7919 % (16 * size - 1) * SMALL_BYTES for number in range(count)]
    with workshop.place() as folder:
        file = _store(place, folder, "random")
        append(file, size)
        with siltstone.open(file) as store:
            chunks = list(store.segment("large").chunks())
        cache = f"cache:\n  path: {folder.resolve() / 'cache'}\n"

        def ours(transport: str, more: str = "", *, warm: bool = False) -> float:
            _changed(file, transport, more)
            with Loop() as loop, async_store(loop, file) as store:
                segment = store.segment("large")

                async def read() -> None:
                    for offset in offsets:
                        await segment.read_into(offset, buffer)

                if warm:
                    loop(read())
                return count / seconds_of(lambda: loop(read()))

        def theirs() -> float:
            def read() -> None:
                for offset in offsets:
                    chunk = next(c for c in chunks if c.start <= offset < c.start + c.length)
                    start = chunk.chunk_offset + offset - chunk.start
                    key = f"random/{chunk.chunk}"
                    obstore.get_range(place.obstore, key, start=start, length=SMALL_BYTES)

            return count / seconds_of(read)

        hows = {f"cold, transport: {name}": partial(ours, name) for name in TRANSPORTS}
        hows["in the cache on the disk"] = partial(ours, "sdk", cache, warm=True)
        *values, peer = alternate(workshop.rounds, *hows.values(), theirs)
    place.empty()
    return [
        Figure(
            what=f"random read_into of 64 KiB, one at a time, verified, {how}",
            peer="obstore: the same ranges, not verified",
            unit=PER_SECOND,
            ours=rates,
            theirs=peer,
        )
        for how, rates in zip(hows, values, strict=True)
    ]


def _large(workshop: Workshop, place: S3Place) -> list[Figure]:
    """Flush and read a segment in processes of their own."""
    count = workshop.pick(1024, 24)
    rounds = min(LARGE_ROUNDS, workshop.rounds)
    told: dict[str, list[dict[str, float]]] = {"flush": [], "read": []}

    def ours() -> float:
        with workshop.place() as folder:
            file = _store(place, folder, "large")
            for verb in told:
                told[verb].append(_in_child(file, verb, count))
        place.empty()
        return count / told["flush"][-1]["seconds"]

    rates, peer = alternate(rounds, ours, partial(_put, place, count))
    limits = [1.0 * -(-count // 8)] * rounds
    figures = [
        Figure(
            what=f"append {count:,} MiB to the log and flush, {rounds} times",
            peer="boto3: puts of 64 MiB, 4 at a time, without a log",
            unit=MIB_PER_SECOND,
            ours=rates,
            theirs=peer,
        ),
        Figure(
            what="… requests to read it in order",
            peer="1 for each 8 MiB",
            unit=REQUESTS,
            ours=[one["requests"] for one in told["read"]],
            theirs=limits,
            goal=1,
        ),
    ]
    for verb, limit in PEAKS_MIB.items():
        peaks = [one["peak_mib"] for one in told[verb]]
        figures.append(
            Figure(
                what=f"… peak memory of the process, {verb}",
                peer="limit",
                unit=MEBIBYTES,
                ours=peaks,
                theirs=[float(limit)] * rounds,
                goal=1,
            )
        )
    return figures


def _in_child(file: Path, verb: str, count: int) -> dict[str, float]:
    child = subprocess.run(
        [sys.executable, "-m", "bench.s3_child", str(file), verb, str(count)],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    told: dict[str, float] = json.loads(child.stdout)
    return told


def _put(place: S3Place, count: int) -> float:
    body = os.urandom(min(count * MIB, CHUNK_BYTES))

    def put(number: int) -> None:
        place.boto3.put_object(Bucket=BUCKET, Key=f"d/{number}", Body=body)

    with ThreadPoolExecutor(4) as threads:
        seconds = seconds_of(lambda: list(threads.map(put, range(count * MIB // len(body)))))
    place.empty()
    return count / seconds
