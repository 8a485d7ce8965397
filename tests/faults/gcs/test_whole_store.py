"""A whole store in a bucket: on a third-party server, and on the stub with all its conditions.

Neither server keeps anything when it ends, so none is killed. The proxy breaks requests of
flushes instead. What must hold is told in ``tests/support/faults/whole_life.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from services.fake_gcs import FakeGcs
from siltstone.testing.faults.fault_proxy import FaultProxy
from siltstone.testing.faults.http_faults import Reset, Rule
from tests.support.faults.whole_life import flush_at_last, new_store, whole_life
from tests.support.services.gcs_services import new_bucket
from tests.support.services.raw_gcs import RawGcs
from tests.support.stubs.gcs_stub import Stub
from tests.support.stubs.gcs_stub_server import serving

PREFIX = "stores/one"
ROUNDS = 3


@dataclass
class Bucket:
    """A bucket, seen from outside, and where its server listens."""

    raw: RawGcs
    port: int
    more: dict[str, Any]


@pytest.fixture
def on_fake(fake_gcs_server: FakeGcs) -> Bucket:
    raw = new_bucket(fake_gcs_server.endpoint)
    return Bucket(raw, fake_gcs_server.port, {"unsafe_without_preconditions": True})


@pytest.fixture
def on_stub() -> Iterator[Bucket]:
    with serving() as server:
        stub = server.use(Stub())
        yield Bucket(RawGcs(stub.endpoint, stub.bucket), server.port, {})


def run(bucket: Bucket, place: Path) -> None:
    with FaultProxy(("127.0.0.1", bucket.port)) as proxy:
        options = {
            "bucket": bucket.raw.bucket, "prefix": PREFIX, "endpoint": proxy.endpoint,
            "insecure": True, "anonymous": True, "read_timeout_s": 5, **bucket.more,
        }  # fmt: skip
        new_store(place, "gcs", options)
        with whole_life(place, lambda name: bucket.raw.read(f"{PREFIX}/{name}")) as life:
            store, ledger = life
            for number in range(ROUNDS):
                ledger.append(store, number)
                fault = Reset(after_effect=number % 2 == 0)
                proxy.plan(Rule(fault=fault, method="POST", skip=number, times=2))
                flush_at_last(store)
                assert proxy.is_used_up


@pytest.mark.slow
@pytest.mark.usefixtures("gcs_plugin")
def test_on_a_server_of_others(on_fake: Bucket, tmp_path: Path) -> None:
    run(on_fake, tmp_path / "store")


@pytest.mark.slow
@pytest.mark.usefixtures("gcs_plugin")
def test_with_all_conditions(on_stub: Bucket, tmp_path: Path) -> None:
    run(on_stub, tmp_path / "store")
