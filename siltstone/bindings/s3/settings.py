"""What a person may set for the binding ``s3``. Imports no SDK."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, Self

from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)

from siltstone.core.constants import GIB, MIB
from siltstone.core.remote.checks import Endpoint, File, InHead, Prefix, check_threads

PART_BYTES_MIN: Final = 5 * MIB
"""No part of an upload but the last may be smaller."""
PART_BYTES_MAX: Final = 5 * GIB
"""Nor may one request write more."""
DIRECTORY_BUCKET: Final = "--x-s3"
"""How the name of a directory bucket ends."""


class Checksums(StrEnum):
    """How the service checks what it is sent.

    ``CRC32C``: a header that it compares, stores and returns. ``MD5``: one that it only compares,
    for services that know no other. ``NONE``: none at all.
    """

    CRC32C = "crc32c"
    MD5 = "md5"
    NONE = "none"


class Encryption(StrEnum):
    """Who holds the key that the service encrypts with: ``S3`` itself, or ``KMS``."""

    S3 = "s3"
    KMS = "kms"


class Transport(StrEnum):
    """Who reads: the ``SDK``, or ``OBSTORE`` ranges and the facts of chunks; the SDK all else."""

    SDK = "sdk"
    OBSTORE = "obstore"


class S3Settings(BaseModel):
    """Settings of the binding ``s3``.

    Attributes:
        bucket: the bucket; it is never made.
        prefix: the folder in the bucket that belongs to the store; empty for the whole bucket.
        region: of the bucket; unless set, what the credentials' profile says.
        endpoint: URL of another service than Amazon's.
        path_style: put the bucket's name into the path of the URL; unless set, the SDK decides.
        insecure: allow an endpoint without TLS: anyone on the network can read all of it.
        ca_bundle: absolute path of the certificates to trust instead of the usual ones.
        profile: of the configuration files of the credentials chain.
        access_key_id, secret_access_key, session_token: credentials, instead of the chain.
        role_arn: a role to assume with these credentials; it is assumed again before it ends.
        role_session_name, role_external_id: of that role.
        sts_endpoint: URL of another service than Amazon's that gives the role.
        append: ``directory-bucket`` lets chunks grow, in a directory bucket alone.
        unsafe_without_conditional_create: use a service that ignores ``If-None-Match``.
        checksums: see ``Checksums``.
        encryption: see ``Encryption``; unless set, as the bucket says.
        kms_key_id: the key; unless set, the account's own.
        storage_class: of the objects; unless set, as the bucket says.
        transport: see ``Transport``.
        connect_timeout_s: seconds for a connection, and for each 256 KiB that are sent.
        read_timeout_s: seconds of silence after which an answer is not waited for any more.
        deadline_s: seconds after which a call ends, and one more for each MiB that it moves.
        connections: most connections that stay open.
        upload_threads: parts of one client that are sent at a time.
        put_bytes_max: a larger chunk is sent in parts.
        part_bytes: size of a part.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    bucket: str = Field(min_length=3, max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")
    prefix: Prefix = ""
    region: str | None = Field(default=None, min_length=1)
    endpoint: Endpoint = None
    path_style: bool | None = None
    insecure: bool = False
    ca_bundle: File = None
    profile: str | None = Field(default=None, min_length=1)
    access_key_id: InHead = None
    secret_access_key: SecretStr | None = None
    session_token: InHead = None
    role_arn: str | None = Field(default=None, min_length=20)
    role_session_name: str | None = Field(default=None, min_length=2, max_length=64)
    role_external_id: SecretStr | None = None
    sts_endpoint: Endpoint = None
    append: Literal["directory-bucket"] | None = None
    unsafe_without_conditional_create: bool = False
    checksums: Checksums = Checksums.CRC32C
    encryption: Encryption | None = None
    kms_key_id: str | None = Field(default=None, min_length=1)
    storage_class: str | None = Field(default=None, pattern=r"^[A-Z0-9_]+$")
    transport: Transport = Transport.SDK
    connect_timeout_s: float = Field(default=10.0, gt=0, le=300)
    read_timeout_s: float = Field(default=30.0, gt=0, le=3600)
    deadline_s: float = Field(default=120.0, gt=0, le=86_400)
    connections: int = Field(default=32, ge=1, le=1_000)
    upload_threads: int = Field(default=8, ge=1, le=64)
    put_bytes_max: ByteSize = Field(default=ByteSize(64 * MIB), ge=1, le=PART_BYTES_MAX)
    part_bytes: ByteSize = Field(default=ByteSize(16 * MIB), ge=PART_BYTES_MIN, le=PART_BYTES_MAX)

    @property
    def folder(self) -> str:
        """What every key begins with: empty, or the prefix and a slash."""
        return f"{self.prefix}/" if self.prefix else ""

    @property
    def is_directory_bucket(self) -> bool:
        """Whether the bucket is of the kind that can append and lists in no order."""
        return self.bucket.endswith(DIRECTORY_BUCKET)

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        for reason in (*self._credentials(), *self._transport(), *self._bucket_kind()):
            raise ValueError(reason)
        if self.kms_key_id is not None and self.encryption is not Encryption.KMS:
            raise ValueError("kms_key_id needs encryption: kms")
        check_threads("upload_threads", self.upload_threads, self.connections)
        return self

    def _credentials(self) -> list[str]:
        wrong = []
        if (self.access_key_id is None) != (self.secret_access_key is None):
            wrong.append("access_key_id and secret_access_key need each other")
        if self.session_token is not None and self.access_key_id is None:
            wrong.append("session_token needs access_key_id")
        if self.profile is not None and self.access_key_id is not None:
            wrong.append("profile and access_key_id exclude each other")
        if self.role_arn is None:
            of_role = ("role_session_name", "role_external_id", "sts_endpoint")
            wrong += [f"{key} needs role_arn" for key in of_role if getattr(self, key) is not None]
        return wrong

    def _transport(self) -> list[str]:
        wrong = []
        plain = [
            key
            for key in ("endpoint", "sts_endpoint")
            if (getattr(self, key) or "").lower().startswith("http://")
        ]
        if plain and not self.insecure:
            wrong.append(f"{plain[0]} is without TLS, which needs insecure: true")
        if self.insecure and not plain:
            wrong.append("insecure: true is for an endpoint that begins with http://")
        if self.ca_bundle is not None and "endpoint" in plain:
            wrong.append("ca_bundle is for an endpoint with TLS")
        if self.transport is Transport.OBSTORE:
            wrong += self._obstore()
        return wrong

    def _obstore(self) -> list[str]:
        wrong = []
        if self.ca_bundle is not None:
            wrong.append("ca_bundle is not for transport: obstore, which trusts others besides")
        if self.endpoint is not None and self.path_style is None:
            wrong.append("transport: obstore needs path_style, true or false, with an endpoint")
        if self.is_directory_bucket:
            wrong.append("transport: obstore is not for directory buckets")
        return wrong

    def _bucket_kind(self) -> list[str]:
        wrong = []
        if self.append is not None and not self.is_directory_bucket:
            wrong.append(f"append: {self.append} needs a bucket whose name ends in '--x-s3'")
        if self.append is not None and self.unsafe_without_conditional_create:
            wrong.append("append and unsafe_without_conditional_create exclude each other")
        if self.is_directory_bucket and self.path_style:
            wrong.append("path_style is not for directory buckets")
        return wrong
