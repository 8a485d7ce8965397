"""Reading a range straight into the caller's buffer, exactly as long as the service said."""

from __future__ import annotations

import re
from typing import Any, Final

from requests import Response

from siltstone.bindings.gcs.errors import answered, refused, replaced, translated
from siltstone.bindings.gcs.service import Service
from siltstone.bindings.gcs.session import STEP_BYTES
from siltstone.bindings.gcs.uploads import Made, crc_of
from siltstone.core.checksums import crc32c
from siltstone.core.errors import ChunkUnavailableError
from siltstone.core.remote.answers import whole
from siltstone.core.remote.deadline import Deadline
from siltstone.core.remote.ranges import answered_count, at_end

SUM: Final = re.compile(r"crc32c=([A-Za-z0-9+/=]+)", re.ASCII)


def look_at(
    service: Service, name: str, key: str, operation: str, deadline: Deadline
) -> tuple[Made, Any]:
    """What the service says of one object; the second is what the SDK holds of it."""
    blob = service.bucket.blob(key)
    with translated(name, operation), service.session.until(deadline):
        blob.reload(retry=None)
        told = whole(blob._properties, ["generation", "size"], name, operation)
        found = Made(
            key=key,
            generation=int(told["generation"]),
            length=int(told["size"]),
            crc=crc_of(told.get("crc32c", "")),
        )
    return found, blob


def read_range(
    service: Service,
    name: str,
    key: str,
    offset: int,
    buffer: memoryview,
    *,
    deadline: Deadline,
    operation: str = "read_into",
    generation: int | None = None,
) -> int:
    """Fill ``buffer`` from ``offset`` on; return how many bytes, fewer only at the end.

    Args:
        service: where.
        name: of the chunk.
        key: of the object.
        offset: the first byte.
        buffer: of single bytes; takes what is read.
        deadline: of the call.
        operation: the verb, for errors.
        generation: the object must be this one.

    Raises:
        ChunkOffsetError: the chunk ends before ``offset``.
        ChunkUnavailableError: no answer, one that is not what was asked for, or another object.
    """
    if not len(buffer):
        length = look_at(service, name, key, operation, deadline)[0].length
        return at_end(name, offset, length, operation)
    query: dict[str, str | int] = {"alt": "media"}
    if generation is not None:
        query["generation"] = generation
    with translated(name, operation):
        answer = service.send(
            "GET",
            f"/download{service.path(key)}",
            query,
            deadline,
            headers={
                "Range": f"bytes={offset}-{offset + len(buffer) - 1}",
                # What is stored with an encoding comes as it is stored, and so do ranges of it.
                "Accept-Encoding": "gzip",
            },
            stream=True,
        )
        try:
            if answer.status_code in (200, 206):
                count = _expected(answer, offset, len(buffer), name, operation)
                _check_generation(answer, generation, name, operation)
                _fill(answer, buffer[:count], deadline, name, operation)
                _check_sum(answer, offset, buffer[:count], name, operation)
                return count
            error = _refusal(answer, deadline)
            if error.status == 404 and generation is not None:
                raise replaced(name, operation)
            if error.status != 416:
                raise error
        finally:
            answer.close()
    length = look_at(service, name, key, operation, deadline)[0].length
    if offset < length:
        # It has changed since; the caller asks again.
        raise answered(error, name, operation, changes=False) from error
    return at_end(name, offset, length, operation)


def _refusal(answer: Response, deadline: Deadline) -> Any:
    """The answer's own words are few, and are read before the deadline too."""
    deadline.check()
    block = answer.raw.read1(STEP_BYTES, decode_content=True)
    answer._content = block
    return refused(answer)


def _expected(answer: Response, offset: int, wanted: int, name: str, operation: str) -> int:
    is_stored = _is_as_stored(answer)
    return answered_count(
        name,
        operation,
        offset=offset,
        wanted=wanted,
        status=answer.status_code,
        content_range=answer.headers.get("Content-Range", "") if is_stored else "",
        content_length=answer.headers.get("Content-Length", ""),
    )


def _is_as_stored(answer: Response) -> bool:
    """Whether the bytes are those of the object: the service encoded nothing on its own.

    It tells in a header with which encoding the object is stored; without it the range decides,
    which is one of the stored bytes.
    """
    told = answer.headers.get("x-goog-stored-content-encoding")
    sent = answer.headers.get("Content-Encoding", "identity")
    return told is None or told == sent


def _check_generation(answer: Response, wanted: int | None, name: str, operation: str) -> None:
    told = answer.headers.get("x-goog-generation")
    if wanted is not None and told is not None and told != str(wanted):
        raise replaced(name, operation)


def _fill(
    answer: Response, buffer: memoryview, deadline: Deadline, name: str, operation: str
) -> None:
    """Read as it comes, so that the deadline holds however slowly it does."""
    done = 0
    while done < len(buffer):
        deadline.check()
        wanted = min(STEP_BYTES, len(buffer) - done)
        block = answer.raw.read1(wanted, decode_content=False)
        if not block or len(block) > wanted:
            raise ChunkUnavailableError(
                "the answer broke off",
                chunk=name,
                operation=operation,
                expected=len(buffer),
                actual=done,
            )
        buffer[done : done + len(block)] = block
        done += len(block)
    # An end that was seen lets the connection serve the next call.
    answer.raw.read1(1, decode_content=False)


def _check_sum(
    answer: Response, offset: int, buffer: memoryview, name: str, operation: str
) -> None:
    """Compare a chunk that was read as a whole with the sum that the service keeps of it."""
    found = SUM.search(answer.headers.get("x-goog-hash", ""))
    is_all = offset == 0 and answer.headers["Content-Range"].endswith(f"/{len(buffer)}")
    if found is None or not is_all:
        return
    if crc_of(found[1]) not in (None, crc32c(buffer)):
        raise ChunkUnavailableError(
            "the bytes arrived damaged", chunk=name, operation=operation, length=len(buffer)
        )
