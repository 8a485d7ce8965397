"""``--on spark`` of the command, with a session of its own, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import siltstone

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

RUNS = """
import json, sys
from siltstone.cli.main import run
for line in json.loads(sys.argv[1]):
    code = run([*line, "--json", "--master", "local[2]", "--conf", "spark.ui.enabled=false"])
    for file in (sys.stdout, sys.stderr):
        print(json.dumps({"code": code}), file=file, flush=True)
"""
"""The second run finds the Java of the first one, and is there soon."""


def test_a_copy_in_tasks_continues_under_its_old_name(tmp_path: Path) -> None:
    folder, other = (str(siltstone.init(tmp_path / name).parent) for name in ("store", "other"))
    with siltstone.open(folder) as store:
        for name in ("a", "b"):
            store.create(name).append(name.encode() * 100_000)
        store.flush()
    lines = [
        ["copy", folder, other, "a", "--verify", "--on", "spark"],
        ["--store", folder, "spark", "copy", other],
    ]
    done = subprocess.run(
        [sys.executable, "-c", RUNS, json.dumps(lines)],
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
    )
    values = [json.loads(line) for line in done.stdout.splitlines()]
    copied, compared, first, *again, second = values
    assert (copied["status"], compared["status"]) == ("ok", "ok")
    assert {one["subject"]: one["status"] for one in again} == {"a": "same", "b": "ok"}
    assert first == second == {"code": 0}
    new, old, rest = done.stderr.split('{"code": 0}\n')
    assert ("old name" in new, old.count("siltstone: "), rest) == (False, 1, "")
    assert "is the old name of 'siltstone copy SOURCE TARGET --on spark'" in old
    with siltstone.open(other, read_only=True) as store:
        assert store.segment("b").read(0, 200_000) == b"b" * 100_000
