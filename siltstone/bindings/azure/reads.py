"""Reading a range straight into the caller's buffer, exactly as long as the service said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from azure.core.exceptions import HttpResponseError

from siltstone.bindings.azure.errors import (
    answered,
    code_of,
    headers_of,
    let_go,
    replaced,
    status_of,
    translated,
)
from siltstone.bindings.azure.service import Service
from siltstone.core.errors import ChunkUnavailableError
from siltstone.core.remote.answers import whole
from siltstone.core.remote.deadline import Deadline
from siltstone.core.remote.ranges import PARTIAL, answered_count, at_end, told_length


def head(
    service: Service, name: str, key: str, operation: str, deadline: Deadline | None = None
) -> Any:
    """What the service says of one blob: ``size``, ``etag`` and ``last_modified``."""
    with translated(name, operation):
        if deadline is not None:
            deadline.check()
        found: Any = service.blob(key).get_blob_properties()
        return whole(found, ["size", "etag", "last_modified"], name, operation)


def length_of(service: Service, name: str, key: str, operation: str) -> int:
    """The length of one blob, in bytes."""
    return int(head(service, name, key, operation)["size"])


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
        key: of the blob.
        offset: the first byte.
        buffer: of single bytes; takes what is read.
        operation: the verb, for errors.
        version: the blob must still be this one.

    Raises:
        ChunkOffsetError: the chunk ends before ``offset``.
        ChunkUnavailableError: no answer, one that is not what was asked for, or another version.
    """
    deadline = service.deadline(len(buffer))
    if not len(buffer):
        length = length_of(service, name, key, operation)
        return at_end(name, offset, length, operation)
    with translated(name, operation):
        try:
            answer = _download(service, key, offset, len(buffer), version)
        except HttpResponseError as error:
            let_go(error)
            if status_of(error) == 412 and code_of(error) in ("", "ConditionNotMet"):
                raise replaced(name, operation) from error
            if status_of(error) != 416:
                raise
            told = told_length(headers_of(error).get("content-range", ""))
            if told is None:
                told = length_of(service, name, key, operation)
            if offset < told:
                # It has grown since; the caller asks again.
                raise answered(error, name, operation, changes=False) from error
            return at_end(name, offset, told, operation)
        blocks = answer.iter_raw()
        try:
            count = _expected(answer, offset, len(buffer), name, operation)
            _fill(blocks, buffer[:count], deadline, name, operation)
        finally:
            blocks.close()
            answer.close()
    if not count:
        length = length_of(service, name, key, operation)
        if offset < length:
            raise ChunkUnavailableError(
                "the service sent nothing", chunk=name, operation=operation, offset=offset
            )
        return at_end(name, offset, length, operation)
    return count


def _download(service: Service, key: str, offset: int, length: int, version: str | None) -> Any:
    """One ranged GET, whose body is not read yet.

    The client's own ``download_blob`` reads a whole range into memory before it hands it on, and
    asks again on its own account when that fails; so this calls what it calls.
    """
    operations = service.blob(key)._client.blob
    headers = {} if version is None else {"If-Match": version}
    return operations.download(
        range=f"bytes={offset}-{offset + length - 1}",
        headers=headers,
        cls=lambda answer, _body, _headers: answer.http_response,
    )


def _expected(answer: Any, offset: int, wanted: int, name: str, operation: str) -> int:
    headers = {key.lower(): str(value) for key, value in answer.headers.items()}
    told = headers.get("content-length", "")
    if answer.status_code == PARTIAL and told == "0":
        # An emulator says so of a range that begins at the end; the service refuses it.
        return 0
    return answered_count(
        name,
        operation,
        offset=offset,
        wanted=wanted,
        status=answer.status_code,
        content_range=headers.get("content-range", ""),
        content_length=told,
    )


def _fill(
    blocks: Iterator[bytes], buffer: memoryview, deadline: Deadline, name: str, operation: str
) -> None:
    """Read to the end of the answer, which lets the connection serve the next call."""
    done = 0
    for block in blocks:
        deadline.check()
        if done + len(block) > len(buffer):
            done += len(block)
            break
        buffer[done : done + len(block)] = block
        done += len(block)
    if done != len(buffer):
        raise ChunkUnavailableError(
            "the answer has another length than it said",
            chunk=name,
            operation=operation,
            expected=len(buffer),
            actual=done,
        )
