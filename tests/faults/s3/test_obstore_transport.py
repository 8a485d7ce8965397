"""Reads by obstore on a real server while a proxy between the two does what a network does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from services.s3_server import S3Server
from siltstone.bindings.s3 import obstore_reads
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.obstore_runtime import LOST_MAX, runtime
from siltstone.core.errors import ChunkThrottledError, Outcome
from siltstone.testing.faults.http_faults import Answer, Hang, Trickle
from tests.faults.s3.cases import CASES, DONE, Case, told
from tests.faults.s3.mutations import MUTATIONS, SMALL, Mutation, Step
from tests.faults.s3.place import Place, placed

READS = {
    "GET": Step(method="GET", target="/one$"),
    "HEAD": Step(method="HEAD", target="/one$"),
}


@pytest.fixture
def place(versitygw: S3Server) -> Iterator[Place]:
    yield from placed(versitygw, transport="obstore")


@pytest.mark.parametrize("method", READS)
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=name) for name, case in CASES.items() if not case.needs_body]
)
def test_a_read(place: Place, method: str, case: Case) -> None:
    """It fails, or what was read is right, unless an answer was damaged: sums find that."""
    if case.needs_answer:
        pytest.skip("ranges have no checksum of the service")
    place.prepare({"one": SMALL})
    storage = place.impatient if isinstance(case.fault, Hang) else place.storage
    buffer = bytearray(len(SMALL))

    def read() -> None:
        if method == "HEAD":
            assert storage.stat("one").length == len(SMALL)
        else:
            assert storage.read_into("one", 0, buffer) == len(SMALL)
            assert buffer == SMALL

    place.proxy.plan(READS[method].rule(case.fault))
    outcome, error = told(read)
    assert place.proxy.is_used_up, "the fault did not happen"
    assert place.proxy.count(method, "/one$") == 1
    assert outcome == Outcome.NOT_APPLIED or (outcome == DONE and DONE in case.told), error
    if isinstance(case.fault, Answer) and case.fault.status in (429, 503):
        assert isinstance(error, ChunkThrottledError)
    assert told(read) == (DONE, None)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_what_changes_did_is_read_back(place: Place, mutation: Mutation) -> None:
    place.prepare(mutation.before)
    assert told(partial(mutation.call, place.storage)) == (DONE, None)
    for name, content in mutation.after.items():
        buffer = bytearray(len(content) + 1)
        assert place.storage.read_into(name, 0, buffer) == len(content)
        assert buffer[:-1] == content


def test_a_body_that_does_not_end_is_left_before_the_deadline(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the library itself, so that it is used again."""
    place.prepare({"one": SMALL})
    # Long enough before the deadline that a busy machine does not reach the deadline first.
    monkeypatch.setattr(obstore_reads, "OF_DEADLINE", 0.5 / place.settings.deadline_s)
    hasty = S3ChunkStorage(place.settings)
    for _ in range(LOST_MAX):
        place.proxy.plan(READS["GET"].rule(Trickle(block_bytes=16, pause_s=0.05)))
        outcome, error = told(partial(read_all, hasty))
        assert outcome == Outcome.NOT_APPLIED
        assert "GenericError" in str(error)
    hasty.close()
    assert runtime().is_usable()
    read_all(place.storage)


def read_all(storage: S3ChunkStorage) -> None:
    buffer = bytearray(len(SMALL))
    assert storage.read_into("one", 0, buffer) == len(SMALL)
    assert buffer == SMALL
