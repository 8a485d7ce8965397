"""Each change of a bucket, and each thing that goes wrong with each request of it.

A proxy between the SDK and the service drops, cuts, delays, damages or invents one request or
answer. What must hold: what is reported as done has had its effect, with the right bytes; what is
reported as not applied has not, and never will; all else is unknown, and then all of the effect is
there or nothing of it. The request that has the effect is sent once. A plain HTTP client looks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from services.fake_gcs import FakeGcs
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.core.errors import ChunkError, ChunkUnavailableError, Outcome
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
    Rule,
    Trickle,
)
from tests.contract.gcs_services import new_bucket, settings
from tests.contract.raw_gcs import RawGcs
from tests.faults.gcs.mutations import MUTATIONS, PIECE_BYTES, Mutation, Step
from tests.unit.bindings.gcs.stub import Stub, running

READ_TIMEOUT_S = 1.0
"""For requests that hang; everything else takes milliseconds."""
DONE = "done"


def refusal(status: int, code: str, *, after_effect: bool = False, **headers: str) -> Answer:
    told = {"error": {"code": status, "message": "no", "errors": [{"reason": code}]}}
    return Answer(
        status=status,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        body=json.dumps(told).encode() if code else b"",
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
    "too many": Case(fault=refusal(429, "rateLimitExceeded", Retry_After="7"), told=NOT_APPLIED),
    "too many changes": Case(
        fault=refusal(403, "rateLimitExceeded", Retry_After="7"), told=NOT_APPLIED
    ),
    "unavailable before": Case(fault=refusal(503, "", Retry_After="7"), told=UNKNOWN),
    "unavailable after": Case(
        fault=refusal(503, "backendError", after_effect=True), told=UNKNOWN, has_effect=True
    ),
    "failed before": Case(fault=refusal(500, "backendError"), told=UNKNOWN),
    "failed after": Case(
        fault=refusal(500, "backendError", after_effect=True), told=UNKNOWN, has_effect=True
    ),
    "gateway failed": Case(
        fault=refusal(504, "", after_effect=True), told=UNKNOWN, has_effect=True
    ),
    "conflict": Case(fault=refusal(409, "conflict"), told=NOT_APPLIED),
    "elsewhere": Case(fault=refusal(307, "", Location="/other"), told=NOT_APPLIED),
    "credentials": Case(fault=refusal(401, "authError"), told=NOT_APPLIED),
    "damaged request": Case(fault=FlippedRequest(), told=NOT_APPLIED, needs_body=True),
    "damaged answer": Case(
        fault=FlippedAnswer(), told=(DONE, *UNKNOWN), has_effect=True, needs_answer=True
    ),
    "slow answer": Case(
        fault=Trickle(block_bytes=64, pause_s=0.002), told=(DONE,), has_effect=True
    ),
}


class Place:
    """A bucket with some chunks, and a storage that reaches it through a proxy."""

    def __init__(self, raw: RawGcs, proxy: FaultProxy, **more: Any) -> None:
        self.proxy = proxy
        self.raw = raw
        self.settings = settings(
            proxy.endpoint,
            raw.bucket,
            read_timeout_s=READ_TIMEOUT_S,
            put_bytes_max=PIECE_BYTES - 1,
            piece_bytes=PIECE_BYTES,
            # So that it is known which request comes first.
            join_threads=1,
            **more,
        )
        self.storage = GcsChunkStorage(self.settings)

    def prepare(self, chunks: Mapping[str, bytes]) -> None:
        # The first change of all proves that the bucket is fit, by requests of its own.
        for name, content in {**chunks, "warm": b"x"}.items():
            self.storage.create(name, [content])
        self.storage.delete("warm")
        self.proxy.forget()

    def content(self) -> dict[str, bytes]:
        keys = self.raw.keys()
        return {key: self.raw.read(key) or b"" for key in keys}

    def chunks(self) -> dict[str, bytes]:
        """Without what a join left that could not be removed."""
        return {key: value for key, value in self.content().items() if "//" not in key}


@pytest.fixture
def on_stub() -> Iterator[Place]:
    with running(Stub()) as stub, FaultProxy(("127.0.0.1", int(stub.endpoint[17:]))) as proxy:
        made = Place(RawGcs(stub.endpoint, stub.bucket), proxy)
        yield made
        made.storage.close()


@pytest.fixture
def on_fake(fake_gcs_server: FakeGcs) -> Iterator[Place]:
    with FaultProxy(("127.0.0.1", fake_gcs_server.port)) as proxy:
        made = Place(new_bucket(fake_gcs_server.endpoint), proxy, unsafe_without_preconditions=True)
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
            if case.needs_answer and not mutation.has_answer:
                continue
            yield pytest.param(mutation, case, id=f"{mutation.name}-{name}")


def check_decisive(place: Place, mutation: Mutation, case: Case) -> None:
    place.prepare(mutation.before)
    place.proxy.plan(mutation.decisive.rule(case.fault))
    outcome, error = told(place, mutation)
    assert place.proxy.is_used_up, "the fault did not happen"
    assert outcome in case.told, error
    assert place.proxy.count(mutation.decisive.method, mutation.decisive.target) == 1
    assert place.content() == (mutation.after if case.has_effect else mutation.before)
    if isinstance(case.fault, Answer) and "Retry-After" in case.fault.headers:
        assert isinstance(error, ChunkThrottledError)
        assert error.retry_after_s == 7.0


@pytest.mark.parametrize(("mutation", "case"), [*decisive_cases()])
def test_the_request_that_has_the_effect(on_stub: Place, mutation: Mutation, case: Case) -> None:
    check_decisive(on_stub, mutation, case)


@pytest.mark.parametrize(("mutation", "case"), [*decisive_cases()])
def test_the_same_on_another_server(on_fake: Place, mutation: Mutation, case: Case) -> None:
    check_decisive(on_fake, mutation, case)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_it_can_be_asked_for_again_if_it_was_not_applied(
    on_stub: Place, mutation: Mutation
) -> None:
    on_stub.prepare(mutation.before)
    on_stub.proxy.plan(mutation.decisive.rule(CASES["too many"].fault))
    assert told(on_stub, mutation)[0] == Outcome.NOT_APPLIED
    assert told(on_stub, mutation) == (DONE, None)
    assert on_stub.content() == mutation.after


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
def test_a_request_before_it(on_stub: Place, mutation: Mutation, step: Step, case: Case) -> None:
    """It fails without effect, and what is decisive is never asked for."""
    on_stub.prepare(mutation.before)
    on_stub.proxy.plan(step.rule(case.fault))
    outcome, error = told(on_stub, mutation)
    assert on_stub.proxy.is_used_up, "the fault did not happen"
    assert outcome == Outcome.NOT_APPLIED, error
    assert on_stub.proxy.count(mutation.decisive.method, mutation.decisive.target) == 0
    assert on_stub.content() == mutation.before
    assert told(on_stub, mutation) == (DONE, None)
    assert on_stub.content() == mutation.after


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
@pytest.mark.parametrize("fault", ["half an answer", "slow answer"])
def test_an_answer_before_it_that_is_not_as_it_was(
    on_stub: Place, mutation: Mutation, fault: str
) -> None:
    """It may be of use or not; what is made is right, or nothing is made."""
    on_stub.prepare(mutation.before)
    for step in mutation.steps:
        on_stub.proxy.plan(step.rule(CASES[fault].fault))
        outcome, _ = told(on_stub, mutation)
        assert on_stub.proxy.is_used_up, "the fault did not happen"
        if outcome == DONE:
            assert on_stub.content() == mutation.after
            return
        assert outcome == Outcome.NOT_APPLIED
        assert on_stub.chunks() == mutation.before


@pytest.mark.parametrize("target", ["/download/", "/o/one[?]", "/o[?]"])
def test_an_answer_that_trickles_ends_at_the_deadline(on_stub: Place, target: str) -> None:
    """Each byte comes in time, and the whole never would."""
    on_stub.prepare({"one": bytes(5_000)})
    chosen = on_stub.settings.model_copy(update={"deadline_s": 0.5})
    storage = GcsChunkStorage(chosen)
    slow = Rule(fault=Trickle(block_bytes=1, pause_s=0.02), method="GET", target=target)
    on_stub.proxy.plan(slow)
    calls: dict[str, Callable[[], object]] = {
        "/download/": lambda: storage.read_into("one", 0, bytearray(5_000)),
        "/o/one[?]": lambda: storage.stat("one"),
        "/o[?]": lambda: list(storage.list()),
    }
    with pytest.raises(ChunkUnavailableError, match=r"DeadlineError|Timeout"):
        calls[target]()
    assert on_stub.proxy.is_used_up
    storage.close()
