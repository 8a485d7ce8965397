"""Reading a range straight into the caller's buffer, exactly as long as the service said."""

from __future__ import annotations

import http.client
import socket
from contextlib import suppress
from typing import Any, Final

from botocore.exceptions import ClientError

from siltstone.bindings.s3.errors import answered, replaced, status_of, translated
from siltstone.bindings.s3.service import Service
from siltstone.bindings.s3.uploads import head
from siltstone.core.constants import KIB, MIB
from siltstone.core.remote.ranges import RangeRead, told_length
from siltstone.core.remote.timed_answers import TimedStream

STEP_BYTES: Final = MIB
"""What one read of the socket asks for."""

WOKEN_AT: Final = 256 * KIB
"""While much is to come, the kernel wakes a reader when this much is there, not at every packet:
each wake-up has to get the interpreter from the other threads that read."""

ROOM_BYTES_MIN: Final = MIB
"""For that the kernel has to have a buffer of this size for the connection."""


def read_range(service: Service, asked: RangeRead, buffer: memoryview) -> int:
    """Fill ``buffer`` with what is asked for; return how many bytes, fewer only at the end.

    Raises:
        ChunkOffsetError: the chunk ends before the range.
        ChunkUnavailableError: no answer, one that is not what was asked for, or another version.
    """
    name, operation = asked.name, asked.operation
    if not len(buffer):
        return asked.at_end(_length(service, asked))
    arguments: Any = {} if asked.version is None else {"IfMatch": asked.version}
    reads = service.reads_of(operation, asked.key, len(buffer))
    with translated(name, operation):
        try:
            if reads is not None:
                found = reads.read(asked.key, asked.offset, buffer, asked.deadline)
                if found is None:
                    raise asked.another()
                return found
            answer = service.client.get_object(
                Bucket=service.bucket, Key=asked.key, Range=asked.header, **arguments
            )
        except ClientError as error:
            if status_of(error) == 412:
                raise replaced(name, operation) from error
            if status_of(error) != 416:
                raise
            length = _told_length(error)
            if length is None:
                length = _length(service, asked)
            if asked.offset < length:
                # It has grown since; the caller asks again.
                raise answered(error, name, operation, changes=False) from error
            return asked.at_end(length)
        body = answer["Body"]
        try:
            count = asked.answered_count(
                answer["ResponseMetadata"]["HTTPStatusCode"],
                str(answer.get("ContentRange", "")),
                str(answer.get("ContentLength", "")),
            )
            _fill(body, buffer[:count], asked)
        finally:
            body.close()
    return count


def _fill(body: Any, buffer: memoryview, asked: RangeRead) -> None:
    plain = plain_body(body)
    source = body if plain is None else plain
    connection = None if plain is None else _plain_socket(plain)
    patient = False
    done = 0
    while done < len(buffer):
        asked.deadline.check()
        # Never more than is sure to come within this step, whatever a layer above has read already.
        wanted = len(buffer) - done >= STEP_BYTES + 2 * WOKEN_AT
        if connection is not None and wanted != patient and (patient or _has_room(connection)):
            _wake_at(connection, WOKEN_AT if wanted else 1)
            patient = wanted
        count = source.readinto(buffer[done : done + STEP_BYTES])
        if not count:
            raise asked.broken_off(len(buffer), done)
        done += count
    if plain is not None:
        body._raw_stream.drain_conn()  # it finds the end, and the connection is used again


def plain_body(body: Any) -> http.client.HTTPResponse | None:
    """The answer below a body of the SDK, which reads into a buffer; the layers above it copy.

    Returns:
        ``None`` where the layers are not those that are known.
    """
    found = getattr(getattr(body, "_raw_stream", None), "_original_response", None)
    return found if isinstance(found, http.client.HTTPResponse) else None


def _plain_socket(answer: http.client.HTTPResponse) -> socket.socket | None:
    """What an answer comes from; ``None`` where it is encrypted, or something else."""
    raw = getattr(answer.fp, "raw", None)
    found = raw.connection if isinstance(raw, TimedStream) else None
    return found if type(found) is socket.socket else None


def _has_room(connection: socket.socket) -> bool:
    """Whether the kernel has found out by itself that much may be on its way.

    Asked to wait for much before that, it would take that for all that may be: over a link of 10 ms
    a connection then takes seconds to get as fast as it would have been at once.
    """
    room = connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return room >= ROOM_BYTES_MIN


def _wake_at(connection: socket.socket, count: int) -> None:
    """Have the kernel tell of bytes when ``count`` are there, or no more come."""
    with suppress(OSError):  # a system that cannot do that tells of each
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)


def _told_length(error: ClientError) -> int | None:
    """The length that a refused range tells, in its body or its headers."""
    told = str(error.response.get("Error", {}).get("ActualObjectSize", ""))
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return told_length(told or str(headers.get("content-range", "")))


def _length(service: Service, asked: RangeRead) -> int:
    return int(head(service, asked.name, asked.key, asked.operation)["ContentLength"])
