"""Each change of a bucket on a real server, and each thing that goes wrong with each request of it.

A proxy between the SDK and the server drops, cuts, delays, damages or invents one request or
answer. What must hold: what is reported as done has had its effect, with the right bytes; what is
reported as not applied has not, and never will; all else is unknown, and then all of the effect is
there or nothing of it. The request that has the effect is sent once. A plain HTTP client looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from services.s3_server import S3Server
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.settings import S3Settings
from siltstone.core.errors import ChunkError, Outcome
from siltstone.core.throttling import ChunkThrottledError
from siltstone.testing.fault_proxy import FaultProxy
from siltstone.testing.http_faults import (
    Answer,
    Fault,
    FlippedAnswer,
    FlippedRequest,
    HalfAnswer,
    HalfRequest,
    Hang,
    Reset,
    Trickle,
)
from tests.contract.raw_s3 import RawS3
from tests.faults.s3.bucket import new_bucket, settings_of
from tests.faults.s3.mutations import MUTATIONS, PART_BYTES, Mutation, Step

READ_TIMEOUT_S = 1.0
"""For requests that hang; everything else takes milliseconds."""
DONE = "done"


def refusal(status: int, code: str, *, after_effect: bool = False, **headers: str) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>" if code else ""
    return Answer(
        status=status,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        body=body.encode(),
        after_effect=after_effect,
    )


@dataclass(frozen=True, kw_only=True)
class Case:
    """A fault, what a caller is told when it hits the decisive request, and what there is then.

    Attributes:
        fault: see the proxy.
        told: the outcomes that are right.
        has_effect: whether the server did what it was asked.
        needs_body: it is about the body of a request.
        needs_answer: it is about the body of an answer.
    """

    fault: Fault
    told: tuple[str, ...]
    has_effect: bool = False
    needs_body: bool = False
    needs_answer: bool = False


UNKNOWN, NOT_APPLIED = (Outcome.UNKNOWN,), (Outcome.NOT_APPLIED,)

CASES = {
    "reset before": Case(fault=Reset(after_effect=False), told=UNKNOWN),
    "reset after": Case(fault=Reset(after_effect=True), told=UNKNOWN, has_effect=True),
    "half a request": Case(fault=HalfRequest(), told=UNKNOWN),
    # Where the status came, the rest of an answer may not matter.
    "half an answer": Case(fault=HalfAnswer(), told=(DONE, *UNKNOWN), has_effect=True),
    "hangs before": Case(fault=Hang(after_effect=False), told=UNKNOWN),
    "hangs after": Case(fault=Hang(after_effect=True), told=UNKNOWN, has_effect=True),
    "slow down": Case(fault=refusal(503, "SlowDown", Retry_After="7"), told=NOT_APPLIED),
    "too many": Case(fault=refusal(429, "", Retry_After="7"), told=NOT_APPLIED),
    "unavailable before": Case(fault=refusal(503, "", Retry_After="7"), told=UNKNOWN),
    "unavailable after": Case(
        fault=refusal(503, "", after_effect=True), told=UNKNOWN, has_effect=True
    ),
    "failed before": Case(fault=refusal(500, "InternalError"), told=UNKNOWN),
    "failed after": Case(
        fault=refusal(500, "InternalError", after_effect=True), told=UNKNOWN, has_effect=True
    ),
    "gateway failed": Case(
        fault=refusal(504, "", after_effect=True), told=UNKNOWN, has_effect=True
    ),
    "conflict": Case(fault=refusal(409, "ConditionalRequestConflict"), told=NOT_APPLIED),
    "damaged request": Case(fault=FlippedRequest(), told=NOT_APPLIED, needs_body=True),
    "damaged answer": Case(
        fault=FlippedAnswer(), told=(DONE, *UNKNOWN), has_effect=True, needs_answer=True
    ),
    "slow answer": Case(
        fault=Trickle(block_bytes=64, pause_s=0.002), told=(DONE,), has_effect=True
    ),
}


class Place:
    """A new bucket with some chunks, and a storage that reaches it through a proxy."""

    def __init__(self, server: S3Server, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.bucket = new_bucket(server)
        self.raw = RawS3(server.endpoint, self.bucket, server.key_id, server.secret)
        self.settings: S3Settings = settings_of(
            server,
            self.bucket,
            endpoint=proxy.endpoint,
            read_timeout_s=READ_TIMEOUT_S,
            put_bytes_max=PART_BYTES,
            part_bytes=PART_BYTES,
        )
        self.storage = S3ChunkStorage(self.settings)

    def prepare(self, chunks: Mapping[str, bytes]) -> None:
        # The first change of all proves that the bucket is fit, by requests of its own.
        for name, content in {**chunks, "warm": b"x"}.items():
            self.storage.create(name, [content])
        self.storage.delete("warm")
        self.proxy.forget()

    def content(self) -> dict[str, bytes]:
        keys = self.raw.keys()
        return {key: self.raw.read(key) or b"" for key in keys}


@pytest.fixture
def place(versitygw: S3Server) -> Iterator[Place]:
    with FaultProxy(("127.0.0.1", versitygw.port)) as proxy:
        made = Place(versitygw, proxy)
        yield made
        made.storage.close()


def told(place: Place, mutation: Mutation) -> tuple[str, ChunkError | None]:
    try:
        mutation.call(place.storage)
    except ChunkError as error:
        return error.outcome, error
    return DONE, None


def decisive_cases() -> Iterator[Any]:
    for mutation in MUTATIONS:
        for name, case in CASES.items():
            if case.needs_body and not mutation.decisive.has_body:
                continue
            if case.needs_answer and mutation.decisive.method != "POST":
                continue
            yield pytest.param(mutation, case, id=f"{mutation.name}-{name}")


@pytest.mark.parametrize(("mutation", "case"), [*decisive_cases()])
def test_the_request_that_has_the_effect(place: Place, mutation: Mutation, case: Case) -> None:
    place.prepare(mutation.before)
    place.proxy.plan(mutation.decisive.rule(case.fault))
    outcome, error = told(place, mutation)
    assert place.proxy.is_used_up, "the fault did not happen"
    assert outcome in case.told, error
    assert place.proxy.count(mutation.decisive.method, mutation.decisive.target) == 1
    assert place.content() == (mutation.after if case.has_effect else mutation.before)
    if isinstance(case.fault, Answer) and case.fault.headers:
        assert isinstance(error, ChunkThrottledError)
        assert error.retry_after_s == 7.0


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_it_can_be_asked_for_again_if_it_was_not_applied(place: Place, mutation: Mutation) -> None:
    place.prepare(mutation.before)
    place.proxy.plan(mutation.decisive.rule(CASES["slow down"].fault))
    assert told(place, mutation)[0] == Outcome.NOT_APPLIED
    assert told(place, mutation) == (DONE, None)
    assert place.content() == mutation.after


def step_cases() -> Iterator[Any]:
    for mutation in MUTATIONS:
        for step in mutation.steps:
            for name, case in CASES.items():
                if case.needs_body and not step.has_body:
                    continue
                if name in ("slow answer", "half an answer", "damaged answer"):
                    continue
                where = f"{step.method}{step.target}"
                yield pytest.param(mutation, step, case, id=f"{mutation.name}-{where}-{name}")


@pytest.mark.parametrize(("mutation", "step", "case"), [*step_cases()])
def test_a_request_before_it(place: Place, mutation: Mutation, step: Step, case: Case) -> None:
    """It fails without effect, and what is decisive is never asked for."""
    place.prepare(mutation.before)
    place.proxy.plan(step.rule(case.fault))
    outcome, error = told(place, mutation)
    assert place.proxy.is_used_up, "the fault did not happen"
    assert outcome == Outcome.NOT_APPLIED, error
    assert place.proxy.count(mutation.decisive.method, mutation.decisive.target) == 0
    assert place.content() == mutation.before
    assert told(place, mutation) == (DONE, None)
    assert place.content() == mutation.after


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
@pytest.mark.parametrize("fault", ["half an answer", "damaged answer", "slow answer"])
def test_an_answer_before_it_that_is_not_as_it_was(
    place: Place, mutation: Mutation, fault: str
) -> None:
    """It may be of use or not; what is made is right, or nothing is made.

    A GET is left out: ranges have no checksum of the service, so bytes that a join reads may be
    wrong over plain HTTP. Whoever asks for a join compares it with the sums of the blocks.
    """
    place.prepare(mutation.before)
    for step in mutation.steps:
        if fault == "damaged answer" and step.method != "POST":
            continue
        place.proxy.plan(step.rule(CASES[fault].fault))
        outcome, _ = told(place, mutation)
        assert place.proxy.is_used_up, "the fault did not happen"
        if outcome == DONE:
            assert place.content() == mutation.after
            return
        assert outcome == Outcome.NOT_APPLIED
        assert place.content() == mutation.before
