"""A broker that asks for TLS and credentials, and knows what each user may do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from services.certificates import Certificate
from services.free_port import free_port
from services.kafka import Kafka

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class SecuredKafka(Kafka):
    """Besides the port without TLS, where every client may do everything, there are ports with TLS.

    Args:
        program: the folder of jars.
        certificates: one for each port with TLS, by a name for it, in capitals.
        passwords: of the users, which have no rights unless they are granted.

    Attributes:
        ports: where it listens with TLS, by the names of the certificates.
    """

    def __init__(
        self, program: Path, certificates: Mapping[str, Certificate], passwords: Mapping[str, str]
    ) -> None:
        super().__init__(program)
        self._certificates = certificates
        self._passwords = passwords
        self.ports: dict[str, int] = {}

    def secured(self, name: str) -> str:
        """The address of the port with this certificate."""
        return f"127.0.0.1:{self.ports[name]}"

    def listeners(self) -> Mapping[str, tuple[int, str]]:
        """See ``Kafka``."""
        for name in self._certificates:
            self.ports.setdefault(name, free_port())
        return {name: (port, "SASL_SSL") for name, port in self.ports.items()}

    def more(self) -> Mapping[str, Any]:
        """See ``Kafka``."""
        users = " ".join(f'user_{name}="{word}"' for name, word in self._passwords.items())
        lines: dict[str, Any] = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        for name, certificate in self._certificates.items():
            mine = f"listener.name.{name.lower()}"
            lines |= {
                f"{mine}.ssl.keystore.type": "PEM",
                f"{mine}.ssl.keystore.location": self._keystore(name, certificate),
                f"{mine}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
                f"{mine}.plain.sasl.jaas.config": f"{PLAIN} required {users};",
                f"{mine}.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
            }
        return lines

    def format_options(self) -> list[str]:
        """See ``Kafka``."""
        return [
            part
            for name, word in self._passwords.items()
            for part in ("--add-scram", f"SCRAM-SHA-512=[name={name},password={word}]")
        ]

    def _keystore(self, name: str, certificate: Certificate) -> Path:
        """The certificate and its key in one file, the key as Java reads it."""
        key = load_pem_private_key(certificate.key.read_bytes(), None)
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path = self.folder / f"{name}.pem"
        path.write_bytes(text + certificate.chain.read_bytes())
        return path
