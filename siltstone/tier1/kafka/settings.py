"""What a person may set for the log ``kafka``. Imports no client."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)

from siltstone.core.remote.checks import File

TOPIC_CHARACTERS_MAX: Final = 200
"""A topic's name has 249 at most; the rest is for the container, and for logs set aside."""


class Mechanism(StrEnum):
    """How name and password are shown to the broker."""

    PLAIN = "plain"
    SCRAM_SHA_256 = "scram-sha-256"
    SCRAM_SHA_512 = "scram-sha-512"


def _check_server(server: str) -> str:
    host, _, port = server.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536 or "/" in host:
        raise ValueError("must be host:port")
    return server


def _split(servers: object) -> object:
    """Several servers in one text, with commas between, are a list of them."""
    return [each.strip() for each in servers.split(",")] if isinstance(servers, str) else servers


Server = Annotated[str, AfterValidator(_check_server)]


class KafkaLogSettings(BaseModel):
    """Settings of the log ``kafka``.

    Attributes:
        servers: brokers to ask first, as ``host:port``, a list or one text with commas; they name
            all others.
        topic: what the names of the topics begin with; after it come a hyphen and the number of
            the container. No two stores may share it.
        single_broker: let a topic have fewer copies than three: a lost disk is a lost log then.
        create_topics: make a topic that is missing, for a container that is new; unless set, where
            ``single_broker`` is.
        replication: copies of each record in such a topic; unless set 3, or 1 with
            ``single_broker``.
        insecure: allow connections without TLS: anyone on the network can read all of it.
        ca_bundle: absolute path of the certificates to trust instead of the usual ones.
        certificate, certificate_key: absolute paths of what this client shows of itself.
        certificate_password: of the key.
        username, password: credentials; unless set, none are shown.
        mechanism: see ``Mechanism``.
        deadline_s: seconds after which a call ends, and one more for each MiB that it moves. A
            broker that comes back before only delays appends.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    servers: Annotated[list[Server], BeforeValidator(_split)] = Field(min_length=1)
    topic: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=TOPIC_CHARACTERS_MAX)
    single_broker: bool = False
    create_topics: bool = Field(default_factory=lambda known: bool(known.get("single_broker")))
    replication: int = Field(
        default_factory=lambda known: 1 if known.get("single_broker") else 3, ge=1, le=32
    )
    insecure: bool = False
    ca_bundle: File = None
    certificate: File = None
    certificate_key: File = None
    certificate_password: SecretStr | None = None
    username: str | None = Field(default=None, min_length=1)
    password: SecretStr | None = None
    mechanism: Mechanism = Mechanism.SCRAM_SHA_512
    deadline_s: float = Field(default=30.0, gt=0, le=3600)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password go together")
        if (self.certificate is None) != (self.certificate_key is None):
            raise ValueError("certificate and certificate_key go together")
        if self.certificate_password is not None and self.certificate is None:
            raise ValueError("certificate_password goes with certificate and certificate_key")
        if self.insecure and (self.ca_bundle or self.certificate):
            raise ValueError("insecure and certificates exclude each other")
        if self.create_topics and self.replication < 3 and not self.single_broker:
            raise ValueError("replication must be at least 3 unless single_broker is true")
        return self

    @property
    def servers_text(self) -> str:
        """The servers, for people."""
        return ",".join(self.servers)

    def client_options(self) -> dict[str, Any]:
        """What the client is made with. It holds secrets: never show it."""
        options: dict[str, Any] = {"bootstrap_servers": list(self.servers)}
        secured = "PLAINTEXT" if self.insecure else "SSL"
        if self.username is not None and self.password is not None:
            secured = f"SASL_{secured}"
            options |= {
                "sasl_mechanism": self.mechanism.value.upper(),
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password.get_secret_value(),
            }
        if self.ca_bundle is not None:
            options["ssl_cafile"] = str(self.ca_bundle)
        if self.certificate is not None:
            options["ssl_certfile"] = str(self.certificate)
            options["ssl_keyfile"] = str(self.certificate_key)
        if self.certificate_password is not None:
            options["ssl_password"] = self.certificate_password.get_secret_value()
        return options | {"security_protocol": secured}
