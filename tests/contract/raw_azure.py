"""A client of Azure Blob Storage by plain HTTP: a binding is not looked at through its own SDK."""

from __future__ import annotations

import base64
import hmac
import http.client
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree

VERSION = "2025-05-05"


class RawAzure:
    """One container, one request a connection. Signs with the key of the account, by hand."""

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
        connection = http.client.HTTPConnection(self._host, timeout=30)
        try:
            if method == "PUT":
                headers["content-length"] = str(len(body))
            connection.request(method, f"{path}?{text}" if text else path, body or None, headers)
            answer = connection.getresponse()
            found = {key.lower(): value for key, value in answer.getheaders()}
            return answer.status, found, answer.read()
        finally:
            connection.close()

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
