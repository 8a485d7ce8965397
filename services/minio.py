"""MinIO: a second S3 server, by other authors than the first one.

Built with Go. It is AGPL-3.0, so it is only ever run as a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from services.go_program import GoProgram
from services.s3_server import REGION, S3Server

PROGRAM = GoProgram(
    name="minio", package="github.com/minio/minio", pin="v0.0.0-20260212201848-7aac2a2c5b7c"
)


class Minio(S3Server):
    """The server, with plain HTTP and one folder as its only drive.

    Args:
        program: the file.
    """

    def __init__(self, program: Path) -> None:
        super().__init__("minio")
        self._program = program

    def command(self) -> Sequence[str]:
        """See ``Server``."""
        return [str(self._program), "server", "--address", self.address, "--quiet", str(self.data)]

    def environment(self) -> Mapping[str, str]:
        """See ``Server``; nothing outside of this machine is asked."""
        return {
            "HOME": str(self.folder),
            "MINIO_BROWSER": "off",
            "MINIO_CALLHOME_ENABLE": "off",
            "MINIO_REGION": REGION,
            "MINIO_ROOT_PASSWORD": self.secret,
            "MINIO_ROOT_USER": self.key_id,
            "MINIO_UPDATE": "off",
        }
