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
from siltstone.core.remote.ranges import PARTIAL, RangeRead, told_length


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


def read_range(service: Service, asked: RangeRead, buffer: memoryview) -> int:
    """Fill ``buffer`` with what is asked for; return how many bytes, fewer only at the end.

    Raises:
        ChunkOffsetError: the chunk ends before the range.
        ChunkUnavailableError: no answer, one that is not what was asked for, or another version.
    """
    name, operation = asked.name, asked.operation
    if not len(buffer):
        return asked.at_end(_length(service, asked))
    with translated(name, operation):
        try:
            answer = _download(service, asked)
        except HttpResponseError as error:
            let_go(error)
            if status_of(error) == 412 and code_of(error) in ("", "ConditionNotMet"):
                raise replaced(name, operation) from error
            if status_of(error) != 416:
                raise
            told = told_length(headers_of(error).get("content-range", ""))
            if told is None:
                told = _length(service, asked)
            if asked.offset < told:
                # It has grown since; the caller asks again.
                raise answered(error, name, operation, changes=False) from error
            return asked.at_end(told)
        blocks = answer.iter_raw()
        try:
            count = _expected(answer, asked)
            _fill(blocks, buffer[:count], asked)
        finally:
            blocks.close()
            answer.close()
    if not count:
        length = _length(service, asked)
        if asked.offset < length:
            reason = "the service sent nothing"
            raise asked.error(ChunkUnavailableError, reason, offset=asked.offset)
        return asked.at_end(length)
    return count


def _length(service: Service, asked: RangeRead) -> int:
    return length_of(service, asked.name, asked.key, asked.operation)


def _download(service: Service, asked: RangeRead) -> Any:
    """One ranged GET, whose body is not read yet.

    The client's own ``download_blob`` reads a whole range into memory before it hands it on, and
    asks again on its own account when that fails; so this calls what it calls.
    """
    operations = service.blob(asked.key)._client.blob
    headers = {} if asked.version is None else {"If-Match": asked.version}
    return operations.download(
        range=asked.header,
        headers=headers,
        cls=lambda answer, _body, _headers: answer.http_response,
    )


def _expected(answer: Any, asked: RangeRead) -> int:
    headers = {key.lower(): str(value) for key, value in answer.headers.items()}
    told = headers.get("content-length", "")
    if answer.status_code == PARTIAL and told == "0":
        # An emulator says so of a range that begins at the end; the service refuses it.
        return 0
    return asked.answered_count(answer.status_code, headers.get("content-range", ""), told)


def _fill(blocks: Iterator[bytes], buffer: memoryview, asked: RangeRead) -> None:
    """Read to the end of the answer, which lets the connection serve the next call."""
    done = 0
    for block in blocks:
        asked.deadline.check()
        if done + len(block) > len(buffer):
            done += len(block)
            break
        buffer[done : done + len(block)] = block
        done += len(block)
    if done != len(buffer):
        raise asked.error(
            ChunkUnavailableError,
            "the answer has another length than it said",
            expected=len(buffer),
            actual=done,
        )
