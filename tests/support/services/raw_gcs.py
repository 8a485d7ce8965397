"""A client of Google Cloud Storage by plain HTTP, so that a binding is not looked at by its SDK."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote, urlencode, urlsplit


class RawGcs:
    """One bucket, one request a connection, no credentials."""

    def __init__(self, endpoint: str, bucket: str) -> None:
        self._host = urlsplit(endpoint).netloc
        self.bucket = bucket

    def make_bucket(self) -> None:
        told = json.dumps({"name": self.bucket}).encode()
        status, body, _ = self.ask("POST", "/storage/v1/b?project=tests", told)
        assert status == 200, (status, body)

    def read(self, key: str) -> bytes | None:
        status, body, _ = self.ask("GET", f"/download{self.path(key)}?alt=media", range_=True)
        return body if status in (200, 206) else None

    def write(self, key: str, content: bytes) -> None:
        border = "border-of-parts"
        told = json.dumps({"name": key})
        body = (
            f"--{border}\r\nContent-Type: application/json\r\n\r\n{told}\r\n"
            f"--{border}\r\nContent-Type: application/octet-stream\r\n\r\n"
        ).encode()
        body += content + f"\r\n--{border}--\r\n".encode()
        query = urlencode({"uploadType": "multipart"})
        status, answer, _ = self.ask(
            "POST",
            f"/upload/storage/v1/b/{self.bucket}/o?{query}",
            body,
            kind=f'multipart/related; boundary="{border}"',
        )
        assert status == 200, (status, answer)

    def facts(self, key: str) -> dict[str, Any] | None:
        status, body, _ = self.ask("GET", self.path(key))
        return json.loads(body) if status == 200 else None

    def keys(self, prefix: str = "") -> list[str]:
        found: list[str] = []
        query = {"prefix": prefix, "fields": "kind,items(name),nextPageToken"}
        while True:
            status, body, _ = self.ask("GET", f"{self.path()}?{urlencode(query)}")
            assert status == 200, (status, body)
            page = json.loads(body)
            found += [item["name"] for item in page.get("items", ())]
            if not page.get("nextPageToken"):
                return found
            query["pageToken"] = page["nextPageToken"]

    def path(self, key: str | None = None) -> str:
        path = f"/storage/v1/b/{self.bucket}/o"
        return path if key is None else f"{path}/{quote(key, safe='')}"

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        kind: str = "application/json",
        range_: bool = False,
    ) -> tuple[int, bytes, dict[str, str]]:
        headers = {} if body is None else {"Content-Type": kind}
        if range_:
            headers["Range"] = "bytes=0-1073741823"
        connection = http.client.HTTPConnection(self._host, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, answer.read(), found
        finally:
            connection.close()
