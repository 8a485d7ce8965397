"""A whole store in a bucket: on a server of others, and on the stub with all its conditions.

Neither server keeps anything over its own end, so none is killed. The proxy breaks requests of
flushes instead; what was acknowledged must be there, with the index and without it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import siltstone
from services.fake_gcs import FakeGcs
from siltstone.core.errors import SiltstoneError
from siltstone.testing.fault_proxy import FaultProxy
from siltstone.testing.http_faults import Reset, Rule
from tests.contract.gcs_services import new_bucket
from tests.contract.raw_gcs import RawGcs
from tests.unit.bindings.gcs.stub import Stub
from tests.unit.bindings.gcs.stub_server import serving

SEGMENTS = ("a", "b", "c")
ROUNDS = 3
PATIENCE_S = 60.0
SETTINGS = """
segments:
  chunk_size: 100KiB
deadlines:
  storage: 10s
"""


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


def flush_at_last(store: siltstone.Store) -> None:
    """Storage that did not answer is asked again only now and then, so this takes a moment."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return store.flush()
        except SiltstoneError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def check(store: siltstone.Store, content: dict[str, bytes], raw: RawGcs) -> None:
    for name, expected in content.items():
        assert store.segment(name).read(0, len(expected)) == expected
        end = 0
        for run in store.segment(name).chunks():
            assert run.start == end
            end += run.length
            chunk = raw.read(f"stores/one/{run.chunk}")
            assert chunk is not None
            lying = chunk[run.chunk_offset : run.chunk_offset + run.length]
            assert lying == expected[run.start : end]
        assert end == len(expected)
    assert [finding for finding in store.check() if finding.severity == "damage"] == []


def run(bucket: Bucket, place: Path) -> None:
    content = dict.fromkeys(SEGMENTS, b"")
    with FaultProxy(("127.0.0.1", bucket.port)) as proxy:
        options = {
            "bucket": bucket.raw.bucket, "prefix": "stores/one", "endpoint": proxy.endpoint,
            "insecure": True, "anonymous": True, "read_timeout_s": 5, **bucket.more,
        }  # fmt: skip
        settings = siltstone.init(place, binding="gcs", options=options)
        with settings.open("a", encoding="utf-8") as file:
            file.write(SETTINGS)
        with siltstone.open(place) as store:
            for name in SEGMENTS:
                store.create(name)
            for number in range(ROUNDS):
                for name in SEGMENTS:
                    data = f"{name}{number}.".encode() * 75_000
                    assert store.segment(name).append(data) == len(content[name])
                    content[name] += data
                fault = Reset(after_effect=number % 2 == 0)
                proxy.plan(Rule(fault=fault, method="POST", skip=number, times=2))
                flush_at_last(store)
                assert proxy.is_used_up
            check(store, content, bucket.raw)
        shutil.rmtree(place / "index")
        with siltstone.open(place) as store:
            check(store, content, bucket.raw)
        shutil.rmtree(place / "tier1")
        siltstone.recover(place, accept_loss=True)
        with siltstone.open(place) as store:
            check(store, content, bucket.raw)


@pytest.mark.slow
@pytest.mark.usefixtures("gcs_plugin")
def test_on_a_server_of_others(on_fake: Bucket, tmp_path: Path) -> None:
    run(on_fake, tmp_path / "store")


@pytest.mark.slow
@pytest.mark.usefixtures("gcs_plugin")
def test_with_all_conditions(on_stub: Bucket, tmp_path: Path) -> None:
    run(on_stub, tmp_path / "store")
