"""fake-gcs-server: Google Cloud Storage over a folder or in memory, for tests without conditions.

It checks only the generation of an upload, so it can show neither a fenced delete nor a fenced
join. Built with Go, BSD-2-Clause.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from pathlib import Path

from services.go_program import GoProgram
from services.http_server import HttpServer

PROGRAM = GoProgram(
    name="fake-gcs-server", package="github.com/fsouza/fake-gcs-server", pin="v1.56.1"
)


class FakeGcs(HttpServer):
    """The server, with plain HTTP, no authentication, and no buckets.

    Args:
        program: the file.
    """

    def __init__(self, program: Path) -> None:
        super().__init__("fake-gcs-server")
        self._program = program

    def command(self) -> Sequence[str]:
        """See ``Server``; objects are kept in memory, where each name is independent."""
        line = [str(self._program), "-scheme", "http", "-host", "127.0.0.1"]
        line += ["-port", str(self.port), "-backend", "memory", "-log-level", "error"]
        return [*line, "-external-url", self.endpoint, "-public-host", self.address]

    def environment(self) -> Mapping[str, str]:
        """See ``Server``."""
        return {"HOME": str(self.folder)}

    def is_ready(self) -> bool:
        """Whether it lists its buckets."""
        return self.status_of("/storage/v1/b?project=tests") == http.client.OK
