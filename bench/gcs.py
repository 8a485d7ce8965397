"""The binding ``gcs`` on a server compared with its own SDK, with processor time.

Client and server share the machine, so the server uses the processor time that a client leaves. The
binding sends a CRC32C and checks one for what it reads; the SDK is asked for none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import siltstone
from bench.figure import (
    MIB_PER_SECOND,
    MILLISECONDS,
    PER_SECOND,
    Figure,
    Unit,
)
from bench.gcs_place import GcsPlace, gcs_place
from bench.sdk_contest import CPU_PER_MIB, GOAL, MIB, Client, take_turns
from bench.segment_contest import SegmentContest
from bench.workshop import Workshop
from services.unavailable import UnavailableError
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage

SMALL_BYTES = 2**16
CHUNK_BYTES = 64 * MIB


def run(workshop: Workshop) -> list[Figure]:
    """Measure objects alone, then a whole segment; nothing if the server is not available."""
    try:
        with gcs_place() as place:
            with place.storage() as storage:
                contest = _Contest(workshop, place, storage)
                figures = [*contest.large(), *contest.small()]
            return [*figures, *_segment(workshop, place).run()]
    except UnavailableError as error:
        print(f"NOT MEASURED: {error}", file=sys.stderr, flush=True)
        return []


class _Contest:
    """The same objects through two clients."""

    def __init__(self, workshop: Workshop, place: GcsPlace, storage: GcsChunkStorage) -> None:
        self._workshop = workshop
        self._place = place
        self._storage = storage
        self._content = os.urandom(CHUNK_BYTES)

    def large(self) -> list[Figure]:
        """Objects of 8 and 64 MiB, several at a time."""
        figures = []
        total = self._workshop.pick(256, 8)
        for size, width in ((8, 1), (8, 4), (self._workshop.pick(64, 2), 4)):
            count = max(1, total // size)
            for verb in ("put", "get"):
                clients = self._measured(verb, size * MIB, count, width, size * count)
                what = f"{verb} of {size} MiB, {width} at a time"
                figures += _figures(what, clients, (MIB_PER_SECOND, CPU_PER_MIB))
        return figures

    def small(self) -> list[Figure]:
        """Objects of 64 KiB."""
        figures = []
        count = self._workshop.pick(300, 8)
        for width in (1, 4):
            for verb in ("put", "get"):
                clients = self._measured(verb, SMALL_BYTES, count, width, count)
                what = f"{verb} of 64 KiB, {width} at a time"
                figures += _figures(what, clients, (PER_SECOND, MILLISECONDS))
        return figures

    def _measured(
        self, verb: str, length: int, count: int, width: int, amount: int
    ) -> Sequence[Client]:
        clients = self._clients(length)
        take_turns(self._workshop, clients, self._place.empty, verb, count, width, amount)
        return clients

    def _clients(self, length: int) -> Sequence[Client]:
        content = memoryview(self._content)[:length]
        storage, sdk = self._storage, self._place.sdk
        buffers = [bytearray(length) for _ in range(4)]
        whole = bytes(content)

        def ours_get(number: int) -> None:
            assert storage.read_into(f"d/{number}", 0, buffers[number % 4]) == length

        def sdk_put(number: int) -> None:
            sdk.blob(f"d/{number}").upload_from_string(
                whole,
                content_type="application/octet-stream",
                if_generation_match=0,
                checksum=None,
                retry=None,
            )

        def sdk_get(number: int) -> None:
            found = sdk.blob(f"d/{number}").download_as_bytes(
                start=0, end=length - 1, raw_download=True, checksum=None, retry=None
            )
            assert len(found) == length

        return (
            Client(put=lambda number: storage.create(f"d/{number}", [content]), get=ours_get),
            Client(put=sdk_put, get=sdk_get),
        )


def _figures(what: str, clients: Sequence[Client], units: tuple[Unit, Unit]) -> list[Figure]:
    ours, sdk = clients
    return [
        Figure(
            what=what,
            peer="google-cloud-storage",
            unit=units[0],
            ours=ours.rates,
            theirs=sdk.rates,
            goal=GOAL,
        ),
        Figure(
            what="… processor of the client",
            peer="google-cloud-storage",
            unit=units[1],
            ours=ours.cpu_ms,
            theirs=sdk.cpu_ms,
        ),
    ]


def _segment(workshop: Workshop, place: GcsPlace) -> SegmentContest:
    options = {**place.options, "prefix": "large", "unsafe_without_preconditions": True}
    return SegmentContest(
        workshop=workshop,
        peer="google-cloud-storage: puts of 64 MiB",
        make_store=lambda folder: siltstone.init(folder / "store", binding="gcs", options=options),
        put=lambda number, body: place.sdk.blob(f"d/{number}").upload_from_string(
            body, checksum=None, retry=None
        ),
        empty=place.empty,
    )
