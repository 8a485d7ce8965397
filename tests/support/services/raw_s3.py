"""A client of S3 by plain HTTP, so that a binding is not looked at through its own SDK."""

from __future__ import annotations

import hashlib
import hmac
import http.client
from datetime import UTC, datetime
from urllib.parse import quote, unquote_plus, urlsplit
from xml.etree import ElementTree

SPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class RawS3:
    """One bucket, one request a connection. Signs with version 4, by hand."""

    def __init__(self, endpoint: str, bucket: str, key_id: str, secret: str) -> None:
        self._host = urlsplit(endpoint).netloc
        self._bucket = bucket
        self._key_id = key_id
        self._secret = secret

    def make_bucket(self) -> None:
        self._ask("PUT", "", {})

    def read(self, key: str) -> bytes | None:
        status, body = self._request("GET", key, {}, b"")
        return body if status == 200 else None

    def write(self, key: str, content: bytes) -> None:
        self._ask("PUT", key, {}, content)

    def remove(self, key: str) -> None:
        self._ask("DELETE", key, {})

    def headers(self, key: str, **wanted: str) -> dict[str, str]:
        asked = {name.replace("_", "-"): value for name, value in wanted.items()}
        connection = self._send("HEAD", key, {}, b"", asked)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        connection.close()
        return found

    def keys(self, prefix: str = "") -> list[str]:
        found: list[str] = []
        query = {"list-type": "2", "encoding-type": "url", "prefix": prefix}
        while True:
            tree = ElementTree.fromstring(self._ask("GET", "", query))
            encoded = (tree.findtext(f"{SPACE}EncodingType") or tree.findtext("EncodingType")) or ""
            for name in (f"{SPACE}Contents/{SPACE}Key", "Contents/Key"):
                texts = [entry.text or "" for entry in tree.findall(name)]
                found += [unquote_plus(text) if encoded == "url" else text for text in texts]
            token = tree.findtext(f"{SPACE}NextContinuationToken")
            if not token:
                return found
            query["continuation-token"] = token

    def uploads(self) -> list[str]:
        tree = ElementTree.fromstring(self._ask("GET", "", {"uploads": ""}))
        return [entry.text or "" for entry in tree.iter() if entry.tag.endswith("UploadId")]

    def _ask(self, method: str, key: str, query: dict[str, str], body: bytes = b"") -> bytes:
        status, answer = self._request(method, key, query, body)
        assert status < 300, (method, key, status, answer)
        return answer

    def _request(
        self, method: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        connection = self._send(method, key, query, body, {})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content

    def _send(
        self, method: str, key: str, query: dict[str, str], body: bytes, more: dict[str, str]
    ) -> http.client.HTTPConnection:
        path = f"/{self._bucket}" + (f"/{quote(key, safe='/~')}" if key else "")
        text = "&".join(
            f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted(query.items())
        )
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        headers = {
            "host": self._host, "x-amz-content-sha256": digest, "x-amz-date": moment, **more
        }  # fmt: skip
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        request = "\n".join((method, path, text, lines, names, digest))
        scope = f"{moment[:8]}/us-east-1/s3/aws4_request"
        hashed = hashlib.sha256(request.encode()).hexdigest()
        signed = "\n".join(("AWS4-HMAC-SHA256", moment, scope, hashed))
        key_now = f"AWS4{self._secret}".encode()
        for part in scope.split("/"):
            key_now = hmac.new(key_now, part.encode(), "sha256").digest()
        signature = hmac.new(key_now, signed.encode(), "sha256").hexdigest()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self._key_id}/{scope}, SignedHeaders={names}, "
            f"Signature={signature}"
        )
        connection = http.client.HTTPConnection(self._host, timeout=30)
        connection.request(method, f"{path}?{text}" if text else path, body or None, headers)
        return connection
