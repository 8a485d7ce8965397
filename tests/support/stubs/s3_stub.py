"""A small S3 of our own, which fails as a test wants it and counts what it was asked.

It knows the requests of the binding and no others, takes every signature, and keeps objects in
memory. A bucket whose name ends in ``--x-s3`` is a directory bucket: it appends, lists in no order,
and knows only prefixes that end in a slash.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from siltstone.bindings.s3.settings import S3Settings

DATE = "2026-01-01T00:00:00.000Z"
HTTP_DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
SESSION = (
    "<CreateSessionResult><Credentials><SessionToken>t</SessionToken><SecretAccessKey>s"
    "</SecretAccessKey><AccessKeyId>a</AccessKeyId><Expiration>2036-01-01T00:00:00Z</Expiration>"
    "</Credentials></CreateSessionResult>"
)


@dataclass(frozen=True)
class Reply:
    """An answer: status, headers and body."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def refusal(status: int, code: str, **headers: str) -> Reply:
    text = f"<Error><Code>{code}</Code><Message>no</Message></Error>"
    return Reply(status, text.encode(), {k.replace("_", "-"): v for k, v in headers.items()})


@dataclass(frozen=True)
class Request:
    """What was asked; ``what`` is the method and what in the query tells the operation."""

    what: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class BreakError(Exception):
    """Close the connection without an answer."""


class HalfError(Exception):
    """Answer with the headers and one half of the body, then close the connection."""


Fault = Callable[[Request, Callable[[], Reply]], Reply]
"""Answers a request in its own way; the callable carries the request out."""


class Stub:
    """The service.

    Attributes:
        objects: by key.
        asked: every request, in order.
        faults: the next request of a kind is answered by the first of its faults.
        connections: how many were made.
        conditional: whether ``If-None-Match`` is heeded.
    """

    def __init__(self, bucket: str = "bucket") -> None:
        self.bucket = bucket
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, tuple[str, dict[int, bytes]]] = {}
        self._upload_numbers = count()
        self.asked: list[Request] = []
        self.connections = 0
        self.faults: dict[str, list[Fault]] = {}
        self.conditional = True
        self.appends = bucket.endswith("--x-s3")
        self.lock = threading.Lock()
        self.endpoint = ""

    def settings(self, **more: Any) -> S3Settings:
        values: dict[str, Any] = {
            "bucket": self.bucket, "endpoint": self.endpoint, "insecure": True,
            "region": "us-east-1", "access_key_id": "id", "secret_access_key": "secret",
            "connect_timeout_s": 10, "read_timeout_s": 20,
        }  # fmt: skip
        if not self.bucket.endswith("--x-s3"):
            values["path_style"] = True
        return S3Settings.model_validate(values | more)

    def fail(self, what: str, *faults: Fault | Reply) -> None:
        for fault in faults:
            made = (lambda _, __, fault=fault: fault) if isinstance(fault, Reply) else fault
            self.faults.setdefault(what, []).append(made)

    def whats(self) -> list[str]:
        return [request.what for request in self.asked]

    def answer(self, request: Request) -> Reply:
        with self.lock:
            self.asked.append(request)
            faults = self.faults.get(request.what)
            fault = faults.pop(0) if faults else None

        def carry_out() -> Reply:
            with self.lock:
                return self._carry_out(request)

        return carry_out() if fault is None else fault(request, carry_out)

    def _carry_out(self, request: Request) -> Reply:
        method = request.what.replace("?", "_").replace(" ", "_").replace("-", "_")
        return getattr(self, f"do_{method.lower()}")(request)  # type: ignore[no-any-return]

    def _refused(self, request: Request) -> Reply | None:
        if request.key in self.objects and "if-none-match" in request.headers and self.conditional:
            return refusal(412, "PreconditionFailed")
        return None

    def do_put(self, request: Request) -> Reply:
        offset = request.headers.get("x-amz-write-offset-bytes")
        if offset is not None and self.appends:
            there = self.objects.get(request.key)
            if there is None and offset != "0":
                return refusal(404, "NoSuchKey")
            if int(offset) != len(there or b""):
                return refusal(400, "InvalidWriteOffset")
            self.objects[request.key] = (there or b"") + request.body
            return self._made(request.key)
        refused = self._refused(request)
        if refused is not None:
            return refused
        self.objects[request.key] = request.body
        return self._made(request.key)

    def do_head(self, request: Request) -> Reply:
        found = self.objects.get(request.key)
        return Reply(404) if found is None else Reply(200, b"", self._facts(request.key, found))

    def do_get(self, request: Request) -> Reply:
        found = self.objects.get(request.key)
        if found is None:
            return refusal(404, "NoSuchKey")
        facts = self._facts(request.key, found)
        if request.headers.get("if-match", facts["ETag"]) != facts["ETag"]:
            return refusal(412, "PreconditionFailed")
        wanted = request.headers.get("range")
        if wanted is None:
            return Reply(200, found, facts)
        first, last = (int(number) for number in wanted[6:].split("-"))
        if first >= len(found):
            return refusal(416, "InvalidRange")
        part = found[first : last + 1]
        told = f"bytes {first}-{first + len(part) - 1}/{len(found)}"
        facts |= {"Content-Range": told, "Content-Length": str(len(part))}
        return Reply(206, part, facts)

    def do_delete(self, request: Request) -> Reply:
        self.objects.pop(request.key, None)
        return Reply(204)

    def do_get_list_type(self, request: Request) -> Reply:
        prefix, after = request.query.get("prefix", ""), request.query.get("start-after", "")
        token = request.query.get("continuation-token", "")
        keys = sorted(self.objects, key=str.encode)
        if self.appends:
            assert not prefix or prefix.endswith("/")
            assert not after
            keys = sorted(self.objects, key=lambda key: hashlib.md5(key.encode()).digest())
        keys = [key for key in keys if key.startswith(prefix)]
        keys = keys if self.appends else [k for k in keys if k.encode() > after.encode()]
        begin = int(token or 0)
        step = int(request.query.get("max-keys", 1_000))
        page, more = keys[begin : begin + step], len(keys) > begin + step
        entries = "".join(
            f"<Contents><Key>{quote(key)}</Key><LastModified>{DATE}</LastModified>"
            f"<ETag>{escape(self._etag(self.objects[key]))}</ETag>"
            f"<Size>{len(self.objects[key])}</Size></Contents>"
            for key in page
        )
        told = f"<NextContinuationToken>{begin + step}</NextContinuationToken>" if more else ""
        return self._xml(
            f"<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}"
            f"</IsTruncated>{told}{entries}</ListBucketResult>"
        )

    def do_get_session(self, _: Request) -> Reply:
        return self._xml(SESSION)

    def do_post_delete(self, request: Request) -> Reply:
        keys = [part.partition("</Key>")[0] for part in request.body.decode().split("<Key>")[1:]]
        for key in keys:
            self.objects.pop(key, None)
        told = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        return self._xml(f"<DeleteResult>{told}</DeleteResult>")

    def do_post_uploads(self, request: Request) -> Reply:
        upload_id = f"u{next(self._upload_numbers)}"  # the id of an ended one is not given again
        self.uploads[upload_id] = (request.key, {})
        return self._xml(
            "<InitiateMultipartUploadResult>"
            f"<UploadId>{upload_id}</UploadId></InitiateMultipartUploadResult>"
        )

    def do_put_uploadid(self, request: Request) -> Reply:
        source = request.headers.get("x-amz-copy-source")
        content = request.body
        if source is not None:
            key = unquote(source).removeprefix("/").removeprefix(f"{self.bucket}/")
            whole = self.objects[key]
            wanted = request.headers.get("x-amz-copy-source-if-match")
            if wanted not in (None, self._etag(whole)):
                return refusal(412, "PreconditionFailed")
            first, last = request.headers["x-amz-copy-source-range"][6:].split("-")
            content = whole[int(first) : int(last) + 1]
        self.uploads[request.query["uploadId"]][1][int(request.query["partNumber"])] = content
        if source is None:
            return Reply(200, b"", {"ETag": self._etag(content)})
        return self._xml(f"<CopyPartResult><ETag>{self._etag(content)}</ETag></CopyPartResult>")

    def do_post_uploadid(self, request: Request) -> Reply:
        key, parts = self.uploads[request.query["uploadId"]]
        refused = self._refused(request)
        if refused is not None:
            return refused
        del self.uploads[request.query["uploadId"]]
        self.objects[key] = b"".join(parts[number] for number in sorted(parts))
        return self._xml(
            "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
        )

    def do_delete_uploadid(self, request: Request) -> Reply:
        self.uploads.pop(request.query["uploadId"], None)
        return Reply(204)

    def do_get_uploads(self, request: Request) -> Reply:
        found = "".join(
            f"<Upload><Key>{key}</Key><UploadId>{upload_id}</UploadId><Initiated>{DATE}</Initiated>"
            "</Upload>"
            for upload_id, (key, _) in self.uploads.items()
            if key.startswith(request.query.get("prefix", ""))
        )
        return self._xml(f"<ListMultipartUploadsResult>{found}</ListMultipartUploadsResult>")

    def _etag(self, content: bytes) -> str:
        return f'"{hashlib.md5(content).hexdigest()}"'

    def _facts(self, key: str, content: bytes) -> dict[str, str]:
        length = str(len(content))
        return {"ETag": self._etag(content), "Last-Modified": HTTP_DATE, "Content-Length": length}

    def _made(self, key: str) -> Reply:
        return Reply(200, b"", {"ETag": self._etag(self.objects[key])})

    def _xml(self, text: str) -> Reply:
        return Reply(200, text.encode(), {"Content-Type": "application/xml"})


TELLING = ("uploads", "uploadId", "delete", "list-type", "session")


@contextmanager
def running(stub: Stub) -> Iterator[Stub]:
    """Let a stub answer on a free port of the loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            with stub.lock:
                stub.connections += 1

        def _handle(self) -> None:
            parts = urlsplit(self.path)
            values = parse_qs(parts.query, keep_blank_values=True)
            query = {name: found[0] for name, found in values.items()}
            told = next((f"?{name}" for name in TELLING if name in query), "")
            key = unquote(parts.path).removeprefix(f"/{stub.bucket}").removeprefix("/")
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                reply = stub.answer(Request(f"{self.command}{told}", key, query, headers, body))
            except BreakError:
                self.close_connection = True
                return
            except HalfError as half:
                self._send(half.args[0], half=True)
                self.close_connection = True
                return
            self._send(reply)

        def _send(self, reply: Reply, *, half: bool = False) -> None:
            headers = {name.lower(): value for name, value in reply.headers.items()}
            headers.setdefault("content-length", str(len(reply.body)))
            self.send_response(reply.status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body[: len(reply.body) // 2] if half else reply.body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # so none of many connections at once is refused

        def handle_error(self, *_: Any) -> None:
            """A client that went away is part of many tests."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    stub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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
