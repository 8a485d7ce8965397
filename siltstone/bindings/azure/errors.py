"""What an answer of the service, or none, means for a chunk, and whether a call had its effect.

The code that the service gives decides first, then the status. Nothing of the service's own text is
repeated, since it is unknown what a service puts there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import requests
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceRequestTimeoutError,
)
from urllib3.exceptions import NewConnectionError

from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkStorageFullError,
    ChunkThrottledError,
    ChunkUnavailableError,
)
from siltstone.core.remote import meanings as m
from siltstone.core.remote.answers import (
    DISAGREEMENTS,
    NOT_APPLIED,
    UNKNOWN,
    Meaning,
    error_of,
    no_answer,
    shown,
)
from siltstone.core.remote.translation import Translation

_LEASED: Final = Meaning(ChunkAccessDeniedError, "another client holds a lease on the blob")
_SEALED: Final = Meaning(ChunkAccessDeniedError, "the chunk is sealed")
_PROTECTED: Final = Meaning(ChunkAccessDeniedError, "a policy or a snapshot protects the blob")
_NO_CONTAINER: Final = Meaning(ChunkUnavailableError, "the container does not exist")
_KIND: Final = Meaning(ChunkUnavailableError, "the blob is of another kind, so not of this store")
_WHOLE: Final = Meaning(ChunkAccessDeniedError, "the chunk is a block blob, so it does not grow")
_BUSY: Final = Meaning(ChunkUnavailableError, "the blob cannot be used now")
_REPLACED: Final = Meaning(ChunkUnavailableError, "the blob was replaced meanwhile")
_NO_ANSWER: Final = Meaning(ChunkUnavailableError, "this is no answer of the service", UNKNOWN)

INVALID_TYPE: Final = "InvalidBlobType"

BY_STATUS: Final[dict[int, Meaning]] = {
    **m.BY_STATUS,
    412: _REPLACED,
}

BY_CODE: Final[dict[str, Meaning]] = {
    **dict.fromkeys(("BlobNotFound", "ResourceNotFound"), m.NO_CHUNK),
    **dict.fromkeys(("BlobAlreadyExists", "ResourceAlreadyExists"), m.EXISTS),
    **dict.fromkeys(
        ("ContainerNotFound", "ContainerBeingDeleted", "ContainerDisabled"), _NO_CONTAINER
    ),
    # The documents have it for a server that cannot take requests, over a limit or else.
    **dict.fromkeys(("ServerBusy", "TooManyRequests"), m.THROTTLED),
    **dict.fromkeys(("InternalError", "OperationTimedOut"), m.BROKEN),
    **dict.fromkeys(
        (
            "AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation",
            "AuthorizationFailure", "KeyBasedAuthenticationNotPermitted",
        ),
        m.CREDENTIALS,
    ),
    **dict.fromkeys(
        (
            "AuthorizationPermissionMismatch", "AuthorizationProtocolMismatch",
            "AuthorizationResourceTypeMismatch", "AuthorizationServiceMismatch",
            "AuthorizationSourceIPMismatch", "InsufficientAccountPermissions",
            "AccountIsDisabled", "PublicAccessNotPermitted", "UnauthorizedBlobOverwrite",
        ),
        m.DENIED,
    ),
    **dict.fromkeys(
        (
            "LeaseAlreadyPresent", "LeaseIdMissing", "LeaseIdMismatchWithBlobOperation",
            "LeaseIdMismatchWithLeaseOperation", "LeaseIsBreakingAndCannotBeAcquired",
            "LeaseLost", "LeaseNotPresentWithBlobOperation", "LeaseIsBrokenAndCannotBeRenewed",
        ),
        _LEASED,
    ),
    "BlobIsSealed": _SEALED,
    **dict.fromkeys(
        ("BlobImmutableDueToPolicy", "BlobImmutableDueToLegalHold", "SnapshotsPresent"),
        _PROTECTED,
    ),
    INVALID_TYPE: _KIND,
    **dict.fromkeys(
        ("BlobArchived", "BlobBeingRehydrated", "PendingCopyOperation", "CannotVerifyCopySource"),
        _BUSY,
    ),
    **dict.fromkeys(
        ("ConditionNotMet", "SourceConditionNotMet", "TargetConditionNotMet"), _REPLACED
    ),
    **dict.fromkeys(("Md5Mismatch", "InvalidMd5", "Crc64Mismatch"), m.CORRUPT),
    **dict.fromkeys(("InvalidResourceName", "InvalidUri", "RequestUrlFailedToParse"), m.NAME),
}  # fmt: skip

APPEND_POSITION: Final = "AppendPositionConditionNotMet"
TOO_LONG: Final = "MaxBlobSizeConditionNotMet"
TOO_MANY: Final = "BlockCountExceedsLimit"
BLOCKS_GONE: Final = "InvalidBlockList"
MAKING: Final = frozenset({"create", "concat"})
TAKEN: Final = (_REPLACED, _KIND)
"""What a condition on nothing says of a name that is taken, besides that there is such a blob."""


def status_of(error: HttpResponseError) -> int:
    """The HTTP status of an answer."""
    return int(error.status_code or 0)


def code_of(error: HttpResponseError) -> str:
    """The service's own code of an answer; empty where it gave none."""
    told = headers_of(error).get("x-ms-error-code") or getattr(error, "error_code", None) or ""
    return str(getattr(told, "value", told))


def headers_of(error: HttpResponseError) -> Mapping[str, str]:
    """The headers of an answer, by their names in lower case."""
    headers = getattr(error.response, "headers", None) or {}
    return {str(name).lower(): str(value) for name, value in headers.items()}


def meaning(status: int, code: str, operation: str) -> Meaning:
    """Return what an answer means to a verb."""
    if status < 400:
        return _NO_ANSWER if status < 300 else m.REFUSED
    found = BY_CODE.get(code) or m.of_status(status, BY_STATUS)
    if status == 429:
        # It says all there is, whatever the code.
        found = m.THROTTLED
    if found in TAKEN and operation in MAKING and code != "SourceConditionNotMet":
        return m.EXISTS
    if found is _KIND and operation == "write":
        # It was made whole, and so is like a sealed one.
        return _WHOLE
    if status >= 500 and found.outcome is NOT_APPLIED and found not in (m.THROTTLED, m.FULL):
        return found._replace(outcome=UNKNOWN)
    return found


def answered(error: HttpResponseError, chunk: str, operation: str, *, changes: bool) -> ChunkError:
    """Return the error of the contract for an answer of the service."""
    status, code = status_of(error), code_of(error)
    answer = meaning(status, code, operation)
    facts: dict[str, Any] = {"status": status or None, "code": shown(code) if code else None}
    return error_of(answer, chunk, operation, headers_of(error), changes=changes, **facts)


def unanswered(error: Exception, chunk: str, operation: str, *, changes: bool) -> ChunkError:
    """Return the error of the contract for a call that came to no answer."""
    if isinstance(error, ClientAuthenticationError):
        # Raised by what was to give a token for the request, before there was one.
        return ChunkAccessDeniedError(
            "there are no credentials", chunk=chunk, operation=operation, error=type(error).__name__
        )
    before = _is_before_sending(error)
    return no_answer(
        chunk, operation, changes=changes, unsent=before, cause=error, error=type(error).__name__
    )


def half(error: ChunkError, chunk: str, operation: str) -> ChunkError:
    """The error of a change of several requests, of which one failed after others that did not.

    The kind stays, since it says what to do about it; but something was changed.
    """
    kind: type[ChunkError] = ChunkUnavailableError
    facts: dict[str, Any] = {}
    if isinstance(error, ChunkThrottledError):
        kind, facts = ChunkThrottledError, {"retry_after_s": error.retry_after_s}
    elif isinstance(error, ChunkAccessDeniedError | ChunkStorageFullError):
        kind = type(error)
    return kind(
        "a part was written, and the rest failed",
        chunk=chunk,
        operation=operation,
        outcome=UNKNOWN,
        error=type(error).__name__,
        **facts,
    )


def replaced(chunk: str, operation: str) -> ChunkUnavailableError:
    """The error for a blob that is not the one that was looked at before."""
    return ChunkUnavailableError(_REPLACED.reason, chunk=chunk, operation=operation)


def let_go(error: BaseException) -> None:
    """Cut an error of the SDK off from the frames that it came through.

    The SDK keeps errors in variables of these frames; such a ring would hold the caller's buffers
    until it is found to be garbage, and show credentials to code that prints variables.
    """
    found: BaseException | None = error
    while found is not None:
        found.__traceback__ = None
        found = found.__cause__ or found.__context__


def _chunk_error(error: Exception, chunk: str, operation: str, changes: bool) -> ChunkError:
    let_go(error)
    if isinstance(error, HttpResponseError) and error.response is not None:
        return answered(error, chunk, operation, changes=changes)
    return unanswered(error, chunk, operation, changes=changes)


translated: Final = Translation(_chunk_error)


def _is_before_sending(error: Exception) -> bool:
    """Whether no byte of the request can have left. What is not known to be so is not."""
    if isinstance(error, ServiceRequestTimeoutError):
        return True
    if not isinstance(error, ServiceRequestError):
        return False
    inner = error.inner_exception
    if isinstance(inner, requests.exceptions.SSLError):
        # Nothing is sent before both ends have agreed.
        return any(word in str(inner) for word in DISAGREEMENTS)
    return isinstance(inner, NewConnectionError | requests.exceptions.ProxyError)
