"""The transport of the SDK, without repetitions and redirects, and with an end to each call.

The timeouts of a socket are for one operation each, so an answer that trickles would never end.
Here every answer is read as it comes, and the deadline of the call is looked at in between.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.transport.requests import AuthorizedSession
from requests import Response
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies

from siltstone.bindings.gcs.settings import GcsSettings
from siltstone.core.constants import KIB, MIB
from siltstone.core.remote.deadline import Deadline
from siltstone.core.remote.timed_answers import TimedAdapter

GOOGLE: Final = "https://storage.googleapis.com"
STEP_BYTES: Final = 256 * KIB
"""What one read of the socket asks for; it returns with what has come."""
ANSWER_BYTES_MAX: Final = 64 * MIB
"""More than any answer of the service but the bytes of a chunk."""
UNAUTHORIZED: Final = 401


class TrickleAdapter(TimedAdapter, HTTPAdapter):
    """Ends an answer whose head trickles, too."""


class PooledSession(AuthorizedSession):
    """Connections and credentials, for threads at a time.

    Args:
        credentials: go with every request; renewed shortly before they end.
        settings: timeouts, and whom to trust.
        is_renewable: whether credentials that were refused may be replaced by new ones.
    """

    def __init__(
        self, credentials: Credentials, settings: GcsSettings, *, is_renewable: bool
    ) -> None:
        # The SDK does not send a refused request again, not even with new credentials.
        super().__init__(credentials, refresh_status_codes=())  # type: ignore[no-untyped-call]
        self._settings = settings
        self._is_renewable = is_renewable
        self._now = threading.local()
        # Else each request reads the whole environment twice, and what a .netrc says replaces the
        # credentials. What the environment says when the session is made holds for its life.
        self.trust_env = False
        self.proxies = get_environ_proxies(settings.endpoint or GOOGLE)
        self.verify = _trusted(settings)
        for scheme in ("https://", "http://"):
            adapter = TrickleAdapter(
                settings.deadline_s, pool_maxsize=settings.connections, max_retries=0
            )
            self.mount(scheme, adapter)

    @contextmanager
    def until(self, deadline: Deadline) -> Iterator[None]:
        """Let the requests of this thread end with a deadline."""
        before = getattr(self._now, "deadline", None)
        self._now.deadline = deadline
        try:
            yield
        finally:
            self._now.deadline = before

    def request(  # type: ignore[override]
        self, method: str, url: str, data: Any = None, headers: Any = None, **kwargs: Any
    ) -> Response:
        """Send one request; its answer is whole unless ``stream`` is given."""
        deadline = getattr(self._now, "deadline", None) or Deadline(self._settings.deadline_s)
        is_stream = kwargs.pop("stream", False)
        left = deadline.left_s()
        kwargs["timeout"] = (
            min(self._settings.connect_timeout_s, left),
            min(self._settings.read_timeout_s, left),
        )
        kwargs["allow_redirects"] = False
        response: Response = super().request(  # type: ignore[no-untyped-call]
            method, url, data=data, headers=headers, stream=True, **kwargs
        )
        if response.status_code == UNAUTHORIZED and self._is_renewable:
            # So the next request begins with new ones.
            self.credentials.token = None
        if not is_stream:
            _read(response, deadline)
        return response


def _read(response: Response, deadline: Deadline) -> None:
    """Read the whole answer, as ``requests`` does where it does not matter how long it takes."""
    try:
        blocks: list[bytes] = []
        length = 0
        while True:
            deadline.check()
            block = response.raw.read1(STEP_BYTES, decode_content=True)
            if not block:
                break
            blocks.append(block)
            length += len(block)
            if length > ANSWER_BYTES_MAX:
                raise ValueError("the answer is longer than any of the service")
        response._content = b"".join(blocks)
        response._content_consumed = True
    except BaseException:
        response.close()
        raise
    response.raw.release_conn()


def make_session(credentials: Credentials, settings: GcsSettings) -> PooledSession:
    """Return a session; nothing is sent."""
    is_fixed = settings.token is not None or isinstance(credentials, AnonymousCredentials)
    return PooledSession(credentials, settings, is_renewable=not is_fixed)


def _trusted(settings: GcsSettings) -> str | bool:
    """The certificates to trust: what is set, else what a variable says, else the usual ones."""
    if settings.ca_bundle is not None:
        return str(settings.ca_bundle)
    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
