"""The client of the SDK: credentials, transport, and none of the SDK's own repetitions."""

from __future__ import annotations

import logging
import re
import socket
from typing import Any, Final

import requests
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobServiceClient
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies
from urllib3.util.retry import Retry

from siltstone.bindings.azure.settings import AzureSettings, Identity
from siltstone.core.constants import MIB
from siltstone.core.errors import SettingsError
from siltstone.core.remote.body import BLOCK_BYTES
from siltstone.core.remote.timed_answers import TimedAdapter

READ_BYTES: Final = MIB
"""What one read of the socket asks for."""


SIGNATURE: Final = re.compile(r"(?i)\bsig=[^&\s\"']+")


def _without_signatures(record: logging.LogRecord) -> bool:
    """Take signatures out of what the transport logs, which is the whole URL of each request."""
    text = record.getMessage()
    if SIGNATURE.search(text):
        record.msg, record.args = SIGNATURE.sub("sig=REDACTED", text), None
    return True


GUESSES: Final = "azure.storage.blob._shared.response_handlers"
"""The SDK's logger of errors without a code, such as those of a proxy on the way."""


def _is_told(record: logging.LogRecord) -> bool:
    """Drop what says of each such answer that its body is text: the error is raised, and told."""
    return not str(record.msg).startswith("Unexpected return type")


class PooledAdapter(TimedAdapter, HTTPAdapter):
    """Keeps as many connections as the settings say, and sends large blocks."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """See the base class."""
        keeping = (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        kwargs |= {
            "blocksize": BLOCK_BYTES,
            "socket_options": [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), keeping],
        }
        super().init_poolmanager(*args, **kwargs)


def make_session(settings: AzureSettings) -> requests.Session:
    """Return the connections of one client; none is open yet."""
    session = requests.Session()
    # Otherwise each request looks at all variables, and a file may replace what it is signed with.
    session.proxies.update(get_environ_proxies(settings.account_url))
    session.trust_env = False
    # Done again for each client; a logger keeps one.
    logging.getLogger("urllib3.connectionpool").addFilter(_without_signatures)
    logging.getLogger(GUESSES).addFilter(_is_told)
    adapter = PooledAdapter(
        settings.deadline_s,
        pool_connections=4,
        pool_maxsize=settings.connections,
        # Only the retrying wrapper repeats calls, and only those that change nothing.
        max_retries=Retry(total=False, redirect=False, raise_on_status=False),
    )
    for scheme in ("https://", "http://"):
        session.mount(scheme, adapter)
    # Ranges are of bytes as they are kept.
    session.headers["Accept-Encoding"] = "identity"
    return session


def make_client(settings: AzureSettings, session: requests.Session) -> BlobServiceClient:
    """Return a client for one account; nothing is sent.

    Raises:
        SettingsError: the credential cannot be used.
    """
    transport = RequestsTransport(
        session=session,
        session_owner=False,
        connection_timeout=settings.connect_timeout_s,
        read_timeout=settings.read_timeout_s,
        connection_verify=True if settings.ca_bundle is None else str(settings.ca_bundle),
        connection_data_block_size=READ_BYTES,
    )
    return BlobServiceClient(
        settings.account_url,
        credential=credential_of(settings),
        transport=transport,
        retry_total=0,
        permit_redirects=False,
        max_single_put_size=settings.put_bytes_max,
        connection_timeout=settings.connect_timeout_s,
        read_timeout=settings.read_timeout_s,
    )


def credential_of(settings: AzureSettings) -> Any:
    """What the SDK signs requests with."""
    parts = settings.connection_parts()
    account = parts.get("accountname", settings.account)
    key = parts.get("accountkey", _revealed(settings.account_key))
    if key is not None and account is not None:
        return AzureNamedKeyCredential(account, key)
    signature = parts.get("sharedaccesssignature", _revealed(settings.sas_token))
    if signature is not None:
        return AzureSasCredential(signature.lstrip("?"))
    return _identity(settings)


def _revealed(secret: Any) -> str | None:
    return None if secret is None else str(secret.get_secret_value())


def _identity(settings: AzureSettings) -> Any:
    try:
        from azure.identity import DefaultAzureCredential, ManagedIdentityCredential
    except ImportError as error:
        raise SettingsError("azure.identity: needs the package azure-identity") from error
    timeouts: dict[str, Any] = {
        "connection_timeout": settings.connect_timeout_s,
        "read_timeout": settings.read_timeout_s,
    }
    if settings.identity is Identity.MANAGED:
        return ManagedIdentityCredential(client_id=settings.client_id, **timeouts)
    return DefaultAzureCredential(**timeouts)
