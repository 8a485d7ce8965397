"""Making an object that did not exist: by one request, or in pieces of which the last one counts.

The object appears with the end of an upload that began with the condition that there is none, and
the service looks at the condition then. So a failure before the last piece had no effect, whatever
it was. An upload that was not ended holds nothing that is seen or paid for, and the service
forgets it after a week.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from requests import Response

from siltstone.bindings.gcs.errors import refused, translated
from siltstone.bindings.gcs.service import Service
from siltstone.core.checksums import crc32c_of, crc_text
from siltstone.core.constants import Buffer
from siltstone.core.errors import ChunkUnavailableError
from siltstone.core.remote.answers import NOT_APPLIED, UNKNOWN, whole
from siltstone.core.remote.body import cut, sendable
from siltstone.core.remote.target import Target

FIELDS: Final = "name,generation,size,crc32c"
PERSISTED: Final = re.compile(r"bytes=0-(\d+)", re.ASCII)
MORE: Final = 308
"""The service has a piece, and waits for the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An object that the service has.

    Attributes:
        key: of the object.
        generation: tells it from every other that had, has or will have this key.
        length: in bytes.
        crc: its CRC32C, if the service tells it.
    """

    key: str
    generation: int
    length: int
    crc: int | None


def crc_of(text: object) -> int | None:
    """The CRC32C that the service wrote, if it is one."""
    try:
        found = base64.b64decode(str(text), validate=True)
    except ValueError:
        return None
    return int.from_bytes(found, "big") if len(found) == 4 else None


def put(service: Service, target: Target, buffers: Sequence[Buffer], length: int) -> Made:
    """Make an object, by one request unless it is large."""
    if length <= service.settings.put_bytes_max:
        return put_at_once(service, target, buffers, length)
    crc = crc32c_of(buffers)
    answer = _in_pieces(service, target, buffers, length, crc)
    return made(json_of(answer), target, length, crc)


def put_at_once(service: Service, target: Target, buffers: Sequence[Buffer], length: int) -> Made:
    """Make an object by one request."""
    crc = crc32c_of(buffers)
    return made(json_of(_at_once(service, target, buffers, crc)), target, length, crc)


def made(told: Any, target: Target, length: int, crc: int | None) -> Made:
    """Return the object of a success, if it is what was to be made.

    Raises:
        ChunkUnavailableError: it is no answer of the service, or the object has other bytes; it may
            be there anyway.
    """
    told = whole(told, ["name", "generation", "size"], target.name, target.operation, changes=True)
    with translated(target.name, target.operation, changes=True):
        found = Made(
            key=target.key,
            generation=int(told["generation"]),
            length=int(told["size"]),
            crc=crc_of(told.get("crc32c", "")),
        )
    is_other = crc is not None and found.crc is not None and found.crc != crc
    if found.length != length or is_other or told["name"] != target.key:
        raise target.error(
            ChunkUnavailableError,
            "the service made another object than was asked for",
            outcome=UNKNOWN,
            expected=length,
            actual=found.length,
        )
    return found


def _at_once(service: Service, target: Target, buffers: Sequence[Buffer], crc: int) -> Response:
    """Send what is known of the object and its bytes as two parts of one body."""
    border = f"=={os.urandom(16).hex()}=="
    head = (
        f"--{border}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n"
        f"{_metadata(service, target, crc)}\r\n"
        f"--{border}\r\nContent-Type: application/octet-stream\r\n\r\n"
    )
    sent = [head.encode(), *buffers, f"\r\n--{border}--\r\n".encode()]
    with translated.change(target):
        answer = service.send(
            "POST",
            f"/upload{service.path()}",
            _query(service, "multipart"),
            target.deadline,
            body=sendable(sent, sum(map(len, sent)), target.deadline),
            headers={"Content-Type": f'multipart/related; boundary="{border}"'},
        )
        if answer.status_code != 200:
            raise _refusal(answer, target)
    return answer


def _in_pieces(
    service: Service, target: Target, buffers: Sequence[Buffer], length: int, crc: int
) -> Response:
    place = _begun(service, target, length, crc)
    start = 0
    try:
        while True:
            size = min(service.settings.piece_bytes, length - start)
            is_last = start + size == length
            with translated.change(target, changes=is_last):
                answer = service.send(
                    "PUT",
                    place[0],
                    place[1],
                    target.deadline,
                    body=sendable(cut(buffers, start, size), size, target.deadline),
                    headers={"Content-Range": f"bytes {start}-{start + size - 1}/{length}"},
                )
                if answer.status_code in (200, 201) and is_last:
                    return answer
                if answer.status_code != MORE:
                    raise _of_upload(answer, target)
            start = _persisted(answer, target, start, size)
    except ChunkUnavailableError as error:
        if error.outcome is NOT_APPLIED:
            _cancel(service, place)
        # Else it may just be ending, and is left to its end.
        raise


def _begun(
    service: Service, target: Target, length: int, crc: int
) -> tuple[str, dict[str, str | int]]:
    """Begin an upload in pieces; return path and query of its address.

    The address is a secret and may name another host, so it is asked of the same endpoint always.
    """
    with translated(target.name, target.operation):
        answer = service.send(
            "POST",
            f"/upload{service.path()}",
            _query(service, "resumable"),
            target.deadline,
            body=_metadata(service, target, crc).encode(),
            headers={
                "Content-Type": "application/json; charset=UTF-8",
                "X-Upload-Content-Type": "application/octet-stream",
                "X-Upload-Content-Length": str(length),
            },
        )
        if answer.status_code not in (200, 201):
            raise _refusal(answer, target)
    told = {name.lower(): value for name, value in answer.headers.items()}
    whole(told, ["location"], target.name, target.operation)
    parts = urlsplit(told["location"])
    return parts.path, dict(parse_qsl(parts.query, keep_blank_values=True))


def _persisted(answer: Response, target: Target, start: int, size: int) -> int:
    """How many bytes the service has; it may keep fewer of a piece than it was sent."""
    found = PERSISTED.fullmatch(answer.headers.get("Range", ""))
    end = int(found[1]) + 1 if found else 0
    if not start < end <= start + size:
        raise target.error(
            ChunkUnavailableError,
            "the upload does not get on",
            outcome=NOT_APPLIED,
            sent=start + size,
            kept=end,
        )
    return end


def _of_upload(answer: Response, target: Target) -> Exception:
    """The error for an upload that was ended; its address is what was not found."""
    if answer.status_code == 404:
        reason = "the upload is gone: it was ended elsewhere"
        return target.error(ChunkUnavailableError, reason, outcome=UNKNOWN)
    return refused(answer)


def _cancel(service: Service, place: tuple[str, dict[str, str | int]]) -> None:
    with suppress(Exception):  # best effort: the failure before is the one to tell
        service.send("DELETE", place[0], place[1], service.deadline(0))


def creation(service: Service) -> dict[str, str | int]:
    """What every request that makes an object asks for: that there is none, and how it is kept."""
    query: dict[str, str | int] = {"ifGenerationMatch": 0, "fields": FIELDS}
    if service.settings.kms_key_name is not None:
        query["kmsKeyName"] = service.settings.kms_key_name
    return query


def properties(service: Service) -> dict[str, str]:
    """What is said of every object that is made."""
    told = {"contentType": "application/octet-stream"}
    if service.settings.storage_class is not None:
        told["storageClass"] = service.settings.storage_class
    return told


def json_of(answer: Response) -> Any:
    """What an answer says, if it is JSON."""
    try:
        return json.loads(answer.content)
    except ValueError:
        return None


def _query(service: Service, kind: str) -> dict[str, str | int]:
    return {"uploadType": kind, **creation(service)}


def _metadata(service: Service, target: Target, crc: int) -> str:
    return json.dumps({"name": target.key, "crc32c": crc_text(crc), **properties(service)})


def _refusal(answer: Response, target: Target) -> Exception:
    """The error for an upload that did not begin: nothing but a bucket can be missing."""
    if answer.status_code == 404:
        return target.error(ChunkUnavailableError, "the bucket does not exist")
    return refused(answer)
