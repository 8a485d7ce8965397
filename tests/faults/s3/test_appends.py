"""An append to a directory bucket, and each thing that goes wrong with its one request.

No server that runs on this machine can append, so a stub stands for the service. It does not notice
bytes that are damaged or missing; the cases with these are for the real servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from urllib.parse import urlsplit

import pytest

from siltstone.bindings.s3 import proof
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.testing.faults.fault_proxy import FaultProxy
from siltstone.testing.faults.http_faults import Hang, Rule
from tests.faults.s3.cases import CASES, READ_TIMEOUT_S, Case, told
from tests.faults.s3.mutations import SMALL
from tests.support.stubs.s3_stub import Stub, running

BEFORE = b"what was there"
APPENDS = {
    name: case
    for name, case in CASES.items()
    if not case.needs_answer and name not in ("half a request", "damaged request")
}


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running(Stub("store--use1-az4--x-s3")) as stub:
        yield stub
    # Ports come again, and what was proven of one service is not of another one.
    proof.PROOFS.forget()


@pytest.mark.parametrize("case", APPENDS.values(), ids=APPENDS)
def test_the_request_that_appends(stub: Stub, case: Case) -> None:
    port = urlsplit(stub.endpoint).port
    assert port
    with FaultProxy(("127.0.0.1", port)) as proxy:
        settings = stub.settings(append="directory-bucket", endpoint=proxy.endpoint)
        storage = S3ChunkStorage(settings)
        storage.create("a", [BEFORE])
        if isinstance(case.fault, Hang):
            # Where a request hangs, one deadline has to end it; none other ends on a slow machine.
            storage.close()
            impatient = settings.model_copy(update={"read_timeout_s": READ_TIMEOUT_S})
            storage = S3ChunkStorage(impatient)
        proxy.forget()
        proxy.plan(Rule(fault=case.fault, method="PUT", target="/a$"))
        outcome, error = told(partial(storage.write, "a", len(BEFORE), [SMALL[:9], SMALL[9:]]))
        storage.close()
        assert proxy.is_used_up, "the fault did not happen"
        assert outcome in case.told, error
        assert proxy.count("PUT", "/a$") == 1
        assert stub.objects == {"a": BEFORE + (SMALL if case.has_effect else b"")}
