"""What an answer of the service, or none, means for a chunk, and whether a call had its effect.

The status decides first, for the answer to a HEAD has nothing else; the code refines it. Nothing of
the service's own text is repeated, since it is unknown what a service puts there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProxyConnectionError,
    SSLError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

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

_DENIED: Final = Meaning(ChunkAccessDeniedError, "the service refused")
_CREDENTIALS: Final = Meaning(ChunkAccessDeniedError, "the service refused the credentials")
_EXPIRED: Final = Meaning(ChunkAccessDeniedError, "the credentials have expired")
_SKEWED: Final = Meaning(ChunkAccessDeniedError, "this machine's clock is wrong, says the service")
_REGION: Final = Meaning(ChunkAccessDeniedError, "the bucket is in another region, or elsewhere")
_THROTTLED: Final = Meaning(ChunkThrottledError, "the service asks for fewer requests")
_FULL: Final = Meaning(ChunkStorageFullError, "no room, or the quota is used up")
_CORRUPT: Final = Meaning(ChunkUnavailableError, "the bytes arrived damaged, and were refused")
_SLOW: Final = Meaning(ChunkUnavailableError, "the bytes did not arrive in time, and were refused")
_NO_BUCKET: Final = Meaning(ChunkUnavailableError, "the bucket does not exist")
_NAME: Final = Meaning(ChunkNameError, "the service cannot hold this name")
_CONFLICT: Final = Meaning(ChunkUnavailableError, "another request changes the same key")
_BROKEN: Final = Meaning(ChunkUnavailableError, "the service failed", UNKNOWN)
_REFUSED: Final = Meaning(ChunkUnavailableError, "the service refused the request")
_NO_CHUNK: Final = Meaning(ChunkNotFoundError, "no such chunk")

BY_STATUS: Final[dict[int, Meaning]] = {
    301: _REGION,
    302: _REGION,
    307: _REGION,
    401: _CREDENTIALS,
    403: _DENIED,
    404: _NO_CHUNK,
    409: _CONFLICT,
    412: Meaning(ChunkExistsError, "chunk exists"),
    429: _THROTTLED,
    503: _THROTTLED._replace(outcome=UNKNOWN),
    507: _FULL,
}
"""All other answers from 400 on are refusals, those from 500 on failures that may have begun."""

FIXED: Final = frozenset({412, 416, 429})
"""These say all there is, whatever the code."""

BY_CODE: Final[dict[str, Meaning]] = {
    **dict.fromkeys(("NoSuchKey", "NoSuchVersion"), _NO_CHUNK),
    "NoSuchBucket": _NO_BUCKET,
    "NoSuchUpload": Meaning(ChunkUnavailableError, "the upload is gone: somebody aborted it"),
    "PreconditionFailed": BY_STATUS[412],
    **dict.fromkeys(("ConditionalRequestConflict", "OperationAborted"), _CONFLICT),
    **dict.fromkeys(
        (
            "SlowDown", "SlowDownRead", "SlowDownWrite", "RequestLimitExceeded", "Throttling",
            "ThrottlingException", "ThrottledException", "TooManyRequests", "RequestThrottled",
            "TooManyRequestsException", "BandwidthLimitExceeded", "RequestThrottledException",
        ),
        _THROTTLED,
    ),
    **dict.fromkeys(
        (
            "QuotaExceeded", "StorageFull", "InsufficientCapacity", "InsufficientStorage",
            "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "BucketQuotaExceeded",
        ),
        _FULL,
    ),
    **dict.fromkeys(
        (
            "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "NotSignedUp",
            "XAdminUserNotFound", "InvalidSecurity", "UnrecognizedClientException",
        ),
        _CREDENTIALS,
    ),
    **dict.fromkeys(
        ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"),
        _EXPIRED,
    ),
    **dict.fromkeys(("AccessDenied", "AllAccessDisabled", "AccountProblem"), _DENIED),
    "RequestTimeTooSkewed": _SKEWED,
    **dict.fromkeys(
        ("PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed",
         "IllegalLocationConstraintException"),
        _REGION,
    ),
    **dict.fromkeys(
        ("BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"),
        _CORRUPT,
    ),
    **dict.fromkeys(("IncompleteBody", "RequestTimeout"), _SLOW),
    **dict.fromkeys(
        ("KeyTooLongError", "ObjectParentIsFile", "ExistingObjectIsDirectory",
         "XMinioInvalidObjectName", "XMinioInvalidResourceName", "XMinioParentIsObject",
         "DirectoryObjectContainsData"),
        _NAME,
    ),
    "InternalError": _BROKEN,
}  # fmt: skip

BEFORE_SENDING: Final = (
    EndpointConnectionError,
    ConnectTimeoutError,
    ProxyConnectionError,
    ParamValidationError,
)
CREDENTIALS: Final = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)


def status_of(error: ClientError) -> int:
    """The HTTP status of an answer."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def code_of(error: ClientError) -> str:
    """The service's own code of an answer; the status where there was no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def meaning(status: int, code: str) -> Meaning:
    """Return what an answer means. A status below 300 is that of an error in the body."""
    if status in FIXED:
        return BY_STATUS.get(status, _REFUSED)
    found = BY_CODE.get(code)
    if found is not None:
        # A throttle by its code was refused at the door; a bare 503 comes from anywhere.
        return found
    if status in BY_STATUS:
        return BY_STATUS[status]
    return _REFUSED if 400 <= status < 500 else _BROKEN


def is_conflict(error: ClientError) -> bool:
    """Whether another request for the same key was under way, and this one did nothing."""
    return meaning(status_of(error), code_of(error)) is _CONFLICT


def replaced(chunk: str, operation: str) -> ChunkUnavailableError:
    """The error for an object that is not the one that was looked at before."""
    return ChunkUnavailableError(
        "the object was replaced meanwhile", chunk=chunk, operation=operation
    )


def answered(error: ClientError, chunk: str, operation: str, *, changes: bool) -> ChunkError:
    """Return the error of the contract for an answer of the service."""
    status, code = status_of(error), code_of(error)
    if error.operation_name.startswith("AssumeRole"):
        return ChunkAccessDeniedError(
            "the role cannot be assumed", chunk=chunk, operation=operation, code=_known(code)
        )
    answer = meaning(status, code)
    facts: dict[str, Any] = {"status": status or None, "code": _known(code)}
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    if answer is _REGION:
        region = headers.get("x-amz-bucket-region")
        facts["region"] = None if region is None else _known(str(region))
    return error_of(answer, chunk, operation, headers, changes=changes, **facts)


def unanswered(error: Exception, chunk: str, operation: str, *, changes: bool) -> ChunkError:
    """Return the error of the contract for a call that came to no answer."""
    if isinstance(error, CREDENTIALS):
        return ChunkAccessDeniedError(
            "there are no credentials", chunk=chunk, operation=operation, error=_name(error)
        )
    before = isinstance(error, BEFORE_SENDING)
    if isinstance(error, SSLError):
        # Nothing is sent before both ends have agreed.
        before = any(word in str(error) for word in DISAGREEMENTS)
    return no_answer(
        chunk, operation, changes=changes, unsent=before, cause=error, error=_name(error)
    )


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
    except ClientError as error:
        raise answered(error, chunk, operation, changes=changes) from error
    except SiltstoneError:
        raise
    except Exception as error:
        # Whatever an SDK and the libraries below it raise, the call came to no answer.
        raise unanswered(error, chunk, operation, changes=changes) from error


def _known(code: str) -> str:
    """A code as it may be shown: a word, and nothing that a service might put there instead."""
    return code if code.replace("-", "").isalnum() and len(code) <= 64 else "unknown"


def _name(error: Exception) -> str:
    inner = getattr(error, "kwargs", {}).get("error")
    known = type(error) is HTTPClientError and isinstance(inner, Exception)
    return type(inner if known else error).__name__
