"""Each change of a bucket, and each thing that goes wrong with each request of it.

A proxy between the SDK and the service drops, cuts, delays, damages or invents one request or
answer. What must hold: what is reported as done has had its effect, with the right bytes; what is
reported as not applied has not, and never will; all else is unknown, and then all of the effect is
there or nothing of it. The request that has the effect is sent once. A plain HTTP client looks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from services.fake_gcs import FakeGcs
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkThrottledError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.testing.faults.fault_proxy import FaultProxy
from siltstone.testing.faults.http_faults import (
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
from tests.faults.gcs.mutations import MUTATIONS, PIECE_BYTES, Mutation, Step
from tests.support.services.gcs_services import new_bucket, settings
from tests.support.services.raw_gcs import RawGcs
from tests.support.stubs.gcs_stub import Stub
from tests.support.stubs.gcs_stub_server import StubServer, serving

HANG_TIMEOUT_S = 0.6
"""How long to wait for an answer that never comes; where none hangs, as long as usual."""
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

SEEN_BY_A_SERVER = (
    "reset before", "reset after", "half a request", "half an answer", "hangs after",
    "unavailable after", "damaged request", "slow answer",
)  # fmt: skip
"""All else is answered by the proxy alone, so it is the same on any server."""


class Place:
    """A bucket with some chunks, and a storage that reaches it through a proxy."""

    def __init__(
        self, raw: RawGcs, proxy: FaultProxy, write: Callable[[str, bytes], object], **more: Any
    ) -> None:
        self.proxy = proxy
        self.write = write
        self.raw = raw
        self.settings = settings(
            proxy.endpoint,
            raw.bucket,
            put_bytes_max=PIECE_BYTES - 1,
            piece_bytes=PIECE_BYTES,
            # So that it is known which request comes first.
            join_threads=1,
            **more,
        )
        self.storage = GcsChunkStorage(self.settings)

    def close(self) -> None:
        self.storage.close()
        self.proxy.plan()
        self.proxy.forget()

    def prepare(self, chunks: Mapping[str, bytes]) -> None:
        for name, content in chunks.items():
            self.write(name, content)
        # The first change of all proves that the bucket is fit, by requests of its own.
        self.storage.create("warm", [b"x"])
        self.storage.delete("warm")
        self.proxy.forget()

    def plan(self, rule: Rule) -> None:
        """Let one thing go wrong."""
        if isinstance(rule.fault, Hang):
            chosen = self.settings.model_copy(update={"read_timeout_s": HANG_TIMEOUT_S})
            self.storage.close()
            self.storage = GcsChunkStorage(chosen)
        self.proxy.plan(rule)

    def content(self) -> dict[str, bytes]:
        keys = self.raw.keys()
        return {key: self.raw.read(key) or b"" for key in keys}

    def chunks(self) -> dict[str, bytes]:
        """Without what a join left that could not be removed."""
        return {key: value for key, value in self.content().items() if "//" not in key}


@pytest.fixture(scope="module")
def stub_and_proxy() -> Iterator[tuple[StubServer, FaultProxy]]:
    with serving() as server, FaultProxy(("127.0.0.1", server.port)) as proxy:
        yield server, proxy


@pytest.fixture
def on_stub(stub_and_proxy: tuple[StubServer, FaultProxy]) -> Iterator[Place]:
    server, proxy = stub_and_proxy
    stub = server.use(Stub())
    made = Place(RawGcs(stub.endpoint, stub.bucket), proxy, stub.store)
    yield made
    made.close()


@pytest.fixture(scope="module")
def proxy_of_fake(fake_gcs_server: FakeGcs) -> Iterator[FaultProxy]:
    with FaultProxy(("127.0.0.1", fake_gcs_server.port)) as proxy:
        yield proxy


@pytest.fixture
def on_fake(fake_gcs_server: FakeGcs, proxy_of_fake: FaultProxy) -> Iterator[Place]:
    raw = new_bucket(fake_gcs_server.endpoint)
    made = Place(raw, proxy_of_fake, raw.write, unsafe_without_preconditions=True)
    yield made
    made.close()


def told(place: Place, mutation: Mutation) -> tuple[str, ChunkError | None]:
    try:
        mutation.call(place.storage)
    except ChunkError as error:
        return error.outcome, error
    return DONE, None


def decisive_cases(
    names: Collection[str] = CASES, *, are_conditions_on: bool = True
) -> Iterator[Any]:
    for mutation in MUTATIONS:
        for name in names:
            case = CASES[name]
            if mutation.name == "whole create" and not are_conditions_on:
                continue
            if case.needs_body and not mutation.decisive.has_body:
                continue
            if case.needs_answer and not mutation.has_answer:
                continue
            yield pytest.param(mutation, case, id=f"{mutation.name}-{name}")


def check_decisive(place: Place, mutation: Mutation, case: Case) -> None:
    place.prepare(mutation.before)
    place.plan(mutation.decisive.rule(case.fault))
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
    # A repeated call is told what exists, and changes nothing.
    outcome, error = told(on_stub, mutation)
    if case.has_effect:
        assert isinstance(error, (ChunkExistsError, ChunkNotFoundError))
    else:
        assert outcome == DONE
    assert on_stub.content() == mutation.after


@pytest.mark.parametrize(
    ("mutation", "case"), [*decisive_cases(SEEN_BY_A_SERVER, are_conditions_on=False)]
)
def test_the_same_on_another_server(on_fake: Place, mutation: Mutation, case: Case) -> None:
    check_decisive(on_fake, mutation, case)


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
    """The verb fails without effect, and the decisive request is never sent."""
    on_stub.prepare(mutation.before)
    on_stub.plan(step.rule(case.fault))
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
        on_stub.plan(step.rule(CASES[fault].fault))
        outcome, _ = told(on_stub, mutation)
        assert on_stub.proxy.is_used_up, "the fault did not happen"
        if outcome == DONE:
            assert on_stub.content() == mutation.after
            return
        assert outcome == Outcome.NOT_APPLIED
        assert on_stub.chunks() == mutation.before


@pytest.mark.parametrize("target", ["/download/", "/o/one[?]", "/o[?]"])
def test_an_answer_that_trickles_ends_at_the_deadline(on_stub: Place, target: str) -> None:
    """Each part comes in time, and the whole never would."""
    on_stub.prepare({"one": bytes(50_000)})
    chosen = on_stub.settings.model_copy(update={"deadline_s": 0.3})
    storage = GcsChunkStorage(chosen)
    slow = Rule(fault=Trickle(block_bytes=4, pause_s=0.01), method="GET", target=target)
    on_stub.plan(slow)
    calls: dict[str, Callable[[], object]] = {
        "/download/": lambda: storage.read_into("one", 0, bytearray(50_000)),
        "/o/one[?]": lambda: storage.stat("one"),
        "/o[?]": lambda: list(storage.list()),
    }
    with pytest.raises(ChunkUnavailableError, match=r"DeadlineError|Timeout"):
        calls[target]()
    assert on_stub.proxy.is_used_up
    storage.close()
