"""The binding ``azure`` on a server compared with its own SDK, with processor time.

Both send an MD5 with each body, which the server compares, or both send none. Only the binding asks
that nothing be overwritten. An append blob costs both two requests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial

import siltstone
from bench.azure_place import AzurePlace, azure_place
from bench.figure import Figure
from bench.sdk_contest import MIB, Client, Contest
from bench.segment_contest import SegmentContest
from bench.workshop import Workshop
from services.unavailable import UnavailableError
from siltstone.bindings.azure.chunk_storage import AzureChunkStorage
from siltstone.bindings.azure.settings import Blobs, Checksums

PEER = "azure-storage-blob"
KINDS: Sequence[tuple[str, Mapping[str, str], Sequence[str]]] = (
    ("append blobs", {}, ("put", "get")),
    ("append blobs without MD5", {"checksums": Checksums.NONE}, ("put",)),
    ("block blobs", {"blobs": Blobs.BLOCK}, ("put",)),
)
"""What is measured, the settings, and the verbs; a read is the same everywhere."""
SMALL_BYTES = 2**16
CHUNK_BYTES = 64 * MIB


def run(workshop: Workshop) -> list[Figure]:
    """Measure blobs alone, then a whole segment; nothing if the server is not available."""
    try:
        figures = []
        for kind, options, verbs in KINDS:
            # Deleted blobs stay in the server's memory for minutes, so each has its own server.
            with azure_place() as place, place.storage(**options) as storage:
                contest = _contest(workshop, place, storage)
                figures += contest.large(kind, verbs)
                if "get" in verbs:
                    figures += contest.small(kind, SMALL_BYTES)
        with azure_place() as place:
            return [*figures, *_segment(workshop, place).run()]
    except UnavailableError as error:
        print(f"NOT MEASURED: {error}", file=sys.stderr, flush=True)
        return []


def _contest(workshop: Workshop, place: AzurePlace, storage: AzureChunkStorage) -> Contest:
    return Contest(
        workshop=workshop,
        peer=PEER,
        clients=partial(_clients, storage, place, os.urandom(CHUNK_BYTES)),
        empty=place.empty,
    )


def _clients(
    storage: AzureChunkStorage, place: AzurePlace, content: bytes, length: int
) -> Sequence[Client]:
    settings = storage.service.settings
    checked = settings.checksums is Checksums.MD5
    view, whole = memoryview(content)[:length], content[:length]
    buffers = [bytearray(length) for _ in range(4)]

    def get(number: int) -> None:
        assert storage.read_into(f"d/{number}", 0, buffers[number % 4]) == length

    def sdk_put(number: int) -> None:
        blob = place.sdk.get_blob_client(f"d/{number}")
        if settings.blobs is Blobs.APPEND:
            blob.create_append_blob()
            blob.append_block(whole, length=length, validate_content=checked)
        else:
            blob.upload_blob(whole, length=length, overwrite=True, validate_content=checked)

    def sdk_get(number: int) -> None:
        found = place.sdk.get_blob_client(f"d/{number}").download_blob(offset=0, length=length)
        assert len(found.readall()) == length

    return (
        Client(put=lambda number: storage.create(f"d/{number}", [view]), get=get),
        Client(put=sdk_put, get=sdk_get),
    )


def _segment(workshop: Workshop, place: AzurePlace) -> SegmentContest:
    def put(number: int, body: bytes) -> None:
        blob = place.sdk.get_blob_client(f"d/{number}")
        blob.create_append_blob()
        blob.append_block(body, length=len(body))

    options = {**place.options, "prefix": "large"}
    return SegmentContest(
        workshop=workshop,
        peer=f"{PEER}: append blobs of 64 MiB",
        make_store=lambda folder: siltstone.init(
            folder / "store", binding="azure", options=options
        ),
        put=put,
        empty=place.empty,
    )
