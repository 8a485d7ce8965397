"""What an answer of the service, or none, means for a chunk, and whether a call had its effect.

The status decides first, for what stands between here and the service gives nothing else; the
service's own reason refines it. Nothing of its text is repeated: it is unknown what it holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import GoogleAuthError, TransportError
from requests import Response
from requests.exceptions import (
    ConnectionError,
    ConnectTimeout,
    InvalidProxyURL,
    InvalidSchema,
    InvalidURL,
    MissingSchema,
    ProxyError,
    SSLError,
)
from urllib3.exceptions import NewConnectionError

from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkExistsError,
    ChunkNameError,
    ChunkNotFoundError,
    ChunkStorageFullError,
    ChunkThrottledError,
    ChunkUnavailableError,
    SiltstoneError,
)
from siltstone.core.remote.answers import (
    DISAGREEMENTS,
    UNKNOWN,
    Meaning,
    error_of,
    no_answer,
)


class RefusedError(Exception):
    """An answer that is no success, before it is translated.

    Attributes:
        status: of HTTP.
        code: the service's reason; empty where there is none.
        text: the service's message, which is looked at and never shown.
        headers: by their names in lower case.
    """

    def __init__(self, status: int, code: str, text: str, headers: Mapping[str, str]) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.code = code
        self.text = text
        self.headers = {name.lower(): value for name, value in headers.items()}


class ReplacedError(ChunkUnavailableError):
    """An object is not the one that was looked at before."""


_DENIED: Final = Meaning(ChunkAccessDeniedError, "the service refused")
_CREDENTIALS: Final = Meaning(ChunkAccessDeniedError, "the service refused the credentials")
_BILLING: Final = Meaning(ChunkAccessDeniedError, "nobody pays for the bucket, or for this request")
_ELSEWHERE: Final = Meaning(ChunkAccessDeniedError, "the service, or the bucket, is elsewhere")
_THROTTLED: Final = Meaning(ChunkThrottledError, "the service asks for fewer requests")
_FULL: Final = Meaning(ChunkStorageFullError, "no room, or the quota is used up")
_NO_BUCKET: Final = Meaning(ChunkUnavailableError, "the bucket does not exist")
_NAME: Final = Meaning(ChunkNameError, "the service cannot hold this name")
_CONFLICT: Final = Meaning(ChunkUnavailableError, "another request changes the same key")
_BROKEN: Final = Meaning(ChunkUnavailableError, "the service failed", UNKNOWN)
_LATE: Final = Meaning(ChunkUnavailableError, "the request did not arrive in time", UNKNOWN)
_REFUSED: Final = Meaning(ChunkUnavailableError, "the service refused the request")
_NO_CHUNK: Final = Meaning(ChunkNotFoundError, "no such chunk")
_GONE: Final = Meaning(ChunkUnavailableError, "the upload is over", UNKNOWN)

BY_STATUS: Final[dict[int, Meaning]] = {
    **dict.fromkeys((301, 302, 303, 307), _ELSEWHERE),
    401: _CREDENTIALS,
    402: _BILLING,
    403: _DENIED,
    404: _NO_CHUNK,
    408: _LATE,
    409: _CONFLICT,
    410: _GONE,
    412: Meaning(ChunkExistsError, "chunk exists"),
    429: _THROTTLED,
    499: _GONE,
    503: _THROTTLED._replace(outcome=UNKNOWN),
    507: _FULL,
}
"""All other answers from 400 on are refusals, those from 500 on failures that may have begun."""

FIXED: Final = frozenset({404, 412, 416, 429})
"""These say all there is, whatever the reason."""

BY_CODE: Final[dict[str, Meaning]] = {
    **dict.fromkeys(("rateLimitExceeded", "userRateLimitExceeded", "slowDown"), _THROTTLED),
    **dict.fromkeys(("quotaExceeded", "dailyLimitExceeded"), _FULL),
    **dict.fromkeys(("authError", "expired", "required", "invalidCredentials"), _CREDENTIALS),
    **dict.fromkeys(
        ("accountDisabled", "billingNotEnabled", "userProjectMissing", "userProjectAccessDenied"),
        _BILLING,
    ),
    **dict.fromkeys(("backendError", "internalError"), _BROKEN),
}
"""Reasons of refusals; that of an answer from 500 on is not looked at, but for a throttle's."""

BEFORE_SENDING: Final = (
    ConnectTimeout,
    InvalidProxyURL,
    InvalidSchema,
    InvalidURL,
    MissingSchema,
    ProxyError,
)


def meaning(status: int, code: str, text: str = "") -> Meaning:
    """Return what an answer means. ``text`` tells a bucket from an object, and a name's fault."""
    if status == 404 and "bucket" in text and "not exist" in text:
        return _NO_BUCKET
    if status == 400 and "object name" in text:
        return _NAME
    if status not in FIXED and (status < 500 or BY_CODE.get(code) is _THROTTLED):
        found = BY_CODE.get(code)
        if found is not None:
            return found
    if status in BY_STATUS:
        return BY_STATUS[status]
    return _REFUSED if 400 <= status < 500 else _BROKEN


def refused(response: Response) -> RefusedError:
    """Return what an answer says that is no success."""
    code, text = "", ""
    try:
        error = json.loads(response.content)["error"]
        text = str(error["message"]).lower()
        code = str(error["errors"][0]["reason"])
    except (ValueError, TypeError, LookupError):
        # Many answers are from something that is not the service, or have no body.
        text = text or response.content[:1_000].decode(errors="replace").lower()
    return RefusedError(response.status_code, code, text, response.headers)


def replaced(chunk: str, operation: str) -> ReplacedError:
    """The error for an object that is not the one that was looked at before."""
    return ReplacedError("the object was replaced meanwhile", chunk=chunk, operation=operation)


def answered(error: RefusedError, chunk: str, operation: str, *, changes: bool) -> ChunkError:
    """Return the error of the contract for an answer of the service."""
    answer = meaning(error.status, error.code, error.text)
    facts: dict[str, Any] = {"status": error.status, "code": _known(error.code) or None}
    return error_of(answer, chunk, operation, error.headers, changes=changes, **facts)


def unanswered(error: Exception, chunk: str, operation: str, *, changes: bool) -> ChunkError:
    """Return the error of the contract for a call that came to no answer."""
    if isinstance(error, GoogleAuthError) and not isinstance(error, TransportError):
        return ChunkAccessDeniedError(
            "there are no credentials, or they cannot be renewed",
            chunk=chunk,
            operation=operation,
            error=type(error).__name__,
        )
    before = is_unsent(error)
    return no_answer(
        chunk, operation, changes=changes, unsent=before, cause=error, error=type(error).__name__
    )


def is_unsent(error: Exception) -> bool:
    """Whether nothing of the request can have arrived."""
    # Credentials are looked for before the request that needs them.
    if isinstance(error, (*BEFORE_SENDING, GoogleAuthError)):
        return True
    if isinstance(error, SSLError):
        # Nothing is sent before both ends have agreed.
        return any(word in str(error) for word in DISAGREEMENTS)
    if isinstance(error, ConnectionError) and error.args:
        return isinstance(getattr(error.args[0], "reason", None), NewConnectionError)
    return False


@contextmanager
def translated(chunk: str, operation: str, *, changes: bool = False) -> Iterator[None]:
    """Turn what the SDK raises in the block into a ``ChunkError``.

    Args:
        chunk: the name.
        operation: the verb.
        changes: whether the one request of the block may change what others see.
    """
    try:
        yield
    except RefusedError as error:
        raise answered(error, chunk, operation, changes=changes) from error
    except GoogleAPICallError as error:
        raise answered(_of_sdk(error), chunk, operation, changes=changes) from error
    except SiltstoneError:
        raise
    except Exception as error:
        # Whatever an SDK and the libraries below it raise, the call came to no answer.
        raise unanswered(error, chunk, operation, changes=changes) from error


def _of_sdk(error: GoogleAPICallError) -> RefusedError:
    if isinstance(error.response, Response):
        return refused(error.response)
    return RefusedError(int(error.code or 0), "", str(error.message).lower(), {})


def _known(code: str) -> str:
    """A reason as it may be shown: a word, and nothing that a service might put there instead."""
    return code if not code or (code.isalnum() and len(code) <= 64) else "unknown"
