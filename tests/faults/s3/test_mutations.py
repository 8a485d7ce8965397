"""Each change of a bucket on a real server, and each thing that goes wrong with each request of it.

A proxy between the SDK and the server drops, cuts, delays, damages or invents one request or
answer. What must hold: what is reported as done has had its effect, with the right bytes; what is
reported as not applied has not, and never will; all else is unknown, and then all of the effect is
there or nothing of it. The request that has the effect is sent once. A plain HTTP client looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from services.s3_server import S3Server
from siltstone.core.errors import ChunkThrottledError, Outcome
from siltstone.testing.faults.http_faults import Answer
from tests.faults.s3.cases import CASES, DONE, Case
from tests.faults.s3.mutations import MUTATIONS, Mutation, Step
from tests.faults.s3.place import Place, placed


@pytest.fixture
def place(versitygw: S3Server) -> Iterator[Place]:
    yield from placed(versitygw)


@pytest.fixture
def place_on_minio(minio: S3Server) -> Iterator[Place]:
    yield from placed(minio)


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
    check_decisive(place, mutation, case)


ARRIVING = ("half a request", "damaged request")
"""What a server has to refuse; in all other cases the proxy alone decides, whatever the server."""


def cases_on_minio() -> Iterator[Any]:
    """The cases that are about the server; all others only in soaks."""
    for one in decisive_cases():
        marks = () if str(one.id).endswith(ARRIVING) else (pytest.mark.soak,)
        yield pytest.param(*one.values, id=one.id, marks=marks)


@pytest.mark.parametrize(("mutation", "case"), [*cases_on_minio()])
def test_the_same_on_minio(
    request: pytest.FixtureRequest, place_on_minio: Place, mutation: Mutation, case: Case
) -> None:
    if (mutation.name, case) == ("delete many", CASES["damaged request"]):
        # Not even the signature of the body, nor its MD5: it deletes whatever arrives.
        reason = "this server does not check the body of a bulk deletion"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    check_decisive(place_on_minio, mutation, case)


def check_decisive(place: Place, mutation: Mutation, case: Case) -> None:
    place.prepare(mutation.before)
    place.proxy.plan(mutation.decisive.rule(case.fault))
    outcome, error = place.told(mutation, case.fault)
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
    assert place.told(mutation)[0] == Outcome.NOT_APPLIED
    assert place.told(mutation) == (DONE, None)
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
    """The verb fails without effect, and the decisive request is never sent."""
    place.prepare(mutation.before)
    place.proxy.plan(step.rule(case.fault))
    outcome, error = place.told(mutation, case.fault)
    assert place.proxy.is_used_up, "the fault did not happen"
    assert outcome == Outcome.NOT_APPLIED, error
    assert place.proxy.count(mutation.decisive.method, mutation.decisive.target) == 0
    assert place.content() == mutation.before
    assert place.told(mutation) == (DONE, None)
    assert place.content() == mutation.after


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
@pytest.mark.parametrize("fault", ["half an answer", "damaged answer", "slow answer"])
def test_an_answer_before_it_that_is_not_as_it_was(
    place: Place, mutation: Mutation, fault: str
) -> None:
    """It may be of use or not; what is made is right, or nothing is made.

    A GET is left out: ranges have no checksum of the service, so bytes that a join reads may be
    wrong over plain HTTP. The caller of a join compares it with the sums of the blocks.
    """
    place.prepare(mutation.before)
    for step in mutation.steps:
        if fault == "damaged answer" and step.method != "POST":
            continue
        place.proxy.plan(step.rule(CASES[fault].fault))
        outcome, _ = place.told(mutation)
        assert place.proxy.is_used_up, "the fault did not happen"
        if outcome == DONE:
            assert place.content() == mutation.after
            return
        assert outcome == Outcome.NOT_APPLIED
        assert place.content() == mutation.before
