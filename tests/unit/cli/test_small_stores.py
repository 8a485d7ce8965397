"""What short runs of the command leave on the disk, however many there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import siltstone
from siltstone.core.constants import KIB, MIB
from tests.unit.cli.conftest import COMMAND

APPEND = """
import sys
from siltstone.cli.main import run
code = run(sys.argv[1:])
with open("/proc/self/io") as counts:
    print("written", dict(line.split(": ") for line in counts)["wchar"], file=sys.stderr)
sys.exit(code)
"""


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*"))


def written(folder: Path, data: bytes) -> int:
    """Append by the command; return how many bytes it wrote, wherever they went."""
    line = [sys.executable, "-c", APPEND, "--store", str(folder), "append", "--create", "a"]
    ran = subprocess.run(line, input=data, check=True, capture_output=True)
    return int(ran.stderr.split()[-1])


@pytest.mark.slow
def test_ten_short_appends_leave_little_and_write_little(tmp_path: Path) -> None:
    folder = siltstone.init(tmp_path / "store").parent
    assert max(written(folder, b"abc") for _ in range(10)) < 256 * KIB
    assert on_disk(folder) < 2 * MIB
    assert on_disk(folder / "tier1") < 512 * KIB
    subprocess.run([*COMMAND, "--store", str(folder), "flush"], check=True, capture_output=True)
    assert len(list((folder / "tier1").glob("c0/e*"))) == 2
    with siltstone.open(folder) as store:
        assert store.segment("a").read(0, 100) == b"abc" * 10
