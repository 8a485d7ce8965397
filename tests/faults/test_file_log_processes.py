"""Real processes on one file log: one is killed while it appends, two race to claim.

What may happen: ``kill -9`` at any moment. What must hold: what the dead process said it had
acknowledged is read by the next owner; of two claimants one is told that the log is in use, or
fenced.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from siltstone.core.constants import KIB
from siltstone.tier1.file.fenced_log import FileFencedLog

ROOT = Path(__file__).resolve().parents[2]
LINEAGE = bytes(range(16))

OWNER = """
import sys
from siltstone.core.errors import FencedError, StoreInUseError
from siltstone.tier1.file.fenced_log import FileFencedLog

path, new, takeover, count, name = sys.argv[1:]
log = FileFencedLog(path, 0, file_bytes=64 * 1024)
print("ready", flush=True)
sys.stdin.readline()
try:
    log.claim(
        lineage=bytes(range(16)), new=new == "1", above=0, takeover=takeover == "1", owner=name
    )
    for number in range(int(count)):
        body = f"{name} {number}".encode()
        print(log.append([body], count=1), body.decode(), flush=True)
except StoreInUseError as error:
    print("in use by", error.owner, flush=True)
except FencedError:
    print("fenced", flush=True)
else:
    sys.stdin.readline()
    log.close()
"""


def _start(
    path: Path, name: str, *, new: bool, takeover: bool, count: int
) -> subprocess.Popen[str]:
    arguments = [str(path), str(int(new)), str(int(takeover)), str(count), name]
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _bodies(path: Path) -> dict[int, str]:
    reader = FileFencedLog(str(path), 0).open_read()
    return {frame.index: frame.body.decode() for frame in reader.read(0)}


def test_a_killed_owner_leaves_what_it_acknowledged(tmp_path: Path) -> None:
    acknowledged: dict[int, str] = {}
    for life in range(3):
        owner = _start(tmp_path, f"life{life}", new=life == 0, takeover=False, count=10**6)
        _go(owner)
        assert owner.stdout is not None
        for _ in range(40 * (life + 1)):
            index, body = owner.stdout.readline().split(" ", 1)
            acknowledged[int(index)] = body.strip()
        owner.send_signal(signal.SIGKILL)
        for line in owner.stdout.read().splitlines(keepends=True):
            if line.endswith("\n"):
                index, body = line.split(" ", 1)
                acknowledged[int(index)] = body.strip()
        owner.wait(120)
        owner.stdout.close()
        assert owner.stdin is not None
        owner.stdin.close()
    log = FileFencedLog(str(tmp_path), 0, file_bytes=64 * KIB)
    assert not log.holder().alive
    log.claim(lineage=LINEAGE, new=False, above=0, takeover=False, owner="test")
    found = {frame.index: frame.body.decode() for frame in log.read(0)}
    log.close()
    assert {index: found.get(index) for index in acknowledged} == acknowledged
    assert sorted(found) == list(range(len(found)))
    assert len(found) <= len(acknowledged) + 3


@pytest.mark.parametrize("takeover", [False, True])
def test_two_processes_race_to_claim(tmp_path: Path, takeover: bool) -> None:
    first = _start(tmp_path, "setup", new=True, takeover=False, count=1)
    _go(first)
    first.communicate("\n", timeout=120)
    for turn in range(3):
        racers = [
            _start(tmp_path, f"{name}{turn}", new=False, takeover=takeover, count=5)
            for name in ("a", "b")
        ]
        for racer in racers:
            _go(racer)
        said = [_said(racer) for racer in racers]
        for racer in racers:
            racer.communicate("\n", timeout=120)
        found = _bodies(tmp_path)
        for lines in said:
            for line in lines:
                if line[0].isdigit():
                    index, body = line.split(" ", 1)
                    assert found[int(index)] == body
        winners = [lines for lines in said if len(lines) == 5]
        if takeover:
            assert winners
        else:
            (loser,) = [lines for lines in said if lines not in winners]
            assert len(winners) == 1
            assert loser[0].startswith("in use by")


def _said(racer: subprocess.Popen[str]) -> list[str]:
    """Its lines: five acknowledged frames, or fewer and why there are no more."""
    assert racer.stdout is not None
    lines: list[str] = []
    while len(lines) < 5 and not (lines and not lines[-1][0].isdigit()):
        lines.append(racer.stdout.readline().strip())
    return lines
