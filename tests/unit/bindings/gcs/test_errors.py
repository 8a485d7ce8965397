"""What answers mean, one by one, and what faults of the service lead to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.auth import exceptions as auth_exceptions
from requests import Response
from requests.exceptions import ChunkedEncodingError, ConnectTimeout, ProxyError, SSLError
from urllib3.exceptions import MaxRetryError, NewConnectionError, ProtocolError

from siltstone.bindings.gcs import proof
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.bindings.gcs.errors import RefusedError, answered, translated, unanswered
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkExistsError,
    ChunkNameError,
    ChunkNotFoundError,
    ChunkStorageFullError,
    ChunkThrottledError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.remote.answers import retry_after
from tests.support.stubs.gcs_stub import (
    Reply,
    Request,
    Stub,
    broken,
    half_body,
    lost_reply,
    refusal,
)

api: Any = exceptions
auth: Any = auth_exceptions
NOT, UNKNOWN = Outcome.NOT_APPLIED, Outcome.UNKNOWN
ANSWERS: list[tuple[int, str, str, type[ChunkError], Outcome]] = [
    (302, "", "", ChunkAccessDeniedError, NOT),
    (400, "invalid", "", ChunkUnavailableError, NOT),
    (400, "invalid", "the specified object name is not valid", ChunkNameError, NOT),
    (401, "authError", "", ChunkAccessDeniedError, NOT),
    (402, "", "", ChunkAccessDeniedError, NOT),
    (403, "forbidden", "", ChunkAccessDeniedError, NOT),
    (403, "accountDisabled", "", ChunkAccessDeniedError, NOT),
    (403, "rateLimitExceeded", "", ChunkThrottledError, NOT),
    (403, "userRateLimitExceeded", "", ChunkThrottledError, NOT),
    (403, "quotaExceeded", "", ChunkStorageFullError, NOT),
    (403, "retentionPolicyNotMet", "", ChunkAccessDeniedError, NOT),
    (404, "notFound", "no such object: b/o", ChunkNotFoundError, NOT),
    (404, "notFound", "the specified bucket does not exist.", ChunkUnavailableError, NOT),
    (405, "methodNotAllowed", "", ChunkUnavailableError, NOT),
    (408, "", "", ChunkUnavailableError, UNKNOWN),
    (409, "conflict", "", ChunkUnavailableError, NOT),
    (410, "", "", ChunkUnavailableError, UNKNOWN),
    (411, "", "", ChunkUnavailableError, NOT),
    (412, "conditionNotMet", "", ChunkExistsError, NOT),
    (412, "", "", ChunkExistsError, NOT),
    (413, "uploadTooLarge", "", ChunkUnavailableError, NOT),
    (416, "requestedRangeNotSatisfiable", "", ChunkUnavailableError, NOT),
    (429, "rateLimitExceeded", "", ChunkThrottledError, NOT),
    (429, "", "", ChunkThrottledError, NOT),
    (499, "", "", ChunkUnavailableError, UNKNOWN),
    (500, "backendError", "", ChunkUnavailableError, UNKNOWN),
    (500, "quotaExceeded", "", ChunkUnavailableError, UNKNOWN),
    (501, "notImplemented", "", ChunkUnavailableError, UNKNOWN),
    (502, "", "", ChunkUnavailableError, UNKNOWN),
    (503, "backendError", "", ChunkThrottledError, UNKNOWN),
    (503, "", "", ChunkThrottledError, UNKNOWN),
    (503, "rateLimitExceeded", "", ChunkThrottledError, NOT),
    (504, "", "", ChunkUnavailableError, UNKNOWN),
    (507, "", "", ChunkStorageFullError, NOT),
]


def raw_answer(status: int, code: str, text: str) -> Response:
    answer = Response()
    answer.status_code = status
    errors = [{"reason": code}] if code else []
    told = {"error": {"code": status, "message": f"canary {text}", "errors": errors}}
    answer._content = json.dumps(told).encode()
    return answer


@pytest.mark.parametrize(("status", "code", "text", "kind", "outcome"), ANSWERS)
def test_an_answer_has_its_meaning(
    status: int, code: str, text: str, kind: type[ChunkError], outcome: Outcome
) -> None:
    error = answered(RefusedError(status, code, text, {}), "a/b", "create", changes=True)
    assert type(error) is kind
    assert error.outcome is outcome
    assert (error.chunk, error.operation) == ("a/b", "create")
    reading = answered(RefusedError(status, code, text, {}), "a/b", "stat", changes=False)
    assert (type(reading), reading.outcome) == (kind, NOT)


@pytest.mark.parametrize(("status", "code", "text", "kind", "outcome"), ANSWERS)
def test_the_sdk_says_the_same(
    status: int, code: str, text: str, kind: type[ChunkError], outcome: Outcome
) -> None:
    """Both ways to the service: the SDK's own exceptions, and requests without the SDK."""
    answer = raw_answer(status, code, text)
    answer.request = requests.Request("GET", "http://x/").prepare()
    with pytest.raises(kind) as caught, translated("a", "delete", changes=True):
        raise api.from_http_response(answer)
    assert caught.value.outcome is outcome
    assert "canary" not in str(caught.value)


def test_an_error_of_the_sdk_without_an_answer() -> None:
    with pytest.raises(ChunkExistsError), translated("a", "delete", changes=True):
        raise api.PreconditionFailed("canary")
    with pytest.raises(ChunkUnavailableError) as caught, translated("a", "delete", changes=True):
        raise api.RetryError("canary", None)
    assert caught.value.outcome is UNKNOWN
    assert "canary" not in str(caught.value)


def test_a_reason_that_is_no_word_is_not_shown() -> None:
    error = answered(RefusedError(403, "key=hunter2 <x>", "", {}), "a", "stat", changes=False)
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


def unreached() -> requests.exceptions.ConnectionError:
    pool: Any = None
    return requests.exceptions.ConnectionError(
        MaxRetryError(pool, "/", NewConnectionError(pool, "refused"))
    )


UNANSWERED: list[tuple[Exception, type[ChunkError], Outcome]] = [
    (unreached(), ChunkUnavailableError, NOT),
    (ConnectTimeout(), ChunkUnavailableError, NOT),
    (ProxyError(), ChunkUnavailableError, NOT),
    (SSLError(OSError("CERTIFICATE_VERIFY_FAILED")), ChunkUnavailableError, NOT),
    (SSLError(OSError("BAD_RECORD_MAC")), ChunkUnavailableError, UNKNOWN),
    (auth.RefreshError("invalid_grant"), ChunkAccessDeniedError, NOT),
    (auth.DefaultCredentialsError("none"), ChunkAccessDeniedError, NOT),
    (auth.TransportError("the server of tokens is away"), ChunkUnavailableError, NOT),
    (requests.exceptions.ReadTimeout(), ChunkUnavailableError, UNKNOWN),
    (
        requests.exceptions.ConnectionError(ProtocolError("aborted", ConnectionResetError())),
        ChunkUnavailableError,
        UNKNOWN,
    ),
    (requests.exceptions.ConnectionError(), ChunkUnavailableError, UNKNOWN),
    (ChunkedEncodingError(), ChunkUnavailableError, UNKNOWN),
    (ProtocolError("half"), ChunkUnavailableError, UNKNOWN),
    (requests.exceptions.JSONDecodeError("no JSON", "", 0), ChunkUnavailableError, UNKNOWN),
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


def change(storage: GcsChunkStorage, verb: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "create": lambda: storage.create("t", [b"x" * 100_000]),
        "piece": lambda: storage.create("t", [b"x" * (MIB + 1)]),
        "compose": lambda: storage.concat("t", [("s", 6)]),
        "delete": lambda: storage.delete("s"),
    }
    calls[verb]()


@pytest.fixture
def storage(stub: Stub) -> Any:
    storage = GcsChunkStorage(stub.settings(put_bytes_max=MIB, piece_bytes=2 * MIB))
    proof.prove(storage.service)
    stub.asked.clear()
    yield storage
    storage.close()


MUTATIONS = ["create", "piece", "compose", "delete"]


@pytest.mark.parametrize("verb", MUTATIONS)
@pytest.mark.parametrize(
    "fault", [broken, lost_reply, refusal(500, "backendError"), refusal(503, "backendError")]
)
def test_a_change_without_an_answer_is_unknown_and_sent_once(
    storage: GcsChunkStorage, stub: Stub, verb: str, fault: Any
) -> None:
    stub.store("s", b"source")
    stub.fail(verb, fault)
    with pytest.raises(ChunkUnavailableError) as caught:
        change(storage, verb)
    assert caught.value.outcome is UNKNOWN
    assert stub.whats().count(verb) == 1
    applied = "s" not in stub.objects if verb == "delete" else "t" in stub.objects
    assert applied == (fault is lost_reply)
    assert "cancel" not in stub.whats()


@pytest.mark.parametrize("verb", MUTATIONS)
@pytest.mark.parametrize("status", [403, 429, 503])
def test_a_throttled_change_had_no_effect(
    storage: GcsChunkStorage, stub: Stub, verb: str, status: int
) -> None:
    stub.store("s", b"source")
    stub.fail(verb, refusal(status, "rateLimitExceeded", Retry_After="2"))
    with pytest.raises(ChunkThrottledError) as caught:
        change(storage, verb)
    assert caught.value.outcome is NOT
    assert caught.value.retry_after_s == 2.0
    assert stub.whats().count(verb) == 1
    assert list(stub.objects) == ["s"]
    assert not stub.uploads


def test_a_piece_that_fails_ends_the_upload_without_effect(stub: Stub) -> None:
    storage = GcsChunkStorage(stub.settings(put_bytes_max=1, piece_bytes=256 * KIB))
    proof.prove(storage.service)
    stub.fail("piece", broken)
    with pytest.raises(ChunkUnavailableError) as caught:
        storage.create("t", [bytes(MIB)])
    assert caught.value.outcome is NOT
    assert stub.whats()[-1] == "cancel"
    assert not stub.uploads
    assert not stub.objects
    storage.close()


def test_an_upload_that_does_not_get_on_is_ended(stub: Stub) -> None:
    storage = GcsChunkStorage(stub.settings(put_bytes_max=1, piece_bytes=256 * KIB))
    proof.prove(storage.service)
    stub.kept = [256 * KIB, 0]
    with pytest.raises(ChunkUnavailableError, match="does not get on") as caught:
        storage.create("t", [bytes(MIB)])
    assert caught.value.outcome is NOT
    assert not stub.uploads
    storage.close()


@pytest.mark.parametrize("verb", ["create", "piece", "compose"])
def test_the_second_writer_is_told(storage: GcsChunkStorage, stub: Stub, verb: str) -> None:
    stub.store("s", b"source")

    def overtaken(_: Request, carry_out: Callable[[], Reply]) -> Reply:
        stub.store("t", b"theirs")
        return carry_out()

    stub.fail(verb, overtaken)
    with pytest.raises(ChunkExistsError) as caught:
        change(storage, verb)
    assert caught.value.outcome is NOT
    assert stub.contents() == {"s": b"source", "t": b"theirs"}


def test_a_source_that_is_replaced_is_refused(storage: GcsChunkStorage, stub: Stub) -> None:
    stub.store("s", b"source")

    def replace(_: Request, carry_out: Callable[[], Reply]) -> Reply:
        stub.store("s", b"SOURCE")
        return carry_out()

    for what, length in (("compose", 6), ("read", 3)):
        stub.fail(what, replace)
        with pytest.raises(ChunkUnavailableError, match="replaced") as caught:
            storage.concat("t", [("s", length)])
        assert caught.value.outcome is NOT
    assert list(stub.objects) == ["s"]


def test_damaged_bytes_are_refused_by_the_service(storage: GcsChunkStorage, stub: Stub) -> None:
    def damage(request: Request, _: Callable[[], Reply]) -> Reply:
        body = request.body.replace(b"payload", b"pay1oad")
        with stub.lock:
            return stub.do_create(Request("create", "", request.query, request.headers, body))

    stub.fail("create", damage)
    with pytest.raises(ChunkUnavailableError) as caught:
        storage.create("t", [b"the payload"])
    assert caught.value.outcome is NOT
    assert not stub.objects


@pytest.mark.parametrize(
    "other", [{"size": "12"}, {"crc32c": "AAAAAA=="}, {"name": "u"}, {"size": "many"}]
)
def test_a_service_that_made_something_else_is_not_believed(
    storage: GcsChunkStorage, stub: Stub, other: dict[str, str]
) -> None:
    told = {"name": "t", "generation": "7", "size": "11"} | other
    stub.fail("create", Reply(200, json.dumps(told).encode()))
    with pytest.raises(ChunkUnavailableError) as caught:
        storage.create("t", [b"the payload"])
    assert caught.value.outcome is UNKNOWN


@pytest.mark.parametrize("fault", [broken, half_body, refusal(500, "backendError")])
@pytest.mark.parametrize("length", [1_000, 3 * MIB])
def test_a_read_that_breaks_off_is_no_read(
    storage: GcsChunkStorage, stub: Stub, fault: Any, length: int
) -> None:
    content = bytes(range(250)) * (length // 250)
    stub.store("s", content)
    stub.fail("read", fault)
    buffer = bytearray(len(content))
    with pytest.raises(ChunkUnavailableError) as caught:
        storage.read_into("s", 0, buffer)
    assert caught.value.outcome is NOT
    assert storage.read_into("s", 0, buffer) == len(buffer)
    assert buffer == content


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Range": "bytes 0-9/100"},
        {"Content-Range": "bytes 5-9/100"},
        {"Content-Range": "bytes 5-24/100"},
        {
            "Content-Range": "bytes 5-14/100",
            "Content-Encoding": "gzip",
            "x-goog-stored-content-encoding": "identity",
        },
        {"Content-Range": "nonsense"},
        {},
    ],
)
def test_another_range_than_was_asked_for_is_refused(
    storage: GcsChunkStorage, stub: Stub, headers: dict[str, str]
) -> None:
    stub.fail("read", Reply(206, bytes(10), headers))
    with pytest.raises(ChunkUnavailableError, match="another range"):
        storage.read_into("s", 5, bytearray(10))


@pytest.mark.parametrize("stored", [{"x-goog-stored-content-encoding": "gzip"}, {}])
def test_an_object_that_is_stored_with_an_encoding_is_read_as_it_is_stored(
    storage: GcsChunkStorage, stub: Stub, stored: dict[str, str]
) -> None:
    headers = {"Content-Range": "bytes 5-14/100", "Content-Encoding": "gzip", **stored}
    stub.fail("read", Reply(206, b"0123456789", headers))
    buffer = bytearray(10)
    assert storage.read_into("s", 5, buffer) == 10
    assert buffer == b"0123456789"


def test_fewer_bytes_are_the_end_or_are_refused(storage: GcsChunkStorage, stub: Stub) -> None:
    short = [Reply(206, bytes(5), {"Content-Range": f"bytes 5-9/{total}"}) for total in (100, "*")]
    stub.fail("read", *short)
    for _ in short:
        with pytest.raises(ChunkUnavailableError, match="another range"):
            storage.read_into("s", 5, bytearray(10))
    stub.fail("read", Reply(206, bytes(5), {"Content-Range": "bytes 5-9/10"}))
    assert storage.read_into("s", 5, bytearray(10)) == 5


def test_a_service_that_ignores_ranges_is_noticed(storage: GcsChunkStorage, stub: Stub) -> None:
    stub.fail("read", *[Reply(200, b"0123456789")] * 2)
    with pytest.raises(ChunkUnavailableError, match="another range"):
        storage.read_into("s", 5, bytearray(3))
    with pytest.raises(ChunkUnavailableError, match="another range"):
        storage.read_into("s", 0, bytearray(20))


def test_a_whole_chunk_is_compared_with_its_sum(storage: GcsChunkStorage, stub: Stub) -> None:
    stub.store("s", b"0123456789")

    def damage(_: Request, carry_out: Callable[[], Reply]) -> Reply:
        reply = carry_out()
        return Reply(reply.status, reply.body.replace(b"5", b"6"), reply.headers)

    stub.fail("read", damage)
    with pytest.raises(ChunkUnavailableError, match="damaged"):
        storage.read_into("s", 0, bytearray(10))


PORTAL = Reply(200, b"<html>log in first</html>", {"content-type": "text/html"})
EMPTY = Reply(200, b"{}", {"content-type": "application/json"})


@pytest.mark.parametrize("answer", [PORTAL, EMPTY])
def test_what_is_no_answer_of_the_service_is_not_believed(
    storage: GcsChunkStorage, stub: Stub, answer: Reply
) -> None:
    stub.store("s", b"source")
    large = bytes(MIB + 1)
    calls: list[tuple[str, Callable[[], object], Outcome]] = [
        ("create", lambda: storage.create("t", [b"x"]), UNKNOWN),
        ("compose", lambda: storage.concat("t", [("s", 6)]), UNKNOWN),
        ("begin", lambda: storage.create("t", [large]), NOT),
        ("piece", lambda: storage.create("t", [large]), UNKNOWN),
        ("read", lambda: storage.read_into("s", 0, bytearray(100)), NOT),
        ("stat", lambda: storage.stat("s"), NOT),
        ("list", lambda: list(storage.list()), NOT),
    ]
    for what, call, outcome in calls:
        stub.fail(what, answer)
        with pytest.raises(ChunkUnavailableError) as caught:
            call()
        assert caught.value.outcome is outcome, what


def test_a_hanging_service_is_left_in_time(stub: Stub) -> None:
    storage = GcsChunkStorage(stub.settings(read_timeout_s=0.2))
    stub.store("s", b"abc")
    proceed = threading.Event()

    def hang(_: Request, carry_out: Callable[[], Reply]) -> Reply:
        proceed.wait(120)  # the service answers only when it was left
        return carry_out()

    stub.fail("stat", hang)
    with pytest.raises(ChunkUnavailableError, match="ReadTimeout"):
        storage.stat("s")
    proceed.set()
    storage.close()


def test_a_slow_answer_is_left_at_the_deadline(stub: Stub) -> None:
    storage = GcsChunkStorage(stub.settings(deadline_s=0.0001))
    stub.store("s", bytes(3))
    for call in (lambda: storage.read_into("s", 0, bytearray(3)), lambda: storage.stat("s")):
        with pytest.raises(ChunkUnavailableError, match=r"DeadlineError|Timeout"):
            call()
    storage.close()


def test_no_server_listens(stub: Stub) -> None:
    storage = GcsChunkStorage(
        stub.settings(endpoint="http://127.0.0.1:1", unsafe_without_preconditions=True)
    )
    for call in (lambda: storage.create("a", [b"x"]), lambda: storage.stat("a")):
        with pytest.raises(ChunkUnavailableError, match="could not be reached") as caught:
            call()
        assert caught.value.outcome is NOT
    storage.close()


def test_a_chunk_that_is_not_there(storage: GcsChunkStorage, stub: Stub) -> None:
    for call in (
        lambda: storage.read_into("s", 0, bytearray(1)),
        lambda: storage.read_into("s", 0, bytearray()),
        lambda: storage.stat("s"),
        lambda: storage.delete("s"),
        lambda: storage.concat("t", [("s", 1)]),
    ):
        with pytest.raises(ChunkNotFoundError):
            call()
    assert not stub.objects
