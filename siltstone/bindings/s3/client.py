"""The client of the SDK: credentials, transport, and none of the SDK's own repetitions."""

from __future__ import annotations

import threading
from copy import copy
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Literal

import boto3
import botocore
import botocore.session
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    Credentials,
    DeferredRefreshableCredentials,
)
from botocore.exceptions import NoCredentialsError
from botocore.handlers import BUILTIN_HANDLERS
from botocore.hooks import HierarchicalEmitter
from botocore.loaders import Loader
from botocore.utils import parse_timestamp

from siltstone.bindings.s3.md5 import require_md5
from siltstone.bindings.s3.settings import Checksums, S3Settings
from siltstone.bindings.s3.slow_answers import time_answers

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

_LOADER: Final = Loader()
"""Descriptions of services, read once for all clients of the process."""
_MAKING: Final = threading.Lock()
"""Making clients is the one thing of the SDK that threads must not do at a time."""


@cache
def _handlers(count: int) -> HierarchicalEmitter:
    """The SDK's own handlers, ``count``: registering them takes as long as all else of a client."""
    handlers = HierarchicalEmitter()
    botocore.session.Session(event_hooks=handlers)
    return handlers


@cache
def _user_agent() -> str:
    return f"siltstone/{version('siltstone')} Botocore/{botocore.__version__}"


def make_session(settings: S3Settings) -> botocore.session.Session:
    """Return what holds the credentials; nothing is sent.

    Raises:
        botocore.exceptions.BotoCoreError: the profile is not there.
    """
    with _MAKING:
        return _session(settings)


def make_client(settings: S3Settings, session: botocore.session.Session) -> S3Client:
    """Return a client for one bucket; nothing is sent.

    Raises:
        botocore.exceptions.BotoCoreError: the region is not there.
    """
    with _MAKING:
        client: S3Client = boto3.session.Session(botocore_session=session).client(
            "s3",
            region_name=settings.region,
            endpoint_url=settings.endpoint,
            verify=_trusted(settings),
            config=_config(settings),
        )
    time_answers(client, settings.deadline_s)
    client.meta.events.register("before-call.s3", _stay)
    if settings.checksums is not Checksums.CRC32C:
        require_md5(client)
    return client


def _config(settings: S3Settings) -> Config:
    plain = (settings.endpoint or "").lower().startswith("http://")
    styles: dict[bool | None, Literal["auto", "path", "virtual"]]
    styles = {None: "auto", True: "path", False: "virtual"}
    return Config(
        # Only the retrying wrapper repeats calls, and only those that change nothing.
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=settings.connect_timeout_s,
        read_timeout=settings.read_timeout_s,
        max_pool_connections=settings.connections,
        # One that is given is not put together again for each call.
        user_agent=_user_agent(),
        tcp_keepalive=True,
        # Uploads carry a checksum of ours. What comes back is checked by its reader, block by
        # block, and ranges have no checksum of the service.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        ignore_configured_endpoint_urls=True,  # type: ignore[call-arg]
        s3={
            "addressing_style": styles[settings.path_style],
            # Without TLS the signature of the body is all that protects it.
            "payload_signing_enabled": plain or settings.checksums is Checksums.NONE,
        },
    )


def _session(settings: S3Settings) -> botocore.session.Session:
    # A mock that takes the place of the service adds handlers to the SDK's.
    handlers = copy(_handlers(len(BUILTIN_HANDLERS)))
    session = botocore.session.Session(
        event_hooks=handlers, include_builtin_handlers=False, profile=settings.profile
    )
    session.register_component("data_loader", _LOADER)
    parsers: Any = session.get_component("response_parser_factory")
    parsers.set_parser_defaults(timestamp_parser=time_of)
    if settings.access_key_id is not None and settings.secret_access_key is not None:
        token = settings.session_token
        session.set_credentials(
            settings.access_key_id.get_secret_value(),
            settings.secret_access_key.get_secret_value(),
            None if token is None else token.get_secret_value(),
        )
    if settings.role_arn is not None:
        _assume_role(session, settings, settings.role_arn)
    return session


def _assume_role(session: botocore.session.Session, settings: S3Settings, role: str) -> None:
    """Let the session get credentials of a role, and new ones before they end."""
    source: Credentials | None = session.get_credentials()
    if source is None:
        raise NoCredentialsError

    def sts(*args: Any, **kwargs: Any) -> Any:
        kwargs |= {
            "region_name": settings.region or session.get_config_variable("region"),
            "endpoint_url": settings.sts_endpoint,
            "verify": _trusted(settings),
            "config": Config(
                connect_timeout=settings.connect_timeout_s,
                read_timeout=settings.read_timeout_s,
                retries={"total_max_attempts": 1},
                ignore_configured_endpoint_urls=True,  # type: ignore[call-arg]
            ),
        }
        with _MAKING:
            client = session.create_client(*args, **kwargs)
        time_answers(client, settings.deadline_s)
        return client

    extra = {"RoleSessionName": settings.role_session_name or "siltstone"}
    if settings.role_external_id is not None:
        extra["ExternalId"] = settings.role_external_id.get_secret_value()
    fetcher = AssumeRoleCredentialFetcher(
        client_creator=sts, source_credentials=source, role_arn=role, extra_args=extra
    )
    credentials = DeferredRefreshableCredentials(
        method="assume-role", refresh_using=fetcher.fetch_credentials
    )
    session._credentials = credentials  # type: ignore[attr-defined]


def time_of(value: Any) -> datetime:
    """The time in an answer: as headers of S3 write it, or its documents, or any other service.

    The SDK tries all ways to write a time, which takes as long as to sign a request.

    Raises:
        ValueError: it is none.
    """
    written = str(value)
    try:
        if written[4:5] == "-":
            return datetime.fromisoformat(written)
        return parsedate_to_datetime(written)
    except ValueError:
        found: datetime = parse_timestamp(value)
        return found


def _trusted(settings: S3Settings) -> bool | str:
    return True if settings.ca_bundle is None else str(settings.ca_bundle)


def _stay(params: dict[str, Any], **_: Any) -> None:
    """Keep the SDK from sending a request again, to the region that an answer named.

    A wrong region is a mistake in the settings, and the user should be told.
    """
    params.get("context", {}).setdefault("s3_redirect", {})["redirected"] = True
