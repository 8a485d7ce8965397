"""Whole segments in S3: their flush, reads in order and at random, and their peak of memory."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import obstore
import yaml
from crc32c import crc32c

import siltstone
from bench.figure import MIB_PER_SECOND, PER_SECOND, Better, Figure, Unit, alternate
from bench.flush_child import append
from bench.s3_place import BUCKET, S3Place
from bench.segment_contest import SegmentContest
from bench.workshop import Loop, Workshop, async_store, seconds_of
from siltstone import ChunkInfo, Segment

MIB = 2**20
PIECE_BYTES = 8 * MIB
IN_FLIGHT = 8
"""Pieces that the peer reads ahead, as Siltstone does by default."""
BLOCK_BYTES = 256 * 1024
CHUNK_BYTES = 64 * MIB
SMALL_BYTES = 2**16
SEQUENTIAL_GOAL = 0.9
TRANSPORTS = ("sdk", "obstore")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """How obstore reads the same bytes in order.

    Attributes:
        text: of the figure.
        in_flight: ranges in flight.
        verified: whether it takes the sum of each block, and compares it with none.
        goal: of ours compared with it.
    """

    text: str
    in_flight: int = IN_FLIGHT
    verified: bool = False
    goal: float | None = SEQUENTIAL_GOAL


_RANGES = "obstore: ranges of 8 MiB,"
PEERS = (
    Peer(text=f"{_RANGES} {IN_FLIGHT} in flight, not verified"),
    Peer(
        text=f"{_RANGES} {IN_FLIGHT} in flight, and CRC32C of each block", verified=True, goal=None
    ),
    Peer(text=f"{_RANGES} one behind the other, not verified", in_flight=1),
)
LINKS = {"a link of 10 Gbit/s": "10gbit", "a link of 5 Gbit/s": "5gbit"}
"""The link between a machine and a service on another machine."""
REQUESTS = Unit(text="requests", better=Better.LOWER)


def run(workshop: Workshop, place: S3Place) -> list[Figure]:
    """Measure stores whose chunks are in the bucket."""
    figures = in_order_figures(in_order(workshop, place))
    for text, rate in LINKS.items():
        figures += _over_a_link(workshop, text, rate)
    return [*figures, *_at_random(workshop, place), *_large(workshop, place)]


def _over_a_link(workshop: Workshop, text: str, rate: str) -> list[Figure]:
    """The same by processes whose loopback is as slow as a link."""
    link = f"ip link set lo up; tc qdisc add dev lo root tbf rate {rate} burst 1mb latency 50ms"
    child = [sys.executable, "-m", "bench.link_child", str(workshop.folder), str(workshop.quick)]
    try:
        done = subprocess.run(
            ["unshare", "--net", "sh", "-ec", f'{link}; exec "$@"', "sh", *child],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[1],
        )
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        print(f"NOT MEASURED: {text}: {said}", file=sys.stderr, flush=True)
        return []
    return in_order_figures(json.loads(done.stdout), f", over {text}")


def _changed(file: Path, transport: str, more: str = "") -> None:
    """Let the store read by another transport from its next opening on."""
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    settings["long_term_storage"]["s3"]["transport"] = transport
    settings.pop("cache", None)
    file.write_text(yaml.safe_dump(settings) + more, encoding="utf-8")


def in_order(workshop: Workshop, place: S3Place) -> dict[str, list[float]]:
    """MiB/s of sequential reads by each transport, and of the peer alone, in both ways."""
    count = workshop.pick(512, 24)
    buffer = bytearray(PIECE_BYTES)
    with workshop.place() as folder, Loop() as loop, ExitStack() as stores:
        calls = []
        for transport in TRANSPORTS:
            file = place.store(folder / transport, transport)
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

        def theirs(peer: Peer) -> float:
            return count / seconds_of(lambda: loop(_ranges(place, TRANSPORTS[-1], chunks, peer)))

        calls += [partial(theirs, peer) for peer in PEERS]
        values = alternate(workshop.rounds, *calls)
    place.empty()
    return dict(zip((*TRANSPORTS, *(peer.text for peer in PEERS)), values, strict=True))


def in_order_figures(rates: Mapping[str, list[float]], where: str = "") -> list[Figure]:
    """The same as figures; ``where`` names the link."""
    return [
        Figure(
            what=f"read_into in order, 8 MiB each, verified, transport: {transport}{where}",
            peer=peer.text,
            unit=MIB_PER_SECOND,
            ours=rates[transport],
            theirs=rates[peer.text],
            goal=peer.goal,
        )
        for transport in TRANSPORTS
        for peer in PEERS
    ]


async def _ranges(place: S3Place, folder: str, chunks: Sequence[ChunkInfo], peer: Peer) -> None:
    """Read all bytes in order into one buffer."""
    buffer = memoryview(bytearray(PIECE_BYTES))
    waiting: deque[asyncio.Task[obstore.Bytes]] = deque()

    async def take() -> None:
        found = memoryview(await waiting.popleft())
        if peer.verified:
            for start in range(0, len(found), BLOCK_BYTES):
                crc32c(found[start : start + BLOCK_BYTES])
        buffer[: len(found)] = found

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
            if len(waiting) >= peer.in_flight:
                await take()
    while waiting:
        await take()


def _at_random(workshop: Workshop, place: S3Place) -> list[Figure]:
    count = workshop.pick(100, 10)
    size = workshop.pick(64, 8)
    buffer = bytearray(SMALL_BYTES)
    offsets = [number * 7919 % (16 * size - 1) * SMALL_BYTES for number in range(count)]
    with workshop.place() as folder:
        file = place.store(folder / "random", "random")
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
    contest = SegmentContest(
        workshop=workshop,
        peer="boto3: puts of 64 MiB",
        make_store=lambda folder: place.store(folder / "large", "large"),
        put=lambda number, body: place.boto3.put_object(
            Bucket=BUCKET, Key=f"d/{number}", Body=body
        ),
        empty=place.empty,
        child="bench.s3_child",
        quick_mib=24,
    )
    speed, *peaks = contest.run()
    requests = Figure(
        what="… requests to read it in order",
        peer="1 for each 8 MiB",
        unit=REQUESTS,
        ours=[one["requests"] for one in contest.told["read"]],
        theirs=[1.0 * -(-contest.count // 8)] * contest.rounds,
        goal=1,
    )
    return [speed, requests, *peaks]
