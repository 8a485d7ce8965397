"""What an answer of the service, or none, means for a chunk, and whether a call had its effect.

The status decides first, for what stands between here and the service gives nothing else; the
service's own reason refines it. Nothing of its text is repeated: it is unknown what it holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
    ChunkUnavailableError,
)
from siltstone.core.remote import meanings as m
from siltstone.core.remote.answers import (
    DISAGREEMENTS,
    UNKNOWN,
    Meaning,
    error_of,
    no_answer,
    shown,
)
from siltstone.core.remote.translation import Translation


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


_BILLING: Final = Meaning(
    ChunkAccessDeniedError, "no billing account for the bucket, or for this request"
)
_ELSEWHERE: Final = Meaning(ChunkAccessDeniedError, "the service, or the bucket, is elsewhere")
_LATE: Final = Meaning(ChunkUnavailableError, "the request did not arrive in time", UNKNOWN)
_GONE: Final = Meaning(ChunkUnavailableError, "the upload is over", UNKNOWN)

BY_STATUS: Final[dict[int, Meaning]] = {
    **m.BY_STATUS,
    **dict.fromkeys((301, 302, 303, 307), _ELSEWHERE),
    402: _BILLING,
    408: _LATE,
    409: m.CONFLICT,
    410: _GONE,
    412: m.EXISTS,
    499: _GONE,
}

FIXED: Final = frozenset({404, 412, 416, 429})
"""These say all there is, whatever the reason."""

BY_CODE: Final[dict[str, Meaning]] = {
    **dict.fromkeys(("rateLimitExceeded", "userRateLimitExceeded", "slowDown"), m.THROTTLED),
    **dict.fromkeys(("quotaExceeded", "dailyLimitExceeded"), m.FULL),
    **dict.fromkeys(("authError", "expired", "required", "invalidCredentials"), m.CREDENTIALS),
    **dict.fromkeys(
        ("accountDisabled", "billingNotEnabled", "userProjectMissing", "userProjectAccessDenied"),
        _BILLING,
    ),
    **dict.fromkeys(("backendError", "internalError"), m.BROKEN),
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
        return m.NO_BUCKET
    if status == 400 and "object name" in text:
        return m.NAME
    if status not in FIXED and (status < 500 or BY_CODE.get(code) is m.THROTTLED):
        found = BY_CODE.get(code)
        if found is not None:
            return found
    return m.of_status(status, BY_STATUS)


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
    facts: dict[str, Any] = {
        "status": error.status,
        "code": shown(error.code) if error.code else None,
    }
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


def _chunk_error(error: Exception, chunk: str, operation: str, changes: bool) -> ChunkError:
    if isinstance(error, GoogleAPICallError):
        error = _of_sdk(error)
    if isinstance(error, RefusedError):
        return answered(error, chunk, operation, changes=changes)
    return unanswered(error, chunk, operation, changes=changes)


translated: Final = Translation(_chunk_error)


def _of_sdk(error: GoogleAPICallError) -> RefusedError:
    if isinstance(error.response, Response):
        return refused(error.response)
    return RefusedError(int(error.code or 0), "", str(error.message).lower(), {})
