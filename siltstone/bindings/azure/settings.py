"""What a person may set for the binding ``azure``. Imports no SDK."""

from __future__ import annotations

from base64 import b64decode
from enum import StrEnum
from typing import Final, Self
from urllib.parse import parse_qs

from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from siltstone.core.constants import MIB
from siltstone.core.remote.checks import Endpoint, File, Prefix, check_endpoint, check_threads

BLOCK_BYTES_MAX: Final = 100 * MIB
"""What one request appends at most, or copies into another blob."""
PUT_BYTES_MAX: Final = 5000 * MIB
"""What one request makes a block blob of at most."""
SERVICE: Final = "https://{}.blob.core.windows.net"
PARTS: Final = frozenset(
    {
        "accountkey", "accountname", "blobendpoint", "defaultendpointsprotocol", "endpointsuffix",
        "sharedaccesssignature",
    }
)  # fmt: skip
"""What a connection string may hold that is about blobs; parts for other services are left out."""


class Blobs(StrEnum):
    """What a chunk is: a blob that grows, or one that is written once and joined on the service."""

    APPEND = "append"
    BLOCK = "block"


class Checksums(StrEnum):
    """How the service checks what it is sent: ``MD5`` of each request, or ``NONE``."""

    MD5 = "md5"
    NONE = "none"


class Identity(StrEnum):
    """Whose identity is used: ``MANAGED``, that of this machine, or ``CHAIN``, what is found."""

    MANAGED = "managed"
    CHAIN = "chain"


class AzureSettings(BaseModel):
    """Settings of the binding ``azure``.

    Attributes:
        container: the container; it is never made.
        prefix: the folder in the container that belongs to the store; empty for all of it.
        account: name of the storage account; unless set, ``endpoint`` or ``connection_string`` has
            it.
        endpoint: URL of the account, where it is not that of the public cloud.
        insecure: allow an endpoint without TLS: anyone on the network can read all of it.
        ca_bundle: absolute path of the certificates to trust instead of the usual ones.
        account_key: credential: a key of the account.
        sas_token: credential: a shared access signature.
        connection_string: account, endpoint and key or signature in one text.
        identity: credential: see ``Identity``; needs the package ``azure-identity``.
        client_id: of the managed identity, where the machine has several.
        blobs: see ``Blobs``.
        checksums: see ``Checksums``.
        connect_timeout_s: seconds for a connection.
        read_timeout_s: seconds of silence after which an answer is not waited for any more, and for
            each 256 KiB that are sent.
        deadline_s: seconds after which a call ends, and one more for each MiB that it moves.
        connections: most connections that stay open.
        upload_threads: blocks of one client that are staged at a time.
        put_bytes_max: a larger block blob is staged in blocks.
        block_bytes: size of a block; what is longer is written by several requests.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    container: str = Field(
        min_length=3, max_length=63, pattern=r"^(\$root|[a-z0-9]+(-[a-z0-9]+)*)$"
    )
    prefix: Prefix = ""
    account: str | None = Field(default=None, pattern=r"^[a-z0-9]{3,24}$")
    endpoint: Endpoint = None
    insecure: bool = False
    ca_bundle: File = None
    account_key: SecretStr | None = None
    sas_token: SecretStr | None = None
    connection_string: SecretStr | None = None
    identity: Identity | None = None
    client_id: str | None = Field(default=None, min_length=1)
    blobs: Blobs = Blobs.APPEND
    checksums: Checksums = Checksums.MD5
    connect_timeout_s: float = Field(default=10.0, gt=0, le=300)
    read_timeout_s: float = Field(default=30.0, gt=0, le=3600)
    deadline_s: float = Field(default=120.0, gt=0, le=86_400)
    connections: int = Field(default=32, ge=1, le=1_000)
    upload_threads: int = Field(default=8, ge=1, le=64)
    put_bytes_max: ByteSize = Field(default=ByteSize(64 * MIB), ge=1, le=PUT_BYTES_MAX)
    block_bytes: ByteSize = Field(default=ByteSize(BLOCK_BYTES_MAX), ge=1, le=BLOCK_BYTES_MAX)

    @property
    def folder(self) -> str:
        """What every key begins with: empty, or the prefix and a slash."""
        return f"{self.prefix}/" if self.prefix else ""

    @property
    def account_url(self) -> str:
        """The URL of the account."""
        parts = self.connection_parts()
        if "blobendpoint" in parts:
            return parts["blobendpoint"].rstrip("/")
        if self.connection_string is not None:
            protocol = parts.get("defaultendpointsprotocol", "https")
            suffix = parts.get("endpointsuffix", "core.windows.net")
            return f"{protocol}://{parts.get('accountname', '')}.blob.{suffix}"
        return (self.endpoint or SERVICE.format(self.account)).rstrip("/")

    def connection_parts(self) -> dict[str, str]:
        """The parts of the connection string, by their names in small letters."""
        if self.connection_string is None:
            return {}
        pairs = (
            part.partition("=") for part in self.connection_string.get_secret_value().split(";")
        )
        return {name.strip().lower(): value.strip() for name, _, value in pairs if value.strip()}

    @field_validator("sas_token")
    @classmethod
    def _sas_token_is_one(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and "sig" not in parse_qs(token.get_secret_value().lstrip("?")):
            raise ValueError("must be a shared access signature: a query with sig=")
        return token

    @field_validator("account_key")
    @classmethod
    def _account_key_is_one(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and not _is_key(key.get_secret_value()):
            raise ValueError("must be a key of a storage account, which is base64")
        return key

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        for reason in (*self._address(), *self._credentials(), *self._transport()):
            raise ValueError(reason)
        check_threads("upload_threads", self.upload_threads, self.connections)
        return self

    def _address(self) -> list[str]:
        if self.connection_string is not None:
            named = [key for key in ("account", "endpoint") if getattr(self, key) is not None]
            if named:
                return [f"{named[0]} and connection_string exclude each other"]
            parts = self.connection_parts()
            if not parts.keys() & PARTS or not parts.keys() & {"blobendpoint", "accountname"}:
                return ["connection_string names no account: AccountName= or BlobEndpoint="]
            try:
                check_endpoint(self.account_url)
            except ValueError:
                return ["connection_string holds no usable endpoint of blobs"]
            return []
        if self.account is None and self.endpoint is None:
            return ["one of account, endpoint and connection_string is needed"]
        if self.account_key is not None and self.account is None:
            return ["account_key needs account"]
        return []

    def _credentials(self) -> list[str]:
        ways = ("account_key", "sas_token", "connection_string", "identity")
        chosen = [way for way in ways if getattr(self, way) is not None]
        if len(chosen) != 1:
            found = f"not {' and '.join(chosen)}" if chosen else "and there is none"
            return [f"exactly one of {', '.join(ways)} is needed, {found}"]
        wrong = []
        if self.connection_string is not None:
            parts = self.connection_parts()
            both = parts.keys() & {"accountkey", "sharedaccesssignature"}
            if len(both) != 1:
                wrong.append("connection_string needs AccountKey= or SharedAccessSignature=")
            elif "accountkey" in both and "accountname" not in parts:
                wrong.append("connection_string with AccountKey= needs AccountName=")
            elif "accountkey" in both and not _is_key(parts["accountkey"]):
                wrong.append("connection_string has an AccountKey= that is no base64")
        if self.client_id is not None and self.identity is not Identity.MANAGED:
            wrong.append("client_id needs identity: managed")
        if self.identity is not None and self.insecure:
            wrong.append("identity is for endpoints with TLS alone")
        return wrong

    def _transport(self) -> list[str]:
        wrong = []
        plain = self.account_url.lower().startswith("http://")
        if plain and not self.insecure:
            wrong.append("the endpoint is without TLS, which needs insecure: true")
        if self.insecure and not plain:
            wrong.append("insecure: true is for an endpoint that begins with http://")
        if self.ca_bundle is not None and plain:
            wrong.append("ca_bundle is for an endpoint with TLS")
        return wrong


def _is_key(text: str) -> bool:
    try:
        return bool(b64decode(text, validate=True))
    except ValueError:
        return False
