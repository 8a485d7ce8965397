"""A client of Azure Blob Storage by plain HTTP: a binding is not looked at through its own SDK."""

from __future__ import annotations

import base64
import hmac
import http.client
import threading
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree

VERSION = "2025-05-05"


class _Kept:
    """A connection that ends with its holder."""

    def __init__(self, host: str) -> None:
        self.connection = http.client.HTTPConnection(host, timeout=30)

    def __del__(self) -> None:
        self.connection.close()

    def exchange(
        self, method: str, target: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        self.connection.request(method, target, body or None, headers)
        answer = self.connection.getresponse()
        found = {key.lower(): value for key, value in answer.getheaders()}
        return answer.status, found, answer.read()


_here = threading.local()
"""The connections of each thread, by host."""


class RawAzure:
    """One container, one connection a thread. Signs with the key of the account, by hand."""

    def __init__(self, endpoint: str, container: str, account: str, key: str) -> None:
        parts = urlsplit(endpoint)
        self._host = parts.netloc
        self._below = parts.path
        self._container = container
        self._account = account
        self._key = base64.b64decode(key)

    def make_container(self) -> None:
        self._ask("PUT", "", {"restype": "container"})

    def read(self, name: str) -> bytes | None:
        status, _, body = self.request("GET", name)
        return body if status == 200 else None

    def write(self, name: str, content: bytes) -> None:
        self._ask("PUT", name, {}, content, {"x-ms-blob-type": "BlockBlob"})

    def write_appended(self, name: str, content: bytes) -> None:
        """Make an append blob."""
        self._ask("PUT", name, {}, b"", {"x-ms-blob-type": "AppendBlob"})
        self._ask("PUT", name, {"comp": "appendblock"}, content)

    def remove(self, name: str) -> None:
        self._ask("DELETE", name, {})

    def headers(self, name: str) -> dict[str, str]:
        return self.request("HEAD", name)[1]

    def names(self, prefix: str = "") -> list[str]:
        found: list[str] = []
        query = {"restype": "container", "comp": "list", "prefix": prefix}
        while True:
            tree = ElementTree.fromstring(self._ask("GET", "", query))
            for entry in tree.iterfind("Blobs/Blob/Name"):
                text = entry.text or ""
                found.append(unquote(text) if entry.get("Encoded") == "true" else text)
            marker = tree.findtext("NextMarker")
            if not marker:
                return found
            query["marker"] = marker

    def lease(self, name: str) -> None:
        """Take an endless lease."""
        more = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1"}
        self._ask("PUT", name, {"comp": "lease"}, b"", more)

    def request(
        self,
        method: str,
        name: str,
        query: dict[str, str] | None = None,
        body: bytes = b"",
        more: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Send one request; return status, headers in small letters, and body."""
        query = query or {}
        path = f"{self._below}/{self._container}" + (f"/{quote(name, safe='/~')}" if name else "")
        headers = {
            "x-ms-date": format_datetime(datetime.now(UTC), usegmt=True),
            "x-ms-version": VERSION,
            **(more or {}),
        }
        marked = sorted((key, headers[key]) for key in headers if key.startswith("x-ms-"))
        lines = [method, "", "", str(len(body)) if body else "", "", "", "", "", "", "", "", ""]
        lines[9] = headers.get("if-none-match", "")
        lines += [f"{key}:{value}" for key, value in marked]
        lines += [f"/{self._account}{path}", *(f"{key}:{query[key]}" for key in sorted(query))]
        digest = hmac.new(self._key, "\n".join(lines).encode(), "sha256").digest()
        signature = base64.b64encode(digest).decode()
        headers["authorization"] = f"SharedKey {self._account}:{signature}"
        text = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in query.items())
        if method == "PUT":
            headers["content-length"] = str(len(body))
        return self._answered(method, f"{path}?{text}" if text else path, body, headers)

    def _answered(
        self, method: str, target: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """Use the connection of this thread, and a new one where that has ended meanwhile."""
        kept: _Kept = _here.__dict__.setdefault(self._host, _Kept(self._host))
        try:
            return kept.exchange(method, target, body, headers)
        except (OSError, http.client.HTTPException):
            # It ended since it was used last; a new one is made.
            kept.connection.close()
            return kept.exchange(method, target, body, headers)

    def _ask(
        self,
        method: str,
        name: str,
        query: dict[str, str],
        body: bytes = b"",
        more: dict[str, str] | None = None,
    ) -> bytes:
        status, _, answer = self.request(method, name, query, body, more)
        assert status < 300, (method, name, status, answer)
        return answer
