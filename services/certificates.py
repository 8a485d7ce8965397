"""Certificates for servers of tests, by an authority that nothing else trusts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Files of a server's certificate, as absolute paths.

    Attributes:
        chain: the certificate.
        key: its private key.
    """

    chain: Path
    key: Path


class Authority:
    """Signs certificates, and keeps all files in one folder.

    Args:
        folder: where; it is made if necessary.

    Attributes:
        bundle: absolute path of the certificates that a client must trust.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._authority = trustme.CA()
        self.bundle = self._folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self.bundle))

    def certificate(
        self, hosts: Sequence[str] = ("localhost", "127.0.0.1"), *, is_expired: bool = False
    ) -> Certificate:
        """Sign a certificate for ``hosts``, one that ended yesterday if it is to be expired."""
        now = datetime.now(UTC)
        end = now - timedelta(days=1) if is_expired else now + timedelta(days=30)
        signed = self._authority.issue_cert(
            *hosts, not_before=now - timedelta(days=2), not_after=end
        )
        name = f"{'expired-' * is_expired}{'-'.join(hosts)}"
        made = Certificate(chain=self._folder / f"{name}.pem", key=self._folder / f"{name}.key")
        made.chain.write_bytes(b"".join(part.bytes() for part in signed.cert_chain_pems))
        signed.private_key_pem.write_to_path(str(made.key))
        return made
