"""Append blobs: made empty by one request, and filled by others, each at the end that it names.

So a create is two requests, and between them there is an empty blob that was never reported. The
first bytes go on the condition that the blob is the very one that the first request made: a create
that is late can never write into another one of the same name. When the second request fails, for
whatever reason, the outcome is unknown: the name is burnt, and the tidying removes it later. The
same holds for what takes several blocks, as soon as the first one is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobClient

from siltstone.bindings.azure.checksums import of_body
from siltstone.bindings.azure.errors import (
    APPEND_POSITION,
    INVALID_TYPE,
    TOO_LONG,
    TOO_MANY,
    code_of,
    half,
    let_go,
    translated,
)
from siltstone.bindings.azure.reads import length_of
from siltstone.bindings.azure.service import Service
from siltstone.core.constants import Buffer
from siltstone.core.errors import ChunkError
from siltstone.core.remote.answers import whole
from siltstone.core.remote.body import pieces, sendable
from siltstone.core.remote.target import Target

BLOCKS_MAX: Final = 50_000
"""Of one append blob."""
FULL_BLOCKS_MAX: Final = 10_000
"""Those that are as long as a block may be; with ``APPENDS_MAX`` there are never too many."""
APPENDS_MAX: Final = BLOCKS_MAX - FULL_BLOCKS_MAX
"""A write has one block that is not full, at most."""


def create(service: Service, target: Target, buffers: Sequence[Buffer], length: int) -> None:
    """Make an append blob, if there is no blob of this name, and write its first bytes."""
    client = service.blob(target.key)
    with translated(target.name, target.operation, changes=True):
        made = client.create_append_blob(match_condition=MatchConditions.IfMissing)
    whole(made, ["etag"], target.name, target.operation, changes=True)
    try:
        _write_blocks(service, client, target, 0, buffers, length, str(made["etag"]))
    except (ChunkError, ValueError) as error:
        raise _half(error, target) from error


def write(
    service: Service, target: Target, offset: int, buffers: Sequence[Buffer], length: int
) -> None:
    """Write at the end, if ``offset`` is the end; the service checks it.

    Raises:
        ChunkNotFoundError: there is no such blob.
        ChunkOffsetError: it is not; nothing was written.
        ChunkAccessDeniedError: the blob is sealed.
        ValueError: the blob has as many blocks as it can have.
    """
    _write_blocks(service, service.blob(target.key), target, offset, buffers, length, None)


def seal(service: Service, target: Target) -> None:
    """Refuse any further append; a block blob, which was made whole, refuses them already."""
    with translated(target.name, target.operation, changes=True):
        try:
            answer = service.blob(target.key).seal_append_blob()
        except HttpResponseError as error:
            let_go(error)
            if code_of(error) == INVALID_TYPE:
                return
            raise
    whole(answer, ["etag"], target.name, target.operation, changes=True)


def _write_blocks(
    service: Service,
    client: BlobClient,
    target: Target,
    offset: int,
    buffers: Sequence[Buffer],
    length: int,
    version: str | None,
) -> None:
    """Write block by block, each after the one before, in the blob of that version."""
    step = service.settings.block_bytes
    for index, block in enumerate(pieces(buffers, length, step)):
        position = offset + index * step
        try:
            version = _write_block(service, client, target, position, block, version)
        except (ChunkError, ValueError) as error:
            if index == 0:
                raise
            raise _half(error, target) from error


def _write_block(
    service: Service,
    client: BlobClient,
    target: Target,
    position: int,
    block: Sequence[Buffer],
    version: str | None,
) -> str:
    """Write one block; return the version of the blob with it."""
    length = sum(map(len, block))
    condition: dict[str, Any] = {}
    if version is not None:
        condition = {"etag": version, "match_condition": MatchConditions.IfNotModified}
    refused: HttpResponseError | None = None
    with translated.change(target):
        try:
            answer = client.append_block(
                sendable(block, length, target.deadline),  # type: ignore[arg-type]
                length=length,
                appendpos_condition=position,
                maxsize_condition=service.settings.block_bytes * FULL_BLOCKS_MAX,
                **condition,
                **of_body(service.settings.checksums, block),
            )
        except HttpResponseError as error:
            let_go(error)
            refused = error
            if code_of(error) not in (APPEND_POSITION, TOO_LONG, TOO_MANY):
                raise
    if refused is None:
        whole(answer, ["etag"], target.name, target.operation, changes=True)
        return str(answer["etag"])
    if code_of(refused) == TOO_MANY:
        raise ValueError(f"too many writes to one chunk max={BLOCKS_MAX}") from refused
    end = length_of(service, target.name, target.key, target.operation)
    raise target.wrong_offset(expected=end, actual=position) from refused


def _half(error: ChunkError | ValueError, target: Target) -> ChunkError:
    if not isinstance(error, ChunkError):
        error = target.error(ChunkError, str(error))
    return half(error, target.name, target.operation)
