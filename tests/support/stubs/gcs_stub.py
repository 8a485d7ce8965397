"""A small Google Cloud Storage of our own, which fails as a test wants it and counts requests.

It knows the requests of the binding and no others, takes every token, and keeps objects in memory.
What it answers is what the service's documentation says, conditions above all; each kind of them
can be switched off.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from siltstone.bindings.gcs.settings import GcsSettings
from siltstone.core.checksums import crc32c

NOT_THERE = "No such object: bucket/key"
NO_BUCKET = "The specified bucket does not exist."
NOT_MET = "At least one of the pre-conditions you specified did not hold."


@dataclass(frozen=True)
class Reply:
    """An answer: status, body and headers."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def refusal(status: int, reason: str, message: str = "no", **headers: str) -> Reply:
    told = {"error": {"code": status, "message": message, "errors": [{"reason": reason}]}}
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps(told).encode(), more)


def success(told: dict[str, Any]) -> Reply:
    return Reply(200, json.dumps(told).encode(), {"Content-Type": "application/json"})


@dataclass(frozen=True)
class Request:
    """What was asked; ``what`` is a word for the operation."""

    what: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Stored:
    """An object."""

    content: bytes
    generation: int
    updated: float


class BreakError(Exception):
    """Close the connection without an answer."""


class HalfError(Exception):
    """Answer with the headers and one half of the body, then close the connection."""


Fault = Callable[[Request, Callable[[], Reply]], Reply]
"""Answers a request in its own way; the callable carries the request out."""
CONDITIONS = frozenset({"create", "compose", "source", "delete"})


class Stub:
    """The service.

    Attributes:
        objects: by key.
        asked: every request, in order.
        faults: the next request of a kind is answered by the first of its faults.
        heeded: the kinds of conditions that are looked at.
        kept: how many bytes of a piece are kept, for the next pieces in order.
        is_stopped: whether it answers no request.
    """

    def __init__(self, bucket: str = "bucket") -> None:
        self.bucket = bucket
        self.objects: dict[str, Stored] = {}
        self.uploads: dict[str, tuple[dict[str, Any], dict[str, str], bytearray]] = {}
        self.asked: list[Request] = []
        self.faults: dict[str, list[Fault]] = {}
        self.heeded = set(CONDITIONS)
        self.kept: list[int] = []
        self.is_stopped = False
        self.lock = threading.Lock()
        self.endpoint = ""
        self._generation = time.time_ns() // 1_000

    def settings(self, **more: Any) -> GcsSettings:
        values: dict[str, Any] = {
            "bucket": self.bucket, "endpoint": self.endpoint, "insecure": True,
            "connect_timeout_s": 10, "read_timeout_s": 20,
        }  # fmt: skip
        if not {"token", "credentials_file"} & set(more):
            values["anonymous"] = True
        return GcsSettings.model_validate(values | more)

    def fail(self, what: str, *faults: Fault | Reply) -> None:
        for fault in faults:
            made = (lambda _, __, fault=fault: fault) if isinstance(fault, Reply) else fault
            self.faults.setdefault(what, []).append(made)

    def whats(self) -> list[str]:
        return [request.what for request in self.asked]

    def contents(self) -> dict[str, bytes]:
        with self.lock:
            return {key: stored.content for key, stored in self.objects.items()}

    def store(self, key: str, content: bytes, *, age_s: float = 0.0) -> Stored:
        """Put an object there, whatever is there."""
        self._generation += 1
        stored = Stored(content, self._generation, time.time() - age_s)
        self.objects[key] = stored
        return stored

    def answer(self, request: Request, bucket: str) -> Reply:
        with self.lock:
            self.asked.append(request)
            if self.is_stopped:
                raise BreakError
            faults = self.faults.get(request.what)
            fault = faults.pop(0) if faults else None

        def carry_out() -> Reply:
            with self.lock:
                if bucket != self.bucket:
                    return refusal(404, "notFound", NO_BUCKET)
                return getattr(self, f"do_{request.what}")(request)  # type: ignore[no-any-return]

        return carry_out() if fault is None else fault(request, carry_out)

    def do_create(self, request: Request) -> Reply:
        head, _, rest = request.body.partition(b"\r\n\r\n")
        border = head.partition(b"\r\n")[0]
        told, _, rest = rest.partition(b"\r\n" + border)
        content = rest.partition(b"\r\n\r\n")[2].rpartition(b"\r\n" + border + b"--")[0]
        return self._make(json.loads(told), request.query, content)

    def do_begin(self, request: Request) -> Reply:
        metadata = json.loads(request.body)
        refused = self._refused(metadata["name"], request.query, "create")
        if refused is not None:
            return refused
        upload_id = f"u{len(self.uploads)}"
        self.uploads[upload_id] = (metadata, request.query, bytearray())
        # The host is one that no client may send credentials to.
        place = f"http://elsewhere.invalid/upload/storage/v1/b/{self.bucket}/o"
        return Reply(200, b"", {"Location": f"{place}?upload_id={upload_id}"})

    def do_piece(self, request: Request) -> Reply:
        found = self.uploads.get(request.query["upload_id"])
        if found is None:
            return refusal(404, "notFound", "")
        metadata, query, content = found
        span, _, total = request.headers["content-range"].removeprefix("bytes ").partition("/")
        assert int(span.partition("-")[0]) == len(content)
        kept = self.kept.pop(0) if self.kept else len(request.body)
        content += request.body[:kept]
        if len(content) < int(total):
            told = {"Range": f"bytes=0-{len(content) - 1}"} if content else {}
            return Reply(308, b"", told)
        del self.uploads[request.query["upload_id"]]
        return self._make(metadata, query, bytes(content))

    def do_cancel(self, request: Request) -> Reply:
        self.uploads.pop(request.query["upload_id"], None)
        return Reply(499)

    def do_stat(self, request: Request) -> Reply:
        found = self._found(request)
        return found if isinstance(found, Reply) else success(self._facts(request.key, found))

    def do_read(self, request: Request) -> Reply:
        found = self._found(request)
        if isinstance(found, Reply):
            return found
        facts = {
            "x-goog-generation": str(found.generation),
            "x-goog-hash": f"crc32c={_sum(found.content)}",
        }
        first, last = (int(number) for number in request.headers["range"][6:].split("-"))
        if first >= len(found.content):
            return Reply(416, b"out of range", {"Content-Range": f"bytes */{len(found.content)}"})
        part = found.content[first : last + 1]
        facts["Content-Range"] = f"bytes {first}-{first + len(part) - 1}/{len(found.content)}"
        return Reply(206, part, facts)

    def do_delete(self, request: Request) -> Reply:
        found = self._found(request)
        if isinstance(found, Reply):
            return found
        refused = self._refused(request.key, request.query, "delete")
        if refused is not None:
            return refused
        del self.objects[request.key]
        return Reply(204)

    def do_list(self, request: Request) -> Reply:
        prefix, start = request.query.get("prefix", ""), request.query.get("startOffset", "")
        keys = sorted(self.objects, key=str.encode)
        keys = [k for k in keys if k.startswith(prefix) and k.encode() >= start.encode()]
        # A token names the last object of the page before, whatever goes meanwhile.
        last = request.query.get("pageToken", "")
        keys = [k for k in keys if k.encode() > last.encode()]
        step = min(1_000, int(request.query.get("maxResults", 1_000)))
        page = keys[:step]
        told: dict[str, Any] = {"kind": "storage#objects"}
        if page and "items" in request.query["fields"]:
            told["items"] = [self._facts(key, self.objects[key]) for key in page]
        if len(keys) > step:
            told["nextPageToken"] = page[-1]
        return success(told)

    def do_compose(self, request: Request) -> Reply:
        asked = json.loads(request.body)
        sources = asked["sourceObjects"]
        if len(sources) > 32:
            return refusal(400, "invalid", "The number of source components exceeds the maximum")
        parts = []
        for source in sources:
            found = self.objects.get(source["name"])
            wanted = source.get("generation") if "source" in self.heeded else None
            if found is None or wanted not in (None, found.generation, str(found.generation)):
                return refusal(404, "notFound", f"Object {source['name']} not found.")
            parts.append(found.content)
        told = {**asked.get("destination", {}), "name": request.key}
        return self._make(told, request.query, b"".join(parts), "compose")

    def _make(
        self, metadata: dict[str, Any], query: dict[str, str], content: bytes, kind: str = "create"
    ) -> Reply:
        refused = self._refused(metadata["name"], query, kind)
        if refused is not None:
            return refused
        if metadata.get("crc32c", _sum(content)) != _sum(content):
            return refusal(400, "invalid", "Provided CRC32C doesn't match calculated CRC32C")
        return success(self._facts(metadata["name"], self.store(metadata["name"], content)))

    def _refused(self, key: str, query: dict[str, str], kind: str) -> Reply | None:
        wanted = query.get("ifGenerationMatch")
        found = self.objects.get(key)
        there = 0 if found is None else found.generation
        if wanted is not None and kind in self.heeded and int(wanted) != there:
            return refusal(412, "conditionNotMet", NOT_MET)
        return None

    def _found(self, request: Request) -> Stored | Reply:
        found = self.objects.get(request.key)
        wanted = request.query.get("generation")
        if found is None or (wanted is not None and int(wanted) != found.generation):
            return refusal(404, "notFound", NOT_THERE)
        return found

    def _facts(self, key: str, stored: Stored) -> dict[str, Any]:
        return {
            "name": key,
            "generation": str(stored.generation),
            "size": str(len(stored.content)),
            "crc32c": _sum(stored.content),
            "updated": datetime.fromtimestamp(stored.updated, UTC).strftime(
                "%Y-%m-%dT%H:%M:%S.%fZ"
            ),
        }


def _sum(content: bytes) -> str:
    return base64.b64encode(crc32c(content).to_bytes(4, "big")).decode()


def broken(_: Request, __: Callable[[], Reply]) -> Reply:
    """No effect, and no answer."""
    raise BreakError


def lost_reply(_: Request, carry_out: Callable[[], Reply]) -> Reply:
    """The effect, and no answer."""
    carry_out()
    raise BreakError


def half_body(_: Request, carry_out: Callable[[], Reply]) -> Reply:
    """An answer that breaks off."""
    raise HalfError(carry_out())
