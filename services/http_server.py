"""What all servers that speak HTTP have in common."""

from __future__ import annotations

import http.client
import ssl

from services.certificates import Certificate
from services.server import Server


class HttpServer(Server):
    """A server with an endpoint, with or without TLS.

    Args:
        name: for people.
        certificate: of the server; ``None`` for plain HTTP.

    Attributes:
        certificate: see above.
    """

    def __init__(self, name: str, certificate: Certificate | None = None) -> None:
        super().__init__(name)
        self.certificate = certificate

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> str:
        """The URL."""
        return f"{'http' if self.certificate is None else 'https'}://{self.address}"

    def status_of(self, target: str) -> int | None:
        """The status of the answer to a GET without credentials, whatever the certificate.

        ``None`` when there is no answer.
        """
        connection = self._connection()
        try:
            connection.request("GET", target)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self.certificate is None:
            return http.client.HTTPConnection(self.address, timeout=5)
        anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        anybody.check_hostname = False
        anybody.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(self.address, timeout=5, context=anybody)
