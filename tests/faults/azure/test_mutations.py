"""Each change of a container on a real server, and each thing that goes wrong with its requests.

A proxy between the SDK and the server drops, cuts, delays, damages or invents one request or
answer. What must hold: what is reported as done has had its effect, with the right bytes; what is
reported as not applied has not, and never will; all else is unknown. Then the whole effect is there
or none of it, except with append blobs: a create may leave an empty blob, and a verb that takes
several blocks the first of them. The request that has the effect is sent once. A plain HTTP client
checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

from services.azurite import Azurite
from siltstone.bindings.azure import appends
from siltstone.bindings.azure.chunk_storage import AzureChunkStorage
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkExistsError,
    ChunkThrottledError,
    Outcome,
)
from siltstone.testing.faults.fault_proxy import FaultProxy
from siltstone.testing.faults.http_faults import (
    Answer,
    Fault,
    FlippedRequest,
    HalfAnswer,
    HalfRequest,
    Hang,
    Reset,
    Rule,
    Trickle,
)
from tests.faults.azure.mutations import (
    APPEND,
    BLOCK_BYTES,
    LARGE,
    MAKE,
    MUTATIONS,
    SMALL,
    Mutation,
    Step,
)
from tests.support.services.azure_services import new_container, settings_of, take_for_proven

READ_TIMEOUT_S = 0.5
"""For calls of which a request hangs; everything else takes milliseconds."""
DONE = "done"


def refusal(status: int, code: str, *, after_effect: bool = False, **headers: str) -> Answer:
    told = {"x-ms-error-code": code} if code else {}
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>" if code else ""
    return Answer(
        status=status,
        headers={name.replace("_", "-"): value for name, value in headers.items()} | told,
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
    """

    fault: Fault
    told: tuple[str, ...]
    has_effect: bool = False
    needs_body: bool = False


UNKNOWN, NOT_APPLIED = (Outcome.UNKNOWN,), (Outcome.NOT_APPLIED,)

CASES = {
    "reset before": Case(fault=Reset(after_effect=False), told=UNKNOWN),
    "reset after": Case(fault=Reset(after_effect=True), told=UNKNOWN, has_effect=True),
    "half a request": Case(fault=HalfRequest(), told=UNKNOWN),
    # Where the status came, the rest of an answer may not matter.
    "half an answer": Case(fault=HalfAnswer(), told=(DONE, *UNKNOWN), has_effect=True),
    "hangs before": Case(fault=Hang(after_effect=False), told=UNKNOWN),
    "hangs after": Case(fault=Hang(after_effect=True), told=UNKNOWN, has_effect=True),
    "busy": Case(fault=refusal(503, "ServerBusy", Retry_After="7"), told=NOT_APPLIED),
    "too many": Case(fault=refusal(429, "", Retry_After="7"), told=NOT_APPLIED),
    "unavailable before": Case(fault=refusal(503, "", Retry_After="7"), told=UNKNOWN),
    "unavailable after": Case(
        fault=refusal(503, "", after_effect=True), told=UNKNOWN, has_effect=True
    ),
    "failed before": Case(fault=refusal(500, "InternalError"), told=UNKNOWN),
    "failed after": Case(
        fault=refusal(500, "OperationTimedOut", after_effect=True), told=UNKNOWN, has_effect=True
    ),
    "gateway failed": Case(
        fault=refusal(504, "", after_effect=True), told=UNKNOWN, has_effect=True
    ),
    "no service at all": Case(fault=Answer(status=200, body=b"<html>log in</html>"), told=UNKNOWN),
    "forbidden": Case(fault=refusal(403, "AuthorizationFailure"), told=NOT_APPLIED),
    "leased": Case(fault=refusal(412, "LeaseIdMissing"), told=NOT_APPLIED),
    "too large": Case(fault=refusal(413, "RequestBodyTooLarge"), told=NOT_APPLIED),
    "damaged request": Case(fault=FlippedRequest(), told=NOT_APPLIED, needs_body=True),
    "slow answer": Case(
        fault=Trickle(block_bytes=64, pause_s=0.002), told=(DONE,), has_effect=True
    ),
}


class Place:
    """A new container with some chunks, and a storage that reaches it through a proxy."""

    def __init__(self, server: Azurite, proxy: FaultProxy, blobs: str) -> None:
        self.proxy = proxy
        self.container, self.raw = new_container(server)
        self.settings = settings_of(
            server,
            self.container,
            endpoint=f"{proxy.endpoint}/{server.key_id}",
            put_bytes_max=BLOCK_BYTES,
            block_bytes=BLOCK_BYTES,
            blobs=blobs,
        )
        take_for_proven(self.settings)
        self.storage = AzureChunkStorage(self.settings)

    @contextmanager
    def impatient(self) -> Iterator[AzureChunkStorage]:
        """With a short deadline, for requests that hang; others need a longer one if slow."""
        settings = self.settings.model_copy(update={"read_timeout_s": READ_TIMEOUT_S})
        with closing(AzureChunkStorage(settings)) as storage:
            yield storage

    def prepare(self, chunks: Mapping[str, bytes]) -> None:
        for name, content in chunks.items():
            self.storage.create(name, [content])
        self.proxy.forget()

    def content(self) -> dict[str, bytes]:
        return {name: self.raw.read(name) or b"" for name in self.raw.names()}


NewPlace = Callable[[str], Place]


@pytest.fixture
def new_place(azurite: Azurite) -> Iterator[NewPlace]:
    made: list[Place] = []
    with FaultProxy(("127.0.0.1", azurite.port)) as proxy:

        def make(blobs: str) -> Place:
            made.append(Place(azurite, proxy, blobs))
            return made[-1]

        yield make
        for place in made:
            place.storage.close()


def told(
    place: Place, call: Callable[[AzureChunkStorage], None], fault: Fault | None = None
) -> tuple[str, ChunkError | None]:
    """Call a verb, with or without such a fault ahead; return what the caller learns."""
    chosen = place.impatient() if isinstance(fault, Hang) else nullcontext(place.storage)
    try:
        with chosen as storage:
            call(storage)
    except ChunkError as error:
        return error.outcome, error
    return DONE, None


def decisive_cases() -> Iterator[Any]:
    for mutation in MUTATIONS:
        for name, case in CASES.items():
            if case.needs_body and not mutation.decisive.has_body:
                continue
            yield pytest.param(mutation, case, id=f"{mutation.name}-{name}")


@pytest.mark.parametrize(("mutation", "case"), [*decisive_cases()])
def test_the_request_that_has_the_effect(
    new_place: NewPlace, mutation: Mutation, case: Case
) -> None:
    place = new_place(mutation.blobs)
    place.prepare(mutation.before)
    place.proxy.plan(mutation.decisive.rule(case.fault))
    outcome, error = told(place, mutation.call, case.fault)
    assert place.proxy.is_used_up, "the fault did not happen"
    if mutation.is_half and outcome != DONE:
        assert outcome == Outcome.UNKNOWN, error
    else:
        assert outcome in case.told, error
    assert place.proxy.count(mutation.decisive.method, mutation.decisive.target) == 1
    otherwise = mutation.before if mutation.refused is None else mutation.refused
    assert place.content() == (mutation.after if case.has_effect else otherwise)
    if isinstance(case.fault, Answer) and "Retry-After" in case.fault.headers:
        assert isinstance(error, ChunkThrottledError)
        assert error.retry_after_s == 7.0


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_it_can_be_asked_for_again_if_it_was_not_applied(
    new_place: NewPlace, mutation: Mutation
) -> None:
    place = new_place(mutation.blobs)
    place.prepare(mutation.before)
    step = MAKE if mutation.is_half else mutation.decisive
    place.proxy.plan(step.rule(CASES["busy"].fault))
    assert told(place, mutation.call)[0] == Outcome.NOT_APPLIED
    assert told(place, mutation.call) == (DONE, None)
    assert place.content() == mutation.after


def step_cases() -> Iterator[Any]:
    for mutation in MUTATIONS:
        for step in mutation.steps:
            for name, case in CASES.items():
                if case.needs_body and not step.has_body:
                    continue
                # A step has no effect, so it is the same whether it hangs before or after it.
                if name not in ("slow answer", "half an answer", "hangs after"):
                    where = f"{step.method}{step.target}"
                    yield pytest.param(mutation, step, case, id=f"{mutation.name}-{where}-{name}")


@pytest.mark.parametrize(("mutation", "step", "case"), [*step_cases()])
def test_a_request_before_it(
    new_place: NewPlace, mutation: Mutation, step: Step, case: Case
) -> None:
    """The verb fails without effect, and the decisive request is never sent."""
    place = new_place(mutation.blobs)
    place.prepare(mutation.before)
    place.proxy.plan(step.rule(case.fault))
    outcome, error = told(place, mutation.call, case.fault)
    assert place.proxy.is_used_up, "the fault did not happen"
    assert outcome == Outcome.NOT_APPLIED, error
    assert place.proxy.count(mutation.decisive.method, mutation.decisive.target) == 0
    assert place.content() == mutation.before
    assert told(place, mutation.call) == (DONE, None)
    assert place.content() == mutation.after


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
@pytest.mark.parametrize("fault", ["half an answer", "slow answer"])
def test_an_answer_before_it_that_is_not_as_it_was(
    new_place: NewPlace, mutation: Mutation, fault: str
) -> None:
    """It may be of use or not; what is made is right, or nothing is made."""
    place = new_place(mutation.blobs)
    place.prepare(mutation.before)
    for step in mutation.steps:
        place.proxy.plan(step.rule(CASES[fault].fault))
        outcome, error = told(place, mutation.call)
        assert place.proxy.is_used_up, "the fault did not happen"
        if outcome == DONE:
            assert place.content() == mutation.after
            return
        assert outcome == Outcome.NOT_APPLIED, error
        assert place.content() == mutation.before


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.needs_body])
def test_the_first_request_of_a_create(new_place: NewPlace, name: str) -> None:
    """The request that makes an append blob: nothing is appended when it did not succeed."""
    case = CASES[name]
    place = new_place("append")
    place.prepare({})
    place.proxy.plan(MAKE.rule(case.fault))
    outcome, error = told(place, lambda storage: storage.create("new", [SMALL]), case.fault)
    assert place.proxy.is_used_up, "the fault did not happen"
    assert outcome in case.told, error
    assert place.proxy.count(MAKE.method, MAKE.target) == 1
    if outcome == DONE:
        assert place.content() == {"new": SMALL}
        return
    assert place.proxy.count(APPEND.method, APPEND.target) == 0
    assert place.content() == ({"new": b""} if case.has_effect else {})
    again, error = told(place, lambda storage: storage.create("new", [SMALL]))
    if case.has_effect:
        # The name is burnt; no other caller may take the empty blob for its own chunk.
        assert isinstance(error, ChunkExistsError)
    else:
        assert again == DONE


@pytest.mark.parametrize("verb", ["create", "write"])
@pytest.mark.parametrize("name", CASES)
def test_a_block_after_others(new_place: NewPlace, verb: str, name: str) -> None:
    """As soon as one block is there, a failure of the next is never without effect."""
    case = CASES[name]
    place = new_place("append")
    place.prepare({} if verb == "create" else {"new": b"x"})
    place.proxy.plan(Rule(fault=case.fault, method="PUT", target="comp=appendblock", skip=1))

    def call(storage: AzureChunkStorage) -> None:
        if verb == "create":
            storage.create("new", [LARGE])
        else:
            storage.write("new", 1, [LARGE])

    outcome, error = told(place, call, case.fault)
    assert place.proxy.is_used_up, "the fault did not happen"
    head = b"" if verb == "create" else b"x"
    if outcome == DONE:
        assert DONE in case.told
        assert place.content() == {"new": head + LARGE}
        return
    assert outcome == Outcome.UNKNOWN, error
    assert place.proxy.count(APPEND.method, APPEND.target) == 2
    blocks = 2 if case.has_effect else 1
    assert place.content() == {"new": head + LARGE[: blocks * BLOCK_BYTES]}


@pytest.mark.parametrize("name", CASES)
def test_a_seal(new_place: NewPlace, name: str) -> None:
    case = CASES[name]
    if case.needs_body:
        pytest.skip("a seal has no body")
    place = new_place("append")
    place.prepare({"one": SMALL})
    place.proxy.plan(Rule(fault=case.fault, method="PUT", target="comp=seal"))
    outcome, error = told(place, lambda storage: storage.seal("one"), case.fault)
    assert place.proxy.is_used_up, "the fault did not happen"
    assert outcome in case.told, error
    assert place.proxy.count("PUT", "comp=seal") == 1
    _, refused = told(place, lambda storage: storage.write("one", len(SMALL), [b"x"]))
    assert isinstance(refused, ChunkAccessDeniedError) == case.has_effect


def test_a_late_first_append_never_fills_another_blob(
    new_place: NewPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name was burnt, removed and taken by another before the bytes of the first came."""
    place = new_place("append")
    place.prepare({})
    write_blocks = appends._write_blocks

    def late(*arguments: Any) -> None:
        place.raw.remove("new")
        place.storage.service.blob("new").create_append_blob()
        write_blocks(*arguments)

    monkeypatch.setattr(appends, "_write_blocks", late)
    outcome, error = told(place, lambda storage: storage.create("new", [SMALL]))
    assert outcome == Outcome.UNKNOWN, error
    assert place.content() == {"new": b""}
