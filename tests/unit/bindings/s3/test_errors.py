"""What answers mean, code by code, and what faults of the service lead to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ReadTimeoutError,
    SSLError,
)
from botocore.parsers import ResponseParserError

from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.errors import answered, unanswered
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkExistsError,
    ChunkThrottledError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.remote import remote_client
from siltstone.core.remote.answers import retry_after
from tests.support.stubs.read_suite import (  # noqa: F401
    ANSWERS,
    NOT,
    UNKNOWN,
    test_a_read_that_breaks_off_is_no_read,
    test_a_service_that_ignores_ranges_is_noticed,
    test_a_source_that_is_replaced_is_refused,
    test_another_range_than_was_asked_for_is_refused,
)
from tests.support.stubs.s3_stub import Reply, Request, Stub, broken, lost_reply, refusal


def client_error(status: int, code: str, operation: str = "PutObject", **headers: str) -> Any:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return ClientError(
        {
            "Error": {"Code": code, "Message": "secret text of the service"},
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": told},  # type: ignore[typeddict-item]
        },
        operation,
    )


@pytest.mark.parametrize(("status", "code", "kind", "outcome"), ANSWERS)
def test_an_answer_has_its_meaning(
    status: int, code: str, kind: type[ChunkError], outcome: Outcome
) -> None:
    error = answered(client_error(status, code), "a/b", "create", changes=True)
    assert type(error) is kind
    assert error.outcome is outcome
    assert (error.chunk, error.operation) == ("a/b", "create")
    assert "secret" not in str(error)
    reading = answered(client_error(status, code), "a/b", "stat", changes=False)
    assert (type(reading), reading.outcome) == (kind, NOT)


def test_a_code_that_is_no_word_is_not_shown() -> None:
    error = answered(client_error(403, "key=hunter2 <x>"), "a", "stat", changes=False)
    assert "hunter2" not in str(error)
    assert "code=unknown" in str(error)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        (
            {
                "retry-after": "Thu, 01 Jan 2026 00:00:30 GMT",
                "date": "Thu, 01 Jan 2026 00:00:10 GMT",
            },
            20.0,
        ),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after(headers) == expected


def test_a_throttling_answer_tells_how_long_to_wait() -> None:
    error = answered(client_error(503, "SlowDown", retry_after="9"), "a", "create", changes=True)
    assert isinstance(error, ChunkThrottledError)
    assert error.retry_after_s == 9.0


def test_a_role_that_cannot_be_assumed_is_no_answer_of_the_bucket() -> None:
    error = answered(client_error(500, "InternalError", "AssumeRole"), "a", "create", changes=True)
    assert type(error) is ChunkAccessDeniedError
    assert error.outcome is NOT


URL = "https://x"
RESET = ConnectionResetError()
UNANSWERED: list[tuple[Exception, type[ChunkError], Outcome]] = [
    (EndpointConnectionError(endpoint_url=URL), ChunkUnavailableError, NOT),
    (ConnectTimeoutError(endpoint_url=URL), ChunkUnavailableError, NOT),
    (NoCredentialsError(), ChunkAccessDeniedError, NOT),
    (
        SSLError(endpoint_url=URL, error=OSError("CERTIFICATE_VERIFY_FAILED")),
        ChunkUnavailableError,
        NOT,
    ),
    (SSLError(endpoint_url=URL, error=OSError("BAD_RECORD_MAC")), ChunkUnavailableError, UNKNOWN),
    (ReadTimeoutError(endpoint_url=URL), ChunkUnavailableError, UNKNOWN),
    (ConnectionClosedError(endpoint_url=URL), ChunkUnavailableError, UNKNOWN),
    (HTTPClientError(error=RESET), ChunkUnavailableError, UNKNOWN),
    (ResponseParserError("no XML"), ChunkUnavailableError, UNKNOWN),
    (KeyError("what"), ChunkUnavailableError, UNKNOWN),
    (TimeoutError(), ChunkUnavailableError, UNKNOWN),
]


@pytest.mark.parametrize(("error", "kind", "outcome"), UNANSWERED)
def test_no_answer_has_its_meaning(
    error: Exception, kind: type[ChunkError], outcome: Outcome
) -> None:
    failed = unanswered(error, "a", "create", changes=True)
    assert (type(failed), failed.outcome) == (kind, outcome)
    assert unanswered(error, "a", "stat", changes=False).outcome is NOT


# --- faults -------------------------------------------------------------------------------------


def change(storage: S3ChunkStorage, verb: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "create": lambda: storage.create("t", [b"x" * 100_000]),
        "concat": lambda: storage.concat("t", [("s", 6 * MIB)]),
        "delete": lambda: storage.delete("s"),
        "delete_many": lambda: storage.delete_many(["s"]),
    }
    calls[verb]()


MUTATIONS = [
    ("create", "PUT"),
    ("concat", "POST?uploadId"),
    ("delete", "DELETE"),
    ("delete_many", "POST?delete"),
]


@pytest.mark.parametrize(("verb", "what"), MUTATIONS)
@pytest.mark.parametrize("fault", [broken, lost_reply, refusal(500, "InternalError")])
def test_a_change_without_an_answer_is_unknown_and_sent_once(
    storage: S3ChunkStorage, stub: Stub, verb: str, what: str, fault: Any
) -> None:
    stub.objects["s"] = bytes(6 * MIB)
    stub.fail(what, fault)
    with pytest.raises(ChunkUnavailableError) as caught:
        change(storage, verb)
    assert caught.value.outcome is UNKNOWN
    assert stub.whats().count(what) == 1
    applied = "s" not in stub.objects if verb.startswith("delete") else "t" in stub.objects
    assert applied == (fault is lost_reply)
    assert not [request for request in stub.asked if request.what == "DELETE?uploadId"]


@pytest.mark.parametrize(("verb", "what"), MUTATIONS)
@pytest.mark.parametrize(
    "fault",
    [refusal(503, "SlowDown", retry_after="2"), refusal(429, "TooManyRequests", retry_after="2")],
)
def test_a_throttled_change_had_no_effect(
    storage: S3ChunkStorage, stub: Stub, verb: str, what: str, fault: Reply
) -> None:
    stub.objects["s"] = bytes(6 * MIB)
    stub.fail(what, fault)
    with pytest.raises(ChunkThrottledError) as caught:
        change(storage, verb)
    assert caught.value.outcome is NOT
    assert caught.value.retry_after_s == 2.0
    assert stub.whats().count(what) == 1
    assert list(stub.objects) == ["s"]
    assert not stub.uploads


def test_a_part_that_fails_ends_the_upload_without_effect(
    storage: S3ChunkStorage, stub: Stub
) -> None:
    stub.objects["s"] = bytes(6 * MIB)
    stub.fail("PUT?uploadId", broken)
    with pytest.raises(ChunkUnavailableError) as caught:
        change(storage, "concat")
    assert caught.value.outcome is NOT
    assert stub.whats()[-1] == "DELETE?uploadId"
    assert not stub.uploads


@pytest.mark.parametrize("verb", ["create", "concat"])
@pytest.mark.parametrize("taken", [True, False])
def test_a_conflict_is_looked_at_once(
    storage: S3ChunkStorage, stub: Stub, verb: str, *, taken: bool
) -> None:
    stub.objects["s"] = bytes(6 * MIB)
    what = dict(MUTATIONS)[verb]

    def conflict(_: Request, __: Callable[[], Reply]) -> Reply:
        if taken:
            stub.objects["t"] = b"theirs"
        return refusal(409, "ConditionalRequestConflict")

    stub.fail(what, conflict)
    with pytest.raises(ChunkExistsError if taken else ChunkUnavailableError) as caught:
        change(storage, verb)
    assert caught.value.outcome is NOT
    assert stub.objects.get("t", b"theirs") == b"theirs"
    assert not stub.uploads


def test_a_completion_that_fails_in_its_body_is_unknown(
    storage: S3ChunkStorage, stub: Stub
) -> None:
    stub.objects["s"] = bytes(6 * MIB)
    text = b"<?xml version='1.0'?>\n<Error><Code>InternalError</Code><Message>x</Message></Error>"
    stub.fail("POST?uploadId", Reply(200, text, {"content-type": "application/xml"}))
    with pytest.raises(ChunkUnavailableError) as caught:
        change(storage, "concat")
    assert caught.value.outcome is UNKNOWN


PORTAL = Reply(200, b"<html>log in first</html>", {"content-type": "text/html"})


def test_what_is_no_answer_of_the_service_is_not_believed(
    storage: S3ChunkStorage, stub: Stub
) -> None:
    stub.objects["s"] = bytes(6 * MIB)
    calls: list[tuple[str, Callable[[], object], Outcome]] = [
        ("PUT", lambda: storage.create("t", [b"x"]), UNKNOWN),
        ("POST?uploadId", lambda: storage.concat("t", [("s", 6 * MIB)]), UNKNOWN),
        ("POST?uploads", lambda: storage.concat("t", [("s", 6 * MIB)]), NOT),
        ("PUT?uploadId", lambda: storage.concat("t", [("s", 6 * MIB)]), NOT),
        ("POST?delete", lambda: storage.delete_many(["s"]), UNKNOWN),
        ("GET", lambda: storage.read_into("s", 0, bytearray(100)), NOT),
        ("HEAD", lambda: storage.stat("s"), NOT),
        ("GET?list-type", lambda: list(storage.list()), NOT),
    ]
    for what, call, outcome in calls:
        stub.fail(what, PORTAL)
        with pytest.raises(ChunkUnavailableError) as caught:
            call()
        assert caught.value.outcome is outcome, what


def test_one_chunk_of_a_bulk_deletion_may_fail(storage: S3ChunkStorage, stub: Stub) -> None:
    stub.objects = {"a": b"x", "b": b"x"}
    text = (
        b"<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code></Error>"
        b"<Error><Key>b</Key><Code>SlowDown</Code></Error>"
        b"<Error><Key>c</Key><Code>NoSuchKey</Code></Error>"
        b"<Deleted><Key>d</Key></Deleted></DeleteResult>"
    )
    stub.fail("POST?delete", Reply(200, text))
    failed = storage.delete_many(["a", "b", "c", "d", "e"])
    assert {name: type(error) for name, error in failed.items()} == {
        "a": ChunkAccessDeniedError, "b": ChunkThrottledError, "e": ChunkUnavailableError,
    }  # fmt: skip
    assert failed["e"].outcome is UNKNOWN, "nothing was said of it"


def test_a_hanging_service_is_left_in_time(stub: Stub) -> None:
    storage = S3ChunkStorage(stub.settings(read_timeout_s=0.2))
    stub.objects["s"] = b"abc"
    proceed = threading.Event()

    def hang(_: Request, carry_out: Callable[[], Reply]) -> Reply:
        proceed.wait(120)  # the service answers only when it was left
        return carry_out()

    stub.fail("HEAD", hang)
    with pytest.raises(ChunkUnavailableError, match="ReadTimeoutError"):
        storage.stat("s")
    proceed.set()
    storage.close()


def test_a_slow_body_is_left_at_the_deadline(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_client, "RATE", 1e12)
    storage = S3ChunkStorage(stub.settings(deadline_s=0.001))
    stub.objects["s"] = bytes(3 * MIB)
    with pytest.raises(ChunkUnavailableError, match=r"DeadlineError|ReadTimeoutError"):
        storage.read_into("s", 0, bytearray(3 * MIB))
    storage.close()


def test_no_server_listens(stub: Stub) -> None:
    storage = S3ChunkStorage(
        stub.settings(endpoint="http://127.0.0.1:1", unsafe_without_conditional_create=True)
    )
    for call in (lambda: storage.create("a", [b"x"]), lambda: storage.stat("a")):
        with pytest.raises(ChunkUnavailableError) as caught:
            call()
        assert caught.value.outcome is NOT
    storage.close()
