"""Appending to an object, which directory buckets alone can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from botocore.exceptions import ClientError

from siltstone.bindings.s3.checksums import of_body
from siltstone.bindings.s3.errors import code_of, translated
from siltstone.bindings.s3.service import Service
from siltstone.bindings.s3.uploads import head
from siltstone.core.constants import Buffer
from siltstone.core.errors import ChunkOffsetError
from siltstone.core.remote.answers import whole
from siltstone.core.remote.body import sendable
from siltstone.core.remote.target import Target

APPENDS_MAX: Final = 10_000
"""Each one makes a part of the object, and there are no more parts."""
WRONG_OFFSET: Final = "InvalidWriteOffset"
TOO_MANY: Final = "TooManyParts"


def append(
    service: Service, target: Target, offset: int, buffers: Sequence[Buffer], length: int
) -> None:
    """Write at the end, if ``offset`` is the end; the service checks it.

    Raises:
        ChunkNotFoundError: there is no such object.
        ChunkOffsetError: it is not; nothing was written.
        ValueError: the object has as many parts as it can have.
    """
    if offset == 0:
        # The service would make an object that is not there; a chunk is never empty.
        raise _wrong_offset(service, target, offset)
    arguments, _ = of_body(service.settings.checksums, buffers)
    refused: ClientError | None = None
    with translated(target.name, "write", changes=True):
        try:
            answer = service.client.put_object(
                Bucket=service.bucket,
                Key=target.key,
                Body=sendable(buffers, length, target.deadline),  # type: ignore[arg-type]
                WriteOffsetBytes=offset,
                **arguments,
            )
            whole(answer, ["ETag"], target.name, "write", changes=True)
        except ClientError as error:
            refused = error
            if code_of(error) not in (WRONG_OFFSET, TOO_MANY):
                raise
    if refused is None:
        return
    if code_of(refused) == TOO_MANY:
        raise ValueError(f"too many writes to one chunk max={APPENDS_MAX}") from refused
    raise _wrong_offset(service, target, offset) from refused


def _wrong_offset(service: Service, target: Target, offset: int) -> ChunkOffsetError:
    end = int(head(service, target.name, target.key, "write")["ContentLength"])
    return target.wrong_offset(expected=end, actual=offset)
