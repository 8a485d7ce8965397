"""The suite on a part of a service: honest ones pass, a lie is named, nothing is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.store.admin.scratch_storage import (
    ScratchService,
    ScratchStorage,
    Spending,
    SpentError,
)
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract

ROOT = Path(__file__).parents[4]

PROGRAM = """
import json, signal, sys
from dataclasses import asdict
from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.core.environment import SystemEnvironment
from siltstone.store.admin.conformance import run_suite
from siltstone.store.admin.scratch_storage import Spending

only, lie, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
bucket = Bucket()

class Service(MemoryChunkStorage):
    def create(self, name, buffers):
        if lie == "create overwrites" and any(found.name == name for found in self.list(name)):
            self.delete(name)
        super().create(name, buffers)

    def stat(self, name):
        if lie == "stat is signalled":
            raise SystemExit(7)
        if lie == "a signal comes":
            signal.raise_signal(signal.SIGINT)
            print("this call went on", file=sys.__stderr__)
        return super().stat(name)

def client():
    return Service(bucket, Profile(append=False))

client().create("theirs", [b"x"])
probes = []
try:
    spending = Spending(calls_max=calls, bytes_max=2**30)
    run_suite(client, SystemEnvironment(), probes.append, only, spending)
finally:
    print(json.dumps([asdict(probe) for probe in probes]))
    assert [key.decode() for key in bucket.keys] == ["theirs"], bucket.keys
"""


def run(only: str, lie: str = "", calls: int = 20_000) -> tuple[int, dict[str, Any], str]:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, only, lie, str(calls)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    found = {probe["name"]: probe for probe in json.loads(ran.stdout)}
    return ran.returncode, found, ran.stderr


@pytest.mark.slow
def test_an_honest_service_passes() -> None:
    code, found, errors = run("create or stat or used_space")
    assert (code, errors) == (0, "")
    assert {probe["area"] for probe in found.values()} == {"conformance"}
    assert {probe["outcome"] for probe in found.values()} == {"ok", "skipped"}
    assert found["create makes the chunk"]["outcome"] == "ok"
    assert found["create of one name is won once"]["detail"] == "1 case"
    assert found["create refuses no bytes"]["detail"] == "3 cases"
    assert found["used space of nothing"]["detail"] == "the service is shared with others"
    assert "calls" in found["cost"]["detail"]


@pytest.mark.slow
def test_a_lie_is_named() -> None:
    code, found, _ = run("create_refuses", "create overwrites")
    assert code == 0
    lie = found["create refuses a taken name"]
    assert lie["outcome"] == "failed"
    assert "DID NOT RAISE" in lie["detail"]
    assert found["create refuses no bytes"]["outcome"] == "ok"


@pytest.mark.slow
def test_it_ends_when_all_is_spent() -> None:
    code, found, _ = run("create", calls=30)
    assert code == 0
    assert found["cost"]["outcome"] == "failed"
    assert found["cost"]["detail"].startswith("30 calls, ")
    assert len(found) < 20


@pytest.mark.slow
def test_what_is_no_failure_of_a_check_ends_the_run() -> None:
    code, found, errors = run("stat", "stat is signalled")
    assert code == 7, errors
    assert len(found) < 5


@pytest.mark.slow
def test_a_signal_breaks_into_no_call() -> None:
    code, found, errors = run("stat", "a signal comes")
    assert code == -signal.SIGINT
    assert errors.count("this call went on") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert [probe["outcome"] for probe in found.values()] == ["ok"]
    assert list(found) == ["cost"]


@pytest.mark.slow
def test_no_check_of_such_a_name() -> None:
    code, _, errors = run("nonsense")
    assert code == 1
    assert "no check has such a name" in errors


class TestScratch(ChunkStorageContract):
    """A part of a service keeps the contract of a whole one."""

    is_alone = False
    name_bytes_max = 900

    @pytest.fixture
    def service(self) -> ChunkService:
        bucket = Bucket()

        def client() -> ChunkStorage:
            return MemoryChunkStorage(bucket)

        client().create("system/other", [b"theirs"])
        spending = Spending(calls_max=100_000, bytes_max=2**40)
        return ScratchService(client, client(), "system/doctor/x/", spending)


def test_nothing_is_sent_when_all_is_spent() -> None:
    bucket = Bucket()
    spending = Spending(calls_max=3, bytes_max=10)
    storage = ScratchStorage(MemoryChunkStorage(bucket), "p/", spending, set())
    with pytest.raises(SpentError):
        storage.create("a", [bytes(11)])
    storage.create("a", [bytes(10)])
    with pytest.raises(SpentError):
        storage.create("b", [b"x"])
    assert storage.read_into("a", 0, bytearray(4)) == 4
    assert storage.stat("a").name == "a"
    with pytest.raises(SpentError):
        storage.stat("a")
    assert bucket.keys == [b"p/a"]
    assert (spending.calls, spending.sent, spending.received) == (3, 10, 4)
