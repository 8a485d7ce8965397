"""A server that needs no fetching: the program next to this file."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from services.server import Server

PROGRAM = Path(__file__).with_name("answering_program.py")


class AnsweringServer(Server):
    """It keeps written bytes in the file ``kept`` in its data folder."""

    def __init__(self, *more: str) -> None:
        super().__init__("answering")
        self._more = more

    def command(self) -> Sequence[str]:
        line = [sys.executable, "-I", "-S", str(PROGRAM), str(self.port), str(self.data / "kept")]
        return [*line, *self._more]

    def environment(self) -> Mapping[str, str]:
        return {}

    def is_ready(self) -> bool:
        try:
            self.read()
        except OSError:
            return False
        return True

    def read(self) -> bytes:
        return self._ask("GET")

    def write(self, content: bytes) -> None:
        self._ask("POST", content)

    def _ask(self, method: str, content: bytes | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, "/", content)
            return connection.getresponse().read()
        finally:
            connection.close()
