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
from siltstone.core.remote.ranges import RangeRead

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


def read_range(service: Service, asked: RangeRead, buffer: memoryview) -> int:
    """Fill ``buffer`` with what is asked for; return how many bytes, fewer only at the end.

    Raises:
        ChunkOffsetError: the chunk ends before the range.
        ChunkUnavailableError: no answer, one that is not what was asked for, or another object.
    """
    name, operation = asked.name, asked.operation
    if not len(buffer):
        return asked.at_end(_length(service, asked))
    query: dict[str, str | int] = {"alt": "media"}
    if asked.version is not None:
        query["generation"] = asked.version
    with translated(name, operation):
        answer = service.send(
            "GET",
            f"/download{service.path(asked.key)}",
            query,
            asked.deadline,
            headers={
                "Range": asked.header,
                # What is stored with an encoding comes as it is stored, and so do ranges of it.
                "Accept-Encoding": "gzip",
            },
            stream=True,
        )
        try:
            if answer.status_code in (200, 206):
                count = _expected(answer, asked)
                _check_generation(answer, asked)
                _fill(answer, buffer[:count], asked)
                _check_sum(answer, buffer[:count], asked)
                return count
            error = _refusal(answer, asked.deadline)
            if error.status == 404 and asked.version is not None:
                raise replaced(name, operation)
            if error.status != 416:
                raise error
        finally:
            answer.close()
    length = _length(service, asked)
    if asked.offset < length:
        # It has changed since; the caller asks again.
        raise answered(error, name, operation, changes=False) from error
    return asked.at_end(length)


def _length(service: Service, asked: RangeRead) -> int:
    looked, _ = look_at(service, asked.name, asked.key, asked.operation, asked.deadline)
    return looked.length


def _refusal(answer: Response, deadline: Deadline) -> Any:
    """The answer's own words are few, and are read before the deadline too."""
    deadline.check()
    block = answer.raw.read1(STEP_BYTES, decode_content=True)
    answer._content = block
    return refused(answer)


def _expected(answer: Response, asked: RangeRead) -> int:
    content_range = answer.headers.get("Content-Range", "") if _is_as_stored(answer) else ""
    return asked.answered_count(
        answer.status_code, content_range, answer.headers.get("Content-Length", "")
    )


def _is_as_stored(answer: Response) -> bool:
    """Whether the bytes are those of the object: the service encoded nothing on its own.

    It tells in a header with which encoding the object is stored; without it the range decides,
    which is one of the stored bytes.
    """
    told = answer.headers.get("x-goog-stored-content-encoding")
    sent = answer.headers.get("Content-Encoding", "identity")
    return told is None or told == sent


def _check_generation(answer: Response, asked: RangeRead) -> None:
    told = answer.headers.get("x-goog-generation")
    if asked.version is not None and told is not None and told != asked.version:
        raise replaced(asked.name, asked.operation)


def _fill(answer: Response, buffer: memoryview, asked: RangeRead) -> None:
    """Read as it comes, so that the deadline holds however slowly it does."""
    done = 0
    while done < len(buffer):
        asked.deadline.check()
        wanted = min(STEP_BYTES, len(buffer) - done)
        block = answer.raw.read1(wanted, decode_content=False)
        if not block or len(block) > wanted:
            raise asked.broken_off(len(buffer), done)
        buffer[done : done + len(block)] = block
        done += len(block)
    # An end that was seen lets the connection serve the next call.
    answer.raw.read1(1, decode_content=False)


def _check_sum(answer: Response, buffer: memoryview, asked: RangeRead) -> None:
    """Compare a chunk that was read as a whole with the sum that the service keeps of it."""
    found = SUM.search(answer.headers.get("x-goog-hash", ""))
    is_all = asked.offset == 0 and answer.headers["Content-Range"].endswith(f"/{len(buffer)}")
    if found is None or not is_all:
        return
    if crc_of(found[1]) not in (None, crc32c(buffer)):
        reason = "the bytes arrived damaged"
        raise asked.error(ChunkUnavailableError, reason, length=len(buffer))
