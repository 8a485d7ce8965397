"""Removing many blobs by one request, which holds a request for each of them.

The answer is a success as a whole, whatever its parts say; each part names the request that it
answers. What no part speaks of may still be there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.parser import BytesParser
from http.client import parse_headers
from io import BytesIO
from typing import Any, Final

from azure.core.exceptions import HttpResponseError

from siltstone.bindings.azure.errors import answered, translated
from siltstone.bindings.azure.service import Service
from siltstone.core.errors import ChunkError, ChunkNotFoundError, ChunkUnavailableError, Outcome
from siltstone.core.remote.answers import whole

BULK_MAX: Final = 256
"""Requests in one request, as the service has it."""


def delete_many(service: Service, names: Sequence[str]) -> dict[str, ChunkError]:
    """Remove blobs, as many as a request takes at a time; return why some are still there.

    Raises:
        ChunkError: a whole request failed; of its names and those after them nothing is known.
    """
    keys = {service.key(name, "delete"): name for name in names}
    listed = list(keys)
    failed: dict[str, ChunkError] = {}
    for begin in range(0, len(listed), BULK_MAX):
        part = listed[begin : begin + BULK_MAX]
        service.check_open()
        told = _delete(service, part, keys[part[0]])
        for index, key in enumerate(part):
            error = _of_one(told.get(index), keys[key])
            if error is not None:
                failed[keys[key]] = error
    return failed


def _delete(service: Service, keys: Sequence[str], first: str) -> dict[int, tuple[int, str]]:
    """Remove blobs by one request; return status and code of each that is answered."""
    answers: list[Any] = []
    with translated(first, "delete", changes=True):
        service.container.delete_blobs(
            *keys,
            raise_on_any_failure=False,
            raw_response_hook=lambda answer: answers.append(answer.http_response),
        )
        told = parts_of(answers[-1].headers, answers[-1].body())
    whole({"parts": told or None}, ["parts"], first, "delete", changes=True)
    return told


def parts_of(headers: Mapping[str, str], body: bytes) -> dict[int, tuple[int, str]]:
    """Status and code of each part of an answer, by the number of the request in its request.

    The SDK goes by the order of parts, which is not promised.
    """
    kind = f"Content-Type: {headers.get('Content-Type', '')}\r\n\r\n".encode()
    told: dict[int, tuple[int, str]] = {}
    for part in BytesParser().parsebytes(kind + body).walk():
        number, content = str(part.get("Content-ID", "")), part.get_payload(decode=True)
        if not isinstance(content, bytes) or not (number.isascii() and number.isdigit()):
            continue
        line, _, rest = content.lstrip().partition(b"\n")
        words = line.decode("ascii", "replace").split()
        if len(words) > 1 and words[0].startswith("HTTP/") and words[1].isdigit():
            found = parse_headers(BytesIO(rest))
            told[int(number)] = int(words[1]), str(found.get("x-ms-error-code", ""))
    return told


def _of_one(told: tuple[int, str] | None, name: str) -> ChunkError | None:
    """The error of one name within an answer that is a success as a whole."""
    if told is None:
        return ChunkUnavailableError(
            "the answer leaves this chunk out",
            chunk=name,
            operation="delete",
            outcome=Outcome.UNKNOWN,
        )
    status, code = told
    if status < 300:
        return None
    error = HttpResponseError("")
    error.status_code = status
    error.__dict__["error_code"] = code
    reason = answered(error, name, "delete", changes=True)
    return None if isinstance(reason, ChunkNotFoundError) else reason
