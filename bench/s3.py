"""The binding ``s3`` on a real server, next to its own SDK and obstore, with processor time.

Client and server share the machine, so the server uses the processor time that a client leaves. The
peers sign the bodies that they send, as the binding does without TLS; only the binding also sends a
CRC32C, and asks that nothing be overwritten.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import obstore

from bench import s3_segments
from bench.figure import (
    MIB_PER_SECOND,
    MILLISECONDS,
    PER_SECOND,
    Figure,
    Unit,
)
from bench.s3_place import BUCKET, S3Place, s3_place
from bench.sdk_contest import CPU_PER_MIB, MIB, Client, take_turns
from bench.workshop import Workshop
from services.unavailable import UnavailableError
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage

SMALL_BYTES = 4 * 2**10
OF_BOTO3, OF_OBSTORE = 0.95, 0.9
CPU, SMALL_CPU = 0.87, 0.83
"""At most 1.15 times as much processor time, and 1.2 times for small objects."""

GOAL_BYTES = 8 * MIB
"""From this size on the speed has a goal: smaller objects depend on the processor alone."""

BY_OBSTORE = ", transport: obstore"


def run(workshop: Workshop) -> list[Figure]:
    """Measure objects alone, then whole segments; nothing if the server is not available."""
    try:
        with (
            s3_place() as place,
            place.storage() as storage,
            place.storage(transport="obstore") as other,
        ):
            contest = _Contest(workshop, place, storage, other)
            figures = [*contest.large(), *contest.small()]
            return [*figures, *s3_segments.run(workshop, place)]
    except UnavailableError as error:
        print(f"NOT MEASURED: {error}", file=sys.stderr, flush=True)
        return []


class _Contest:
    """The same objects through three clients; reads by both transports of the first."""

    def __init__(
        self, workshop: Workshop, place: S3Place, storage: S3ChunkStorage, other: S3ChunkStorage
    ) -> None:
        self._workshop = workshop
        self._place = place
        self._storage = storage
        self._other = other
        self._content = os.urandom(64 * MIB)

    def large(self) -> list[Figure]:
        """Objects of 1 to 64 MiB, several at a time."""
        figures = []
        # In reads that take a twentieth of a second, a pause of the server would hide everything
        # else.
        totals = {"put": self._workshop.pick(128, 16), "get": self._workshop.pick(512, 16)}
        for size, width in ((1, 1), (8, 4), (64, 4)):
            for verb, total in totals.items():
                count = max(1, total // size)
                clients = self._measured(verb, size * MIB, count, width, size * count)
                what = f"{verb} of {size} MiB, {width} at a time"
                units = MIB_PER_SECOND, CPU_PER_MIB
                figures += self._figures(
                    what, clients, units, CPU, has_goal=size * MIB >= GOAL_BYTES
                )
        return figures

    def small(self) -> list[Figure]:
        """Objects of 4 KiB."""
        figures = []
        count = self._workshop.pick(150, 16)
        for width in (1, 8):
            for verb in ("put", "get"):
                clients = self._measured(verb, SMALL_BYTES, count, width, count)
                what = f"{verb} of 4 KiB, {width} at a time"
                units = PER_SECOND, MILLISECONDS
                figures += self._figures(what, clients, units, SMALL_CPU, has_goal=False)
        return figures

    def _measured(
        self, verb: str, length: int, count: int, width: int, amount: int
    ) -> Sequence[Client]:
        clients = self._clients(length)
        if verb == "put":
            clients = clients[:-1]
        take_turns(self._workshop, clients, self._place.empty, verb, count, width, amount)
        return clients

    def _clients(self, length: int) -> Sequence[Client]:
        content = memoryview(self._content)[:length]
        boto3, store, storage = self._place.boto3, self._place.obstore, self._storage
        other = self._other
        buffers = [bytearray(length) for _ in range(16)]

        def ours_get(number: int) -> None:
            assert storage.read_into(f"d/{number}", 0, buffers[number % 16]) == length

        def other_get(number: int) -> None:
            assert other.read_into(f"d/{number}", 0, buffers[number % 16]) == length

        def boto3_put(number: int) -> None:
            boto3.put_object(Bucket=BUCKET, Key=f"d/{number}", Body=bytes_of)

        def boto3_get(number: int) -> None:
            asked = f"bytes=0-{length - 1}"
            answer = boto3.get_object(Bucket=BUCKET, Key=f"d/{number}", Range=asked)
            assert len(answer["Body"].read()) == length

        def obstore_put(number: int) -> None:
            obstore.put(store, f"d/{number}", bytes_of, mode="create", use_multipart=False)

        def obstore_get(number: int) -> None:
            assert len(obstore.get_range(store, f"d/{number}", start=0, end=length)) == length

        bytes_of = bytes(content)
        return (
            Client(put=lambda number: storage.create(f"d/{number}", [content]), get=ours_get),
            Client(name="boto3", put=boto3_put, get=boto3_get),
            Client(name="obstore", put=obstore_put, get=obstore_get),
            Client(name=BY_OBSTORE, put=obstore_put, get=other_get),
        )

    @staticmethod
    def _figures(
        what: str,
        clients: Sequence[Client],
        units: tuple[Unit, Unit],
        cpu_goal: float,
        *,
        has_goal: bool,
    ) -> list[Figure]:
        first, boto3, raw, *other = clients
        figures = []
        pairs = [(ours, peer) for ours in (first, *other) for peer in (boto3, raw)]
        for ours, peer in pairs:
            is_sdk = peer.name == "boto3"
            goal = OF_BOTO3 if is_sdk else OF_OBSTORE
            figures += [
                Figure(
                    what=what + ours.name,
                    peer=peer.name,
                    unit=units[0],
                    ours=ours.rates,
                    theirs=peer.rates,
                    goal=goal if has_goal else None,
                ),
                Figure(
                    what="… processor of the client",
                    peer=peer.name,
                    unit=units[1],
                    ours=ours.cpu_ms,
                    theirs=peer.cpu_ms,
                    goal=cpu_goal if is_sdk else None,
                ),
            ]
        return figures
