"""Processes that fork around obstore: every read ends, with the right bytes or an error.

obstore's threads do not survive a fork, and a child that waits for them by a blocking call makes
its parent's threads deaf. What must hold: reads end within the limits; a few are lost, and the SDK
does the rest; what is left of the lost ones does not grow; it is logged once. Each scenario is a
process of its own, for it is spoilt afterwards.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from services.s3_server import S3Server
from siltstone.bindings.s3.obstore_runtime import LOST_MAX
from tests.faults.s3.obstore_process import CONTENT, WIDTH
from tests.support.services.s3_services import new_bucket, options_of

LIMIT_S = 1.5
"""Of silence: the read timeout, and what the process adds."""
LATE_S = 20.0
"""A slow machine; nothing waits this long by itself."""


def ended(versitygw: S3Server, scenario: str, timeout_s: float = 1.0) -> dict[str, Any]:
    bucket, raw = new_bucket(versitygw)
    raw.write("a", CONTENT)
    more: dict[str, Any] = {"transport": "obstore"}
    more |= {"read_timeout_s": timeout_s, "connect_timeout_s": timeout_s}
    options = options_of(versitygw, bucket, **more)
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.s3.obstore_process", scenario],
        input=json.dumps(options),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[3],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def check(told: dict[str, Any], *, lost: int) -> None:
    assert told["ended"] == (["right", "unavailable"] if lost else ["right"])
    assert lost <= told["lost"] <= (lost + WIDTH if lost else 0)
    assert told["longest_s"] < LIMIT_S + LATE_S
    assert told["afterwards"] == ["right"]
    assert told["more"] <= 2 * WIDTH, "a thread and a socket each, if the first reads needed fewer"


def test_a_child_that_uses_obstore_makes_it_deaf_here(versitygw: S3Server) -> None:
    told = ended(versitygw, "other_code_in_a_child")
    check(told, lost=LOST_MAX)
    assert told["opened_again"] == "right"
    assert told["warnings"] == 1
    assert told["threads"] == []


def test_in_a_child_the_sdk_reads(versitygw: S3Server) -> None:
    told = ended(versitygw, "in_a_child", LATE_S)
    check(told, lost=0)
    assert told["inherited"] == "closed"
    assert told["warnings"] == 1
    assert told["parent"] == ["right"]


def test_in_a_child_of_a_process_that_used_it_otherwise(versitygw: S3Server) -> None:
    told = ended(versitygw, "in_a_child_of_other_code")
    check(told, lost=LOST_MAX)
    assert told["parent"] == ["right"]
