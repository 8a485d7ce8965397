"""A client of HDFS by plain HTTP, so that a binding is not looked at through its own SDK."""

from __future__ import annotations

import http.client
import json
import time
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

USER = "root"
PATIENCE_S = 20.0


class RawHdfs:
    """One folder, by WebHDFS; one request a connection.

    Args:
        endpoint: URL of the NameNode's HTTP server.
        folder: its absolute path.
        user: who asks.
    """

    def __init__(self, endpoint: str, folder: str, user: str = USER) -> None:
        self._host = urlsplit(endpoint).netloc
        self._folder = folder
        self._user = user

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, those of one that is open too; ``None`` when there is none.

        A server that came up a moment ago, or ends a lease, answers with an error for a while.
        """
        until = time.monotonic() + PATIENCE_S
        while True:
            status, body = self._sent("GET", name, "OPEN")
            if status == 403 and b"out of the range" in body:
                return b""
            if status in (200, 404):
                return body if status == 200 else None
            assert time.monotonic() < until, (name, status, body)
            time.sleep(0.1)

    def write(self, name: str, content: bytes) -> None:
        """Put a file there, instead of what was there."""
        self._check(*self._sent("PUT", name, "CREATE", content, overwrite="true"))

    def append(self, name: str, content: bytes) -> None:
        self._check(*self._sent("POST", name, "APPEND", content))

    def remove(self, name: str = "", *, recursive: bool = False) -> bool:
        body = self._check(*self._sent("DELETE", name, "DELETE", recursive=str(recursive).lower()))
        return bool(json.loads(body)["boolean"])

    def status(self, name: str = "") -> dict[str, Any] | None:
        status, body = self._sent("GET", name, "GETFILESTATUS")
        return json.loads(body)["FileStatus"] if status == 200 else None

    def set_mode(self, name: str, mode: str) -> None:
        self._check(*self._sent("PUT", name, "SETPERMISSION", permission=mode))

    def set_quota(self, room: int) -> None:
        """How many bytes the folder may take, each copy counted."""
        self._check(*self._sent("PUT", "", "SETQUOTA", storagespacequota=str(room)))

    def names(self) -> list[str]:
        """All files, in any order."""
        return [name for name, kind in self._walk("") if kind == "FILE"]

    def folders(self) -> list[str]:
        """All folders, in any order."""
        return [name for name, kind in self._walk("") if kind == "DIRECTORY"]

    def _walk(self, below: str) -> list[tuple[str, str]]:
        status, body = self._sent("GET", below.rstrip("/"), "LISTSTATUS")
        if status == 404:
            return []
        found = []
        for entry in json.loads(self._check(status, body))["FileStatuses"]["FileStatus"]:
            name = below + entry["pathSuffix"]
            found.append((name, entry["type"]))
            if entry["type"] == "DIRECTORY":
                found += self._walk(f"{name}/")
        return found

    def _check(self, status: int, body: bytes) -> bytes:
        assert status < 300, (status, body)
        return body

    def _sent(
        self, method: str, name: str, operation: str, body: bytes | None = None, **query: str
    ) -> tuple[int, bytes]:
        path = f"{self._folder}/{name}".rstrip("/") if not name.endswith("/") else name
        query = {"op": operation, "user.name": self._user, **query}
        target = f"/webhdfs/v1{quote(path, safe='/')}?{urlencode(query)}"
        host = self._host
        for attempt in range(2):
            connection = http.client.HTTPConnection(host, timeout=30)
            try:
                connection.request(method, target, body if attempt else None)
                answer = connection.getresponse()
                content = answer.read()
                if answer.status not in (302, 307):
                    return answer.status, content
                parts = urlsplit(answer.getheader("Location") or "")
                # Its path may be spelled another way: Java combines letters with their accents.
                host, target = parts.netloc, f"{target.partition('?')[0]}?{parts.query}"
            finally:
                connection.close()
        raise AssertionError("redirected twice")
