"""What a person may set for the binding ``gcs``. Imports no SDK."""

from __future__ import annotations

from typing import Final, Self

from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from siltstone.core.constants import GIB, KIB, MIB
from siltstone.core.remote.checks import Endpoint, File, InHead, Prefix, check_threads

PIECE_BYTES: Final = 256 * KIB
"""Every piece of an upload but the last is a multiple of this."""


class GcsSettings(BaseModel):
    """Settings of the binding ``gcs``.

    Attributes:
        bucket: the bucket; it is never made.
        prefix: the folder in the bucket that belongs to the store; empty for the whole bucket.
        endpoint: URL of another service than Google's; no variable of the environment replaces it.
        insecure: allow an endpoint without TLS: anyone on the network can read all of it.
        ca_bundle: absolute path of the certificates to trust instead of the usual ones.
        credentials_file: absolute path of a service account's key.
        token: an access token; it is never renewed.
        anonymous: send no credentials. Without any of these three the SDK looks for some.
        quota_project: the project that is billed, for a bucket where the requester pays.
        unsafe_without_preconditions: use a service that ignores conditions, such as an emulator.
        kms_key_name: the key that the service encrypts with; unless set, as the bucket says.
        storage_class: of new objects; unless set, as the bucket says.
        connect_timeout_s: seconds for a connection, and for each block that is sent.
        read_timeout_s: seconds of silence after which an answer is not waited for any more.
        deadline_s: seconds after which a call ends, and one more for each MiB that it moves.
        connections: most connections that stay open.
        join_threads: requests of one join that are under way at a time.
        put_bytes_max: a larger chunk is sent in pieces, by an upload that is begun first.
        piece_bytes: size of a piece.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    bucket: str = Field(min_length=3, max_length=222, pattern=r"^[a-z0-9][a-z0-9._-]*[a-z0-9]$")
    prefix: Prefix = ""
    endpoint: Endpoint = None
    insecure: bool = False
    ca_bundle: File = None
    credentials_file: File = None
    token: InHead = None
    anonymous: bool = False
    quota_project: str | None = Field(default=None, min_length=1)
    unsafe_without_preconditions: bool = False
    kms_key_name: str | None = Field(default=None, pattern=r"^projects/.+/cryptoKeys/[^/]+$")
    storage_class: str | None = Field(default=None, pattern=r"^[A-Z0-9_]+$")
    connect_timeout_s: float = Field(default=10.0, gt=0, le=300)
    read_timeout_s: float = Field(default=30.0, gt=0, le=3600)
    deadline_s: float = Field(default=120.0, gt=0, le=86_400)
    connections: int = Field(default=32, ge=1, le=1_000)
    join_threads: int = Field(default=8, ge=1, le=64)
    put_bytes_max: ByteSize = Field(default=ByteSize(64 * MIB), ge=1, le=GIB)
    piece_bytes: ByteSize = Field(default=ByteSize(32 * MIB), ge=PIECE_BYTES, le=GIB)

    @property
    def folder(self) -> str:
        """What every key begins with: empty, or the prefix and a slash."""
        return f"{self.prefix}/" if self.prefix else ""

    @field_validator("prefix")
    @classmethod
    def _prefix_is_one_line(cls, prefix: str) -> str:
        if set(prefix) & set("\r\n"):
            raise ValueError("must be on one line")
        return prefix

    @field_validator("endpoint")
    @classmethod
    def _endpoint_has_no_slash(cls, endpoint: str | None) -> str | None:
        return None if endpoint is None else endpoint.rstrip("/")

    @field_validator("piece_bytes")
    @classmethod
    def _piece_is_even(cls, size: ByteSize) -> ByteSize:
        if size % PIECE_BYTES:
            raise ValueError("must be a multiple of 256 KiB")
        return size

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        given = {
            "credentials_file": self.credentials_file is not None,
            "token": self.token is not None,
            "anonymous": self.anonymous,
        }
        chosen = [key for key, is_given in given.items() if is_given]
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} exclude each other")
        if self.anonymous and self.quota_project is not None:
            raise ValueError("quota_project needs credentials, so anonymous excludes it")
        is_plain = (self.endpoint or "").lower().startswith("http://")
        if is_plain and not self.insecure:
            raise ValueError("endpoint is without TLS, which needs insecure: true")
        if self.insecure and not is_plain:
            raise ValueError("insecure: true is for an endpoint that begins with http://")
        if self.ca_bundle is not None and is_plain:
            raise ValueError("ca_bundle is for an endpoint with TLS")
        check_threads("join_threads", self.join_threads, self.connections)
        return self
