"""Reading a range straight into the caller's buffer, exactly as long as the service said."""

from __future__ import annotations

import re
from typing import Any, Final

from botocore.exceptions import ClientError

from siltstone.bindings.s3.errors import answered, replaced, status_of, translated
from siltstone.bindings.s3.service import Service
from siltstone.bindings.s3.uploads import head
from siltstone.core.errors import ChunkOffsetError, ChunkUnavailableError
from siltstone.core.remote.deadline import Deadline
from siltstone.core.words import MIB

STEP_BYTES: Final = MIB
"""What one read of the socket asks for."""
RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)", re.ASCII)


def read_range(
    service: Service,
    name: str,
    key: str,
    offset: int,
    buffer: memoryview,
    *,
    operation: str = "read_into",
    version: str | None = None,
) -> int:
    """Fill ``buffer`` from ``offset`` on; return how many bytes, fewer only at the end.

    Args:
        service: where.
        name: of the chunk.
        key: of the object.
        offset: the first byte.
        buffer: of single bytes; takes what is read.
        operation: the verb, for errors.
        version: the object must still be this one.

    Raises:
        ChunkOffsetError: the chunk ends before ``offset``.
        ChunkUnavailableError: no answer, one that is not what was asked for, or another version.
    """
    deadline = service.deadline(len(buffer))
    if not len(buffer):
        return _at_end(name, offset, _length(service, name, key, operation), operation)
    arguments: Any = {} if version is None else {"IfMatch": version}
    with translated(name, operation):
        try:
            answer = service.client.get_object(
                Bucket=service.bucket,
                Key=key,
                Range=f"bytes={offset}-{offset + len(buffer) - 1}",
                **arguments,
            )
        except ClientError as error:
            if status_of(error) == 412:
                raise replaced(name, operation) from error
            if status_of(error) != 416:
                raise
            length = _told_length(error)
            if length is None:
                length = _length(service, name, key, operation)
            if offset < length:
                # It has grown since; the caller asks again.
                raise answered(error, name, operation, changes=False) from error
            return _at_end(name, offset, length, operation)
        body = answer["Body"]
        try:
            count = _expected(answer, offset, len(buffer), name, operation)
            _fill(body, buffer[:count], deadline, name, operation)
        finally:
            body.close()
    return count


def _expected(answer: Any, offset: int, wanted: int, name: str, operation: str) -> int:
    """How many bytes the answer holds, if it is the answer to what was asked."""
    status = answer["ResponseMetadata"]["HTTPStatusCode"]
    told = int(answer.get("ContentLength", -1))
    found = RANGE.fullmatch(str(answer.get("ContentRange", "")))
    if status == 206 and found is not None:
        first, last = int(found[1]), int(found[2])
        count = last - first + 1
        whole = count == wanted or (found[3] != "*" and last + 1 == int(found[3]))
        if first == offset and 0 < count <= wanted and told == count and whole:
            return count
    raise ChunkUnavailableError(
        "the service sent another range than was asked for",
        chunk=name,
        operation=operation,
        status=status,
    )


def _fill(body: Any, buffer: memoryview, deadline: Deadline, name: str, operation: str) -> None:
    done = 0
    while done < len(buffer):
        deadline.check()
        count = body.readinto(buffer[done : done + STEP_BYTES])
        if not count:
            raise ChunkUnavailableError(
                "the answer broke off",
                chunk=name,
                operation=operation,
                expected=len(buffer),
                actual=done,
            )
        done += count


def _told_length(error: ClientError) -> int | None:
    """The length that a refused range tells, in its body or its headers."""
    told = str(error.response.get("Error", {}).get("ActualObjectSize", ""))
    if not told:
        headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        told = str(headers.get("content-range", "")).rpartition("/")[2]
    return int(told) if told.isascii() and told.isdigit() else None


def _length(service: Service, name: str, key: str, operation: str) -> int:
    return int(head(service, name, key, operation)["ContentLength"])


def _at_end(name: str, offset: int, length: int, operation: str) -> int:
    if offset > length:
        raise ChunkOffsetError(chunk=name, operation=operation, expected=length, actual=offset)
    return 0
