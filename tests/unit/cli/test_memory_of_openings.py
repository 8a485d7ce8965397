"""The memory of a verb does not grow with what tier 1 holds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import siltstone
from siltstone.core.constants import MIB

RUN = """
import resource, sys
from siltstone.cli.main import run
code = run(sys.argv[1:])
sys.stdout.flush()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""

LENGTH = 128 * MIB
MORE_MAX = 48 * MIB
"""What a verb may need more than in an empty store: some frames of 8 MiB."""


def ran(folder: Path, *arguments: str, data: Path | None = None) -> tuple[bytes, int]:
    """Run a verb; return its output and its peak memory in bytes."""
    line: Sequence[str] = [sys.executable, "-c", RUN, "--store", str(folder), *arguments]
    with open(data or os.devnull, "rb") as source:
        done = subprocess.run(line, stdin=source, check=True, capture_output=True)
    return done.stdout, int(done.stderr.split()[-1]) * 1024


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_verbs_read_what_they_are_asked_for(tmp_path: Path) -> None:
    block = os.urandom(MIB)
    source = tmp_path / "source"
    with source.open("wb") as file:
        for number in range(LENGTH // MIB):
            file.write(number.to_bytes(8) + block[8:])
    empty = siltstone.init(tmp_path / "empty").parent
    ran(empty, "create", "a")
    folder = siltstone.init(tmp_path / "store").parent
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as settings:
        settings.write(
            "\nclose: {flush: never}\nflush: {bytes: 1GiB, age: 1h}\nback_pressure: {bytes: 1GiB}\n"
        )
    ran(folder, "append", "--create", "a", data=source)
    held = sum(path.stat().st_size for path in (folder / "tier1").rglob("*.log"))
    assert held > LENGTH // 2
    _, least = ran(empty, "ls")
    last = LENGTH - MIB
    for verb in (
        ["ls"],
        ["stat", "a"],
        ["cat", "a", "--length", "10"],
        ["cat", "a", "--offset", str(last), "--length", "8"],
    ):
        output, most = ran(folder, *verb)
        assert most - least < MORE_MAX, verb
    assert output == (LENGTH // MIB - 1).to_bytes(8)
    _, most = ran(folder, "create", "b")
    assert most - least < LENGTH + MORE_MAX, "an owner holds what it has to flush once in memory"
    ran(folder, "flush")
    _, most = ran(folder, "create", "c")
    assert most - least < MORE_MAX
