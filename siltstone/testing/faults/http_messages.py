"""HTTP/1.1 messages as bytes: read whole from a socket, and passed on exactly as they were."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace

HEAD_BYTES_MAX = 64 << 10
BLOCK_BYTES = 256 << 10
WITHOUT_BODY = frozenset({204, 304})


class MessageError(OSError):
    """The other end closed in the middle of a message, or sent what is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request or an answer.

    Attributes:
        head: up to and with the empty line.
        body: as it was sent, with the framing of its chunks if it came in chunks.
        is_last: whether the connection ends after it.
    """

    head: bytes
    body: bytes
    is_last: bool = False

    @property
    def first_line(self) -> list[str]:
        """The words of the first line: method, target, version; or version, status, reason."""
        return self.head.partition(b"\r\n")[0].decode("latin-1").split(" ", 2)

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by their names in lower case; of several with one name the last."""
        return headers_of(self.head)


class MessageReader:
    """Reads one message after the other.

    Args:
        source: where from; stays the caller's.
    """

    def __init__(self, source: socket.socket) -> None:
        self._source = source
        self._buffer = bytearray()

    def request(self) -> Message | None:
        """The next request, or ``None`` when the client sends no more.

        A client that wants to be told to continue is told so.
        """
        if not self._buffer and not self._fill():
            return None
        head = self._head()
        headers = headers_of(head)
        if headers.get("expect", "").lower() == "100-continue":
            self._source.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return Message(head=head, body=self._body(headers, length=0), is_last=_closes(headers))

    def answer(self, method: str) -> Message:
        """The answer to a request with this method; ones that only tell to continue are left out.

        Raises:
            MessageError: the server closed first.
        """
        while True:
            head = self._head()
            status = int(head.split(b" ", 2)[1])
            if status >= 200:
                break
        headers = headers_of(head)
        has_body = method != "HEAD" and status not in WITHOUT_BODY
        is_framed = not has_body or not {"content-length", "transfer-encoding"}.isdisjoint(headers)
        return Message(
            head=head,
            body=self._body(headers, length=None) if has_body else b"",
            is_last=not is_framed or _closes(headers) or head.startswith(b"HTTP/1.0"),
        )

    def _head(self) -> bytes:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > HEAD_BYTES_MAX or not self._fill():
                raise MessageError("no whole head of a message")
        return self._take(end + 4)

    def _body(self, headers: Mapping[str, str], *, length: int | None) -> bytes:
        """Read a body; ``length`` is meant where no header tells, ``None`` up to the end."""
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._chunks()
        if "content-length" in headers:
            length = int(headers["content-length"])
        if length is not None:
            return self._exactly(length)
        while self._fill():
            pass
        return self._take(len(self._buffer))

    def _chunks(self) -> bytes:
        raw = bytearray()
        while True:
            line = self._line()
            raw += line
            length = int(line.partition(b";")[0], 16)
            if length == 0:
                break
            raw += self._exactly(length + 2)
        while line := self._line():
            raw += line
            if line == b"\r\n":
                break
        return bytes(raw)

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > HEAD_BYTES_MAX or not self._fill():
                raise MessageError("no whole line")
        return self._take(end + 2)

    def _exactly(self, length: int) -> bytes:
        while len(self._buffer) < length:
            if not self._fill():
                raise MessageError("no whole body of a message")
        return self._take(length)

    def _fill(self) -> bool:
        block = self._source.recv(BLOCK_BYTES)
        self._buffer += block
        return bool(block)

    def _take(self, length: int) -> bytes:
        taken = bytes(self._buffer[:length])
        del self._buffer[:length]
        return taken


def headers_of(head: bytes) -> dict[str, str]:
    """Headers of a head, by their names in lower case."""
    found = {}
    for line in head.decode("latin-1").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            found[name.strip().lower()] = value.strip()
    return found


def _closes(headers: Mapping[str, str]) -> bool:
    return "close" in headers.get("connection", "").lower()


def with_flipped_byte(message: Message) -> Message:
    """Return the message with one bit of its body changed, not of the framing of chunks.

    Raises:
        ValueError: it has no body.
    """
    if not message.body:
        raise ValueError("a message without a body has no byte to flip")
    begin, end = 0, len(message.body)
    if "chunked" in message.headers.get("transfer-encoding", "").lower():
        line = message.body.index(b"\r\n")
        begin = line + 2
        end = begin + int(message.body[:line].partition(b";")[0], 16)
    place = (begin + end) // 2
    body = bytearray(message.body)
    body[place] ^= 1
    return replace(message, body=bytes(body))


def canned_answer(status: int, headers: Mapping[str, str], body: bytes, *, method: str) -> Message:
    """Return an answer made up; to a HEAD it has headers only."""
    lines = [f"HTTP/1.1 {status} Canned", *(f"{key}: {value}" for key, value in headers.items())]
    lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return Message(head=head, body=b"" if method == "HEAD" else body)
