"""What each answer means, and what it leaves unknown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import requests
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceRequestTimeoutError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)
from urllib3.exceptions import NewConnectionError, ProtocolError

from siltstone.bindings.azure.errors import BY_CODE, half, translated
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkExistsError,
    ChunkNameError,
    ChunkNotFoundError,
    ChunkStorageFullError,
    ChunkThrottledError,
    ChunkUnavailableError,
    ClosedError,
    Outcome,
)

NOT_APPLIED, UNKNOWN = Outcome.NOT_APPLIED, Outcome.UNKNOWN


def answer(status: int, code: str = "", **headers: str) -> HttpResponseError:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    if code:
        told["x-ms-error-code"] = code
    response: Any = SimpleNamespace(
        status_code=status, reason="canary", headers=told, content_type="application/xml"
    )
    return HttpResponseError("canary", response=response)


def raised(error: Exception, *, operation: str = "create", changes: bool = True) -> ChunkError:
    with pytest.raises(ChunkError) as caught, translated("a", operation, changes=changes):
        raise error
    assert "canary" not in str(caught.value)
    assert (caught.value.chunk, caught.value.operation) == ("a", operation)
    return caught.value


@pytest.mark.parametrize(
    ("status", "code", "kind", "outcome"),
    [
        (401, "NoAuthenticationInformation", ChunkAccessDeniedError, NOT_APPLIED),
        (403, "AuthenticationFailed", ChunkAccessDeniedError, NOT_APPLIED),
        (403, "AuthorizationPermissionMismatch", ChunkAccessDeniedError, NOT_APPLIED),
        (403, "", ChunkAccessDeniedError, NOT_APPLIED),
        (404, "BlobNotFound", ChunkNotFoundError, NOT_APPLIED),
        (404, "ContainerNotFound", ChunkUnavailableError, NOT_APPLIED),
        (404, "", ChunkNotFoundError, NOT_APPLIED),
        (409, "BlobAlreadyExists", ChunkExistsError, NOT_APPLIED),
        (409, "ContainerBeingDeleted", ChunkUnavailableError, NOT_APPLIED),
        (409, "BlobIsSealed", ChunkAccessDeniedError, NOT_APPLIED),
        (409, "BlobImmutableDueToPolicy", ChunkAccessDeniedError, NOT_APPLIED),
        (409, "SnapshotsPresent", ChunkAccessDeniedError, NOT_APPLIED),
        (409, "LeaseAlreadyPresent", ChunkAccessDeniedError, NOT_APPLIED),
        (409, "BlobArchived", ChunkUnavailableError, NOT_APPLIED),
        (409, "InvalidBlobType", ChunkExistsError, NOT_APPLIED),
        (409, "", ChunkUnavailableError, NOT_APPLIED),
        (412, "ConditionNotMet", ChunkExistsError, NOT_APPLIED),
        (412, "SourceConditionNotMet", ChunkUnavailableError, NOT_APPLIED),
        (412, "LeaseIdMissing", ChunkAccessDeniedError, NOT_APPLIED),
        (412, "LeaseIdMismatchWithBlobOperation", ChunkAccessDeniedError, NOT_APPLIED),
        (412, "LeaseLost", ChunkAccessDeniedError, NOT_APPLIED),
        (413, "RequestBodyTooLarge", ChunkUnavailableError, NOT_APPLIED),
        (416, "InvalidRange", ChunkUnavailableError, NOT_APPLIED),
        (400, "Md5Mismatch", ChunkUnavailableError, NOT_APPLIED),
        (400, "InvalidResourceName", ChunkNameError, NOT_APPLIED),
        (400, "", ChunkUnavailableError, NOT_APPLIED),
        (429, "", ChunkThrottledError, NOT_APPLIED),
        (429, "BlobNotFound", ChunkThrottledError, NOT_APPLIED),
        (503, "ServerBusy", ChunkThrottledError, NOT_APPLIED),
        (503, "", ChunkThrottledError, UNKNOWN),
        (500, "InternalError", ChunkUnavailableError, UNKNOWN),
        (500, "OperationTimedOut", ChunkUnavailableError, UNKNOWN),
        (503, "OperationTimedOut", ChunkUnavailableError, UNKNOWN),
        (500, "BlobNotFound", ChunkNotFoundError, UNKNOWN),
        (502, "", ChunkUnavailableError, UNKNOWN),
        (507, "", ChunkStorageFullError, NOT_APPLIED),
        (200, "", ChunkUnavailableError, UNKNOWN),
        (302, "", ChunkUnavailableError, NOT_APPLIED),
    ],
)
def test_an_answer(status: int, code: str, kind: type[ChunkError], outcome: Outcome) -> None:
    error = raised(answer(status, code))
    assert type(error) is kind
    assert error.outcome is outcome
    assert raised(answer(status, code), changes=False).outcome is NOT_APPLIED


@pytest.mark.parametrize("code", ["ConditionNotMet", ""])
def test_a_condition_of_a_write_says_nothing_of_names(code: str) -> None:
    assert type(raised(answer(412, code), operation="write")) is ChunkUnavailableError


def test_a_blob_of_another_kind_is_like_a_sealed_one_to_a_write() -> None:
    error = raised(answer(409, "InvalidBlobType"), operation="write")
    assert type(error) is ChunkAccessDeniedError
    assert error.outcome is NOT_APPLIED
    assert type(raised(answer(409, "InvalidBlobType"), operation="seal")) is ChunkUnavailableError


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry_After": "7"}, 7.0),
        (
            {"Retry_After": "Sat, 21 Nov 2026 10:00:09 GMT",
             "Date": "Sat, 21 Nov 2026 10:00:00 GMT"},
            9.0,
        ),
        ({"Retry_After": "soon"}, None),
        ({"Retry_After": "٣"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    error = raised(answer(503, "ServerBusy", **headers))
    assert isinstance(error, ChunkThrottledError)
    assert error.retry_after_s == seconds


def test_a_code_that_is_no_word_is_not_shown() -> None:
    assert "code=unknown" in str(raised(answer(400, "a canary's secret")))


def refused_connection() -> NewConnectionError:
    connection: Any = SimpleNamespace(host="canary")
    return NewConnectionError(connection, "canary")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ServiceRequestTimeoutError("canary"), NOT_APPLIED),
        (ServiceRequestError("canary", error=refused_connection()), NOT_APPLIED),
        (
            ServiceRequestError("canary", error=requests.exceptions.SSLError(
                "[SSL: CERTIFICATE_VERIFY_FAILED] canary")),
            NOT_APPLIED,
        ),
        (
            ServiceRequestError("canary", error=requests.exceptions.SSLError("EOF occurred")),
            UNKNOWN,
        ),
        (
            ServiceRequestError("canary", error=requests.exceptions.ConnectionError("canary")),
            UNKNOWN,
        ),
        (ServiceRequestError("canary"), UNKNOWN),
        (ServiceResponseError("canary", error=ProtocolError("canary")), UNKNOWN),
        (ServiceResponseTimeoutError("canary"), UNKNOWN),
        (HttpResponseError("canary"), UNKNOWN),
        (OSError("canary"), UNKNOWN),
        (AttributeError("canary"), UNKNOWN),
    ],
)  # fmt: skip
def test_no_answer(error: Exception, outcome: Outcome) -> None:
    found = raised(error)
    assert type(found) is ChunkUnavailableError
    assert found.outcome is outcome
    assert raised(error, changes=False).outcome is NOT_APPLIED


def test_no_token() -> None:
    error = raised(ClientAuthenticationError("canary"))
    assert type(error) is ChunkAccessDeniedError
    assert error.outcome is NOT_APPLIED


def test_errors_of_ours_go_through() -> None:
    with pytest.raises(ClosedError), translated("a", "create", changes=True):
        raise ClosedError("closed")


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_a_half_effect_is_unknown_whatever_the_answer(code: str) -> None:
    error = raised(answer(409, code))
    found = half(error, "a", "create")
    assert found.outcome is UNKNOWN
    assert not isinstance(found, ChunkExistsError | ChunkNotFoundError | ChunkNameError)


def test_a_half_effect_of_a_throttled_call_still_says_how_long_to_wait() -> None:
    found = half(raised(answer(503, "ServerBusy", Retry_After="7")), "a", "write")
    assert isinstance(found, ChunkThrottledError)
    assert (found.retry_after_s, found.outcome) == (7.0, UNKNOWN)
