"""What an answer of the service, or none, means for a chunk, and whether a call had its effect.

The status decides first, for the answer to a HEAD has nothing else; the code refines it. Nothing of
the service's own text is repeated, since it is unknown what a service puts there.
"""

from __future__ import annotations

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
    ChunkUnavailableError,
)
from siltstone.core.remote import meanings as m
from siltstone.core.remote.answers import (
    DISAGREEMENTS,
    Meaning,
    error_of,
    no_answer,
    shown,
)
from siltstone.core.remote.translation import Translation

_EXPIRED: Final = Meaning(ChunkAccessDeniedError, "the credentials have expired")
_SKEWED: Final = Meaning(ChunkAccessDeniedError, "this machine's clock is wrong, says the service")
_REGION: Final = Meaning(ChunkAccessDeniedError, "the bucket is in another region, or elsewhere")
_SLOW: Final = Meaning(ChunkUnavailableError, "the bytes did not arrive in time, and were refused")

BY_STATUS: Final[dict[int, Meaning]] = {
    **m.BY_STATUS,
    301: _REGION,
    302: _REGION,
    307: _REGION,
    409: m.CONFLICT,
    412: m.EXISTS,
}

FIXED: Final = frozenset({412, 416, 429})
"""These say all there is, whatever the code."""

BY_CODE: Final[dict[str, Meaning]] = {
    **dict.fromkeys(("NoSuchKey", "NoSuchVersion"), m.NO_CHUNK),
    "NoSuchBucket": m.NO_BUCKET,
    "NoSuchUpload": Meaning(ChunkUnavailableError, "the upload is gone: it was aborted elsewhere"),
    "PreconditionFailed": BY_STATUS[412],
    **dict.fromkeys(("ConditionalRequestConflict", "OperationAborted"), m.CONFLICT),
    **dict.fromkeys(
        (
            "SlowDown", "SlowDownRead", "SlowDownWrite", "RequestLimitExceeded", "Throttling",
            "ThrottlingException", "ThrottledException", "TooManyRequests", "RequestThrottled",
            "TooManyRequestsException", "BandwidthLimitExceeded", "RequestThrottledException",
        ),
        m.THROTTLED,
    ),
    **dict.fromkeys(
        (
            "QuotaExceeded", "StorageFull", "InsufficientCapacity", "InsufficientStorage",
            "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "BucketQuotaExceeded",
        ),
        m.FULL,
    ),
    **dict.fromkeys(
        (
            "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "NotSignedUp",
            "XAdminUserNotFound", "InvalidSecurity", "UnrecognizedClientException",
        ),
        m.CREDENTIALS,
    ),
    **dict.fromkeys(
        ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"),
        _EXPIRED,
    ),
    **dict.fromkeys(("AccessDenied", "AllAccessDisabled", "AccountProblem"), m.DENIED),
    "RequestTimeTooSkewed": _SKEWED,
    **dict.fromkeys(
        ("PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed",
         "IllegalLocationConstraintException"),
        _REGION,
    ),
    **dict.fromkeys(
        ("BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"),
        m.CORRUPT,
    ),
    **dict.fromkeys(("IncompleteBody", "RequestTimeout"), _SLOW),
    **dict.fromkeys(
        ("KeyTooLongError", "ObjectParentIsFile", "ExistingObjectIsDirectory",
         "XMinioInvalidObjectName", "XMinioInvalidResourceName", "XMinioParentIsObject",
         "DirectoryObjectContainsData"),
        m.NAME,
    ),
    "InternalError": m.BROKEN,
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
    # A throttle by its code was refused at the door; a bare 503 comes from anywhere.
    found = None if status in FIXED else BY_CODE.get(code)
    return found or m.of_status(status, BY_STATUS)


def is_conflict(error: ClientError) -> bool:
    """Whether another request for the same key was under way, and this one did nothing."""
    return meaning(status_of(error), code_of(error)) is m.CONFLICT


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
            "the role cannot be assumed", chunk=chunk, operation=operation, code=shown(code)
        )
    answer = meaning(status, code)
    facts: dict[str, Any] = {"status": status or None, "code": shown(code)}
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    if answer is _REGION:
        region = headers.get("x-amz-bucket-region")
        facts["region"] = None if region is None else shown(str(region))
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


def _chunk_error(error: Exception, chunk: str, operation: str, changes: bool) -> ChunkError:
    if isinstance(error, ClientError):
        return answered(error, chunk, operation, changes=changes)
    return unanswered(error, chunk, operation, changes=changes)


translated: Final = Translation(_chunk_error)


def _name(error: Exception) -> str:
    inner = getattr(error, "kwargs", {}).get("error")
    known = type(error) is HTTPClientError and isinstance(inner, Exception)
    return type(inner if known else error).__name__
