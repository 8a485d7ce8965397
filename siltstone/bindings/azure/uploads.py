"""Block blobs: made by one request, or of blocks that the last request of several makes a blob of.

The blob appears with the request on the condition that there is none, and with no other. So a
failure before that one had no effect, whatever it was. Blocks that no request made use of are not
visible, and the service removes them after a week. Their ids are random, since two writers that
make a blob of the same name at a time stage their blocks in one place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobBlock, BlobClient

from siltstone.bindings.azure.checksums import of_body
from siltstone.bindings.azure.errors import BLOCKS_GONE, code_of, let_go, translated
from siltstone.bindings.azure.reads import head
from siltstone.bindings.azure.service import Service
from siltstone.core.constants import Buffer
from siltstone.core.errors import ChunkError, ChunkExistsError
from siltstone.core.remote.answers import whole
from siltstone.core.remote.body import pieces, sendable
from siltstone.core.remote.target import Target

SOURCES_MAX: Final = 1_000
"""A join looks at each source and copies it: twice as many requests, within one deadline."""
FULL_BLOCKS_MAX: Final = 50_000 - SOURCES_MAX
"""Blocks of one blob, when each source of a join has one that is not full."""

Stager = Callable[[BlobClient, str], None]
"""Gives a block to a blob, under an id."""


def put(service: Service, target: Target, buffers: Sequence[Buffer], length: int) -> None:
    """Make a block blob by one request.

    The client's own ``upload_blob`` copies what it sends; so this calls what it calls.
    """
    operations = service.blob(target.key)._client.block_blob
    with _conditional(service, target):
        answer: dict[str, Any] = operations.upload(
            length,
            sendable(buffers, length, target.deadline),
            headers={"If-None-Match": "*"},
            cls=lambda _answer, _body, headers: {"etag": headers.get("ETag")},
            **of_body(service.settings.checksums, buffers),
        )
    whole(answer, ["etag"], target.name, target.operation, changes=True)


def put_in_blocks(service: Service, target: Target, buffers: Sequence[Buffer], length: int) -> None:
    """Make a block blob of blocks of equal length, several of them on their way at a time."""
    blocks = pieces(buffers, length, service.settings.block_bytes)
    upload(service, target, [partial(_stage, service, target, block) for block in blocks])


def upload(service: Service, target: Target, stagers: Sequence[Stager]) -> None:
    """Stage blocks, and make a blob of them on the condition that there is none."""
    client = service.blob(target.key)
    token = os.urandom(8).hex()
    ids = [f"{token}-{index:05}" for index in range(len(stagers))]
    service.side_by_side(
        [partial(stage, client, block_id) for stage, block_id in zip(stagers, ids, strict=True)]
    )
    with _conditional(service, target):
        answer = client.commit_block_list(
            [BlobBlock(block_id) for block_id in ids], match_condition=MatchConditions.IfMissing
        )
    whole(answer, ["etag"], target.name, target.operation, changes=True)


def _stage(
    service: Service, target: Target, block: Sequence[Buffer], client: BlobClient, block_id: str
) -> None:
    length = sum(map(len, block))
    with translated.change(target, changes=False):
        client.stage_block(
            block_id,
            sendable(block, length, target.deadline),  # type: ignore[arg-type]
            length=length,
            **of_body(service.settings.checksums, block),
        )


@contextmanager
def _conditional(service: Service, target: Target) -> Iterator[None]:
    """Translate the one request that lets a blob appear.

    Blocks that are gone say that another request made a blob of this name and that ours did
    nothing; whether there is a blob now takes one look.
    """
    with translated.change(target):
        try:
            yield
        except HttpResponseError as error:
            let_go(error)
            if code_of(error) == BLOCKS_GONE and _is_there(service, target):
                raise target.error(ChunkExistsError, "chunk exists") from error
            raise


def _is_there(service: Service, target: Target) -> bool:
    try:
        head(service, target.name, target.key, target.operation)
    except ChunkError:
        return False
    return True
