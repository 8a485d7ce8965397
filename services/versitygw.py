"""versitygw: an S3 gateway over a folder, which checks all conditions that S3 documents.

Its objects are plain files, which a test may look at and damage. Built with Go, Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from services.certificates import Certificate
from services.go_program import GoProgram
from services.s3_server import REGION, S3Server

PROGRAM = GoProgram(
    name="versitygw", package="github.com/versity/versitygw/cmd/versitygw", pin="v1.8.0"
)


class Versitygw(S3Server):
    """The gateway; a bucket is a folder of ``data``.

    Args:
        program: the file.
        certificate: see ``S3Server``.
        keeps_alive: let connections serve more than one request. Over TLS it may take the rest of a
            body that ends in a checksum for the next request, so it is for plain HTTP only.
    """

    def __init__(
        self, program: Path, certificate: Certificate | None = None, *, keeps_alive: bool = False
    ) -> None:
        assert not (certificate and keeps_alive), "keeps_alive is for plain HTTP"
        super().__init__("versitygw", certificate)
        self._program = program
        self._keeps_alive = keeps_alive

    def command(self) -> Sequence[str]:
        """See ``Server``."""
        line = [str(self._program), "--port", self.address, "--region", REGION, "--quiet"]
        if self._keeps_alive:
            line.append("--keep-alive")
        if self.certificate is not None:
            line += ["--cert", str(self.certificate.chain), "--key", str(self.certificate.key)]
        return [*line, "posix", str(self.data)]

    def environment(self) -> Mapping[str, str]:
        """See ``Server``."""
        return {
            "HOME": str(self.folder),
            "ROOT_ACCESS_KEY": self.key_id,
            "ROOT_SECRET_KEY": self.secret,
        }
