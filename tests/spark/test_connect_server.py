"""All that docs/spark.md says of Spark Connect, by a real server, where its packages are."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import siltstone
from siltstone import events

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PACKAGES = {"grpc": "grpcio", "grpc_status": "grpcio-status", "zstandard": "zstandard"}
NUMBERS = [str(number) for number in range(10)]


def test_what_a_client_of_spark_connect_can_do(tmp_path: Path, silt: None) -> None:
    missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
    if missing:
        pytest.skip(f"NO TEST OF SPARK CONNECT RUNS: {', '.join(missing)} not installed")
    folder = tmp_path / "store"
    siltstone.init(folder)
    text = "".join(f"{number}\n" for number in NUMBERS)
    with siltstone.open(folder) as store:
        store.create("lines").append(text.encode())
        store.create("events").append(events.encode_many(map(str.encode, NUMBERS)))
        store.flush()
    program = [sys.executable, "-m", "tests.spark.connect_driver", str(folder), str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    refusal = found.pop("refusal")
    assert "no such segment" in refusal
    assert "none" in refusal
    assert found == {
        "class": "pyspark.sql.connect.session",
        "active": True,
        "lines": NUMBERS,
        "blocks": [text],
        "events": NUMBERS,
        "view": len(NUMBERS),
        "scrubbed": ["ok"],
        "files": NUMBERS,
    }
    with siltstone.open(folder, read_only=True) as store:
        for name in ("written", "streamed"):
            segment = store.segment(name)
            assert segment.read(0, segment.info().length) == text.encode()
