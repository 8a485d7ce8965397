"""The binding ``hdfs`` on a server compared with its own client, with processor time.

Both sync what they write and close it. Only the binding compares what it sees with what the
NameNode knows, and gives each call a thread and a deadline.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial

import siltstone
from bench.figure import Figure
from bench.hdfs_place import HdfsPlace, hdfs_place
from bench.sdk_contest import MIB, Client, Contest
from bench.segment_contest import SegmentContest
from bench.workshop import Workshop
from services.unavailable import UnavailableError
from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage

PEER = "hdfs-native"
SMALL_BYTES = 2**16
CHUNK_BYTES = 64 * MIB
TURNS = 3
"""A turn of 64 MiB takes a fifth of a second here, in which Java may pause."""


def run(workshop: Workshop) -> list[Figure]:
    """Measure files alone, then a whole segment; nothing if the server is not available."""
    try:
        with hdfs_place() as place:
            with place.storage() as storage:
                contest = Contest(
                    workshop=workshop,
                    peer=PEER,
                    clients=partial(_clients, storage, place, os.urandom(CHUNK_BYTES)),
                    empty=place.empty,
                    turns=TURNS,
                )
                figures = [*contest.large("files"), *contest.small("files", SMALL_BYTES)]
            return [*figures, *_segment(workshop, place).run()]
    except UnavailableError as error:
        print(f"NOT MEASURED: {error}", file=sys.stderr, flush=True)
        return []


def _clients(
    storage: HdfsChunkStorage, place: HdfsPlace, content: bytes, length: int
) -> Sequence[Client]:
    view, whole = memoryview(content)[:length], content[:length]
    buffers = [bytearray(length) for _ in range(4)]

    def get(number: int) -> None:
        assert storage.read_into(f"d/{number}", 0, buffers[number % 4]) == length

    def sdk_get(number: int) -> None:
        assert len(place.get(number, length)) == length

    return (
        Client(put=lambda number: storage.create(f"d/{number}", [view]), get=get),
        Client(put=lambda number: place.put(number, whole), get=sdk_get),
    )


def _segment(workshop: Workshop, place: HdfsPlace) -> SegmentContest:
    return SegmentContest(
        workshop=workshop,
        peer=f"{PEER}: files of 64 MiB",
        make_store=lambda folder: siltstone.init(
            folder / "store", binding="hdfs", options=place.options
        ),
        put=place.put,
        empty=place.empty,
    )
