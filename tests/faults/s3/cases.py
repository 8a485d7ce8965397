"""What may go wrong with one request, and what a caller is then told of the verb that made it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from siltstone.core.errors import ChunkError, Outcome
from siltstone.testing.faults.http_faults import (
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


def told(call: Callable[[], None]) -> tuple[str, ChunkError | None]:
    """What a caller learns: the outcome, and the error if there is one."""
    try:
        call()
    except ChunkError as error:
        return error.outcome, error
    return DONE, None
