"""Many blobs removed by one request: which of them are still there when some deletes failed."""

from __future__ import annotations

import pytest

from siltstone.bindings.azure.deletes import parts_of
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkNameError,
    ChunkThrottledError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.testing.faults.http_faults import Answer, Reset, Rule
from tests.unit.bindings.azure.conftest import Counted, NewCounted

BOUNDARY = {"Content-Type": "multipart/mixed; boundary=b1"}
NAMES = ["a", "b", "c"]


def part(number: int | None, status: str, code: str = "") -> str:
    named = "" if number is None else f"Content-ID: {number}\r\n"
    told = f"x-ms-error-code: {code}\r\n" if code else ""
    return (
        f"--b1\r\nContent-Type: application/http\r\n{named}\r\nHTTP/1.1 {status}\r\n{told}\r\n"
        "<Error/>\r\n"
    )


def batch(*parts: str) -> Answer:
    body = "".join(parts) + "--b1--\r\n"
    return Answer(status=202, headers=BOUNDARY, body=body.encode())


def prepared(counted: NewCounted, answer: Answer | Reset) -> Counted:
    here = counted()
    for name in NAMES:
        here.raw.write(name, b"x")
    here.proxy.plan(Rule(fault=answer, method="POST", target="comp=batch"))
    return here


def test_what_failed_is_told_by_its_number_and_not_by_its_place(counted: NewCounted) -> None:
    answer = batch(
        part(2, "412 Refused", "LeaseIdMissing"),
        part(0, "202 Accepted"),
        part(1, "404 Not there", "BlobNotFound"),
    )
    failed = prepared(counted, answer).storage.delete_many(NAMES)
    assert list(failed) == ["c"]
    assert isinstance(failed["c"], ChunkAccessDeniedError)
    assert failed["c"].outcome is Outcome.NOT_APPLIED


def test_what_nothing_is_said_of_may_still_be_there(counted: NewCounted) -> None:
    answer = batch(part(0, "202 Accepted"), part(2, "503 Busy", "ServerBusy"))
    failed = prepared(counted, answer).storage.delete_many(NAMES)
    assert failed.keys() == {"b", "c"}
    assert isinstance(failed["b"], ChunkUnavailableError)
    assert failed["b"].outcome is Outcome.UNKNOWN
    assert isinstance(failed["c"], ChunkThrottledError)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=202, body=b""),
        Answer(status=200, body=b"<html>log in</html>"),
        Answer(status=202, headers=BOUNDARY, body=b"--b1\r\n\r\nno HTTP\r\n--b1--"),
        batch(part(None, "400 Too many", "ExceedsMaxBatchRequestCount")),
        Reset(after_effect=False),
    ],
)
def test_an_answer_that_is_none(counted: NewCounted, answer: Answer | Reset) -> None:
    here = prepared(counted, answer)
    with pytest.raises(ChunkUnavailableError) as caught:
        here.storage.delete_many(NAMES)
    assert caught.value.outcome is Outcome.UNKNOWN
    assert here.raw.names() == NAMES


def test_a_lease_keeps_one_of_many(counted: NewCounted) -> None:
    here = counted()
    for name in NAMES:
        here.raw.write(name, b"x")
    here.raw.lease("b")
    failed = here.storage.delete_many(NAMES)
    assert list(failed) == ["b"]
    assert isinstance(failed["b"], ChunkAccessDeniedError)
    assert here.raw.names() == ["b"]


def test_a_name_that_can_be_none_stops_all(counted: NewCounted) -> None:
    here = counted()
    here.raw.write("a", b"x")
    with pytest.raises(ChunkNameError):
        here.storage.delete_many(["a", "b\\c"])
    assert here.whats() == []


def test_parts_that_are_cut_or_mixed_up() -> None:
    body = (
        part(3, "202 Accepted") + part(None, "202 Accepted") + "--b1\r\nContent-ID: 4\r\n\r\nHTTP"
    )
    assert parts_of(BOUNDARY, body.encode()) == {3: (202, "")}
    assert parts_of({}, b"\xff\xfe") == {}
