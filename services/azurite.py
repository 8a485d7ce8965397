"""Azurite: the free emulator of Azure Blob Storage by its makers. Runs on Node, MIT.

It saves its state of blobs on a timer. So a kill loses what was acknowledged a moment ago, which
says nothing about the service: end it by ``stop``, or wait ``SAVED_S`` before ``kill``.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from services.certificates import Certificate
from services.http_server import HttpServer
from services.npm_program import NpmProgram

PROGRAM = NpmProgram(name="azurite", pin="3.37.0", script="dist/src/blob/main.js")
ACCOUNT = "siltstonetests"
KEY = base64.b64encode(b"canary-" + os.urandom(57)).decode()
"""It occurs nowhere else, so if it is found anywhere it has leaked."""
SAVED_S = 8.0
"""After this much silence everything is saved."""


class Azurite(HttpServer):
    """The blob service of one account without containers.

    Args:
        program: its main file.
        certificate: see ``HttpServer``.

    Attributes:
        key_id: the account.
        secret: its key.
    """

    def __init__(self, program: Path, certificate: Certificate | None = None) -> None:
        super().__init__("azurite", certificate)
        self._program = program
        self.key_id = ACCOUNT
        self.secret = KEY

    @property
    def endpoint(self) -> str:
        """The URL of the account."""
        return f"{super().endpoint}/{ACCOUNT}"

    @property
    def access(self) -> str:
        """Its credentials."""
        return f"account={self.key_id} key={self.secret}"

    def command(self) -> Sequence[str]:
        """See ``Server``. Node runs the main file itself, so its process is the server."""
        line = [
            shutil.which("node") or "node", str(self._program),
            "--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", str(self.data),
            "--skipApiVersionCheck", "--disableTelemetry", "--silent",
        ]  # fmt: skip
        if self.certificate is not None:
            line += ["--cert", str(self.certificate.chain), "--key", str(self.certificate.key)]
        return line

    def environment(self) -> Mapping[str, str]:
        """See ``Server``."""
        return {"HOME": str(self.folder), "AZURITE_ACCOUNTS": f"{ACCOUNT}:{self.secret}"}

    def is_ready(self) -> bool:
        """Whether it answers, if only to refuse an unsigned request."""
        return self.status_of(f"/{ACCOUNT}?comp=list") == 403
