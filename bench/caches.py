"""Random reads from a remote service, and what the cache on a local disk saves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import boto3

import siltstone
from bench.figure import PER_SECOND, Figure, alternate
from bench.workshop import Loop, Workshop, async_store, seconds_of
from services.s3_server import REGION
from services.versitygw import PROGRAM, Versitygw

MIB = 2**20
LATENCY_S = 0.02
"""Latency of every call, as of a bucket in the same region."""
READ_BYTES = 2**16
PARALLEL = 8


def run(workshop: Workshop) -> list[Figure]:
    """Measure reads of 64 KiB at random offsets, cold, and with their blocks in the cache."""
    far = {"append": False, "latency_s": LATENCY_S}
    figures = [_figure(workshop, "memory", far, "each call 20 ms away")]
    with _server() as bucket:
        if bucket is not None:
            figures.append(_figure(workshop, "s3", bucket, "from a server of S3 on this machine"))
    return figures


def _figure(workshop: Workshop, binding: str, options: Mapping[str, Any], where: str) -> Figure:
    length = workshop.pick(128, 8) * MIB
    with workshop.place() as place:
        chosen = {"name": place.name, **options} if binding == "memory" else options
        file = siltstone.init(place / "store", binding=binding, options=chosen)
        with siltstone.open(file) as store:
            segment = store.create("large")
            for number in range(length // MIB):
                segment.append(Random(number).randbytes(MIB))
            store.flush()
        warm = place / "store" / "warm.yaml"
        text = file.read_text(encoding="utf-8")
        warm.write_text(f"{text}\ncache:\n  path: ./cache\n", encoding="utf-8")
        random = Random(7)
        offsets = [random.randrange(length - READ_BYTES) for _ in range(workshop.pick(400, 20))]
        _rate(warm, offsets)
        ours, theirs = alternate(
            workshop.rounds, lambda: _rate(warm, offsets), lambda: _rate(file, offsets)
        )
    return Figure(
        what=f"random read_into of 64 KiB, {PARALLEL} at a time, {where}, blocks on the local disk",
        peer="the same without a cache, verified",
        unit=PER_SECOND,
        ours=ours,
        theirs=theirs,
    )


def _rate(file: Path, offsets: Sequence[int]) -> float:
    """Open the store, which then remembers nothing, and read; return reads per second."""
    with Loop() as loop, async_store(loop, file) as store:
        segment = store.segment("large")
        todo = iter(offsets)

        async def work() -> None:
            buffer = bytearray(READ_BYTES)
            for offset in todo:
                await segment.read_into(offset, buffer)

        async def read() -> None:
            await asyncio.gather(*(work() for _ in range(PARALLEL)))

        return len(offsets) / seconds_of(lambda: loop(read()))


@contextmanager
def _server() -> Iterator[Mapping[str, Any] | None]:
    """An S3 server with a bucket, as settings of the binding; ``None`` if it was not fetched."""
    program = PROGRAM.installed()
    if program is None:
        print("no figure of S3: python -m services fetch versitygw")
        yield None
        return
    with Versitygw(program, keeps_alive=True).start() as server:
        client = boto3.client(
            "s3",
            endpoint_url=server.endpoint,
            region_name=REGION,
            aws_access_key_id=server.key_id,
            aws_secret_access_key=server.secret,
        )
        client.create_bucket(Bucket="bench")
        client.close()
        yield {
            "bucket": "bench",
            "endpoint": server.endpoint,
            "insecure": True,
            "path_style": True,
            "region": REGION,
            "access_key_id": server.key_id,
            "secret_access_key": server.secret,
        }
