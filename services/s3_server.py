"""What all servers of the S3 protocol have in common."""

from __future__ import annotations

import http.client
import os
import ssl

from services.certificates import Certificate
from services.server import Server

REGION = "us-east-1"
KEY_ID = "siltstone-tests"
SECRET = f"canary-{os.urandom(16).hex()}"
"""It occurs nowhere else, so wherever it is found it has leaked."""
SERVING = frozenset({200, 403})
"""A server that serves refuses whoever does not sign; one that still starts says something else."""


class S3Server(Server):
    """An S3 service without buckets, and the credentials of its administrator.

    Args:
        name: for people.
        certificate: of the server; ``None`` for plain HTTP.

    Attributes:
        key_id: the access key.
        secret: its secret.
        certificate: see above.
    """

    def __init__(self, name: str, certificate: Certificate | None = None) -> None:
        super().__init__(name)
        self.key_id = KEY_ID
        self.secret = SECRET
        self.certificate = certificate

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> str:
        """The URL."""
        return f"{'http' if self.certificate is None else 'https'}://{self.address}"

    def is_ready(self) -> bool:
        """Whether it answers as a server does that serves."""
        connection = self._connection()
        try:
            connection.request("GET", "/")
            return connection.getresponse().status in SERVING
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self.certificate is None:
            return http.client.HTTPConnection(self.address, timeout=5)
        anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        anybody.check_hostname = False
        anybody.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(self.address, timeout=5, context=anybody)
