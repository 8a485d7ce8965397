"""What all servers of the S3 protocol have in common."""

from __future__ import annotations

import os

from services.certificates import Certificate
from services.http_server import HttpServer

REGION = "us-east-1"
KEY_ID = "siltstone-tests"
SECRET = f"canary-{os.urandom(16).hex()}"
"""It occurs nowhere else, so if it is found anywhere it has leaked."""
SERVING = frozenset({200, 403})
"""A ready server refuses an unsigned request; one that still starts gives another answer."""


class S3Server(HttpServer):
    """An S3 service without buckets, and the credentials of its administrator.

    Args:
        name: for people.
        certificate: see ``HttpServer``.

    Attributes:
        key_id: the access key.
        secret: its secret.
    """

    def __init__(self, name: str, certificate: Certificate | None = None) -> None:
        super().__init__(name, certificate)
        self.key_id = KEY_ID
        self.secret = SECRET

    @property
    def access(self) -> str:
        """Its credentials."""
        return f"key={self.key_id} secret={self.secret}"

    def is_ready(self) -> bool:
        """Whether it answers like a ready server."""
        return self.status_of("/") in SERVING
