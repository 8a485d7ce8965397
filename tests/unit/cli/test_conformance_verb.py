"""``doctor --conformance``: a report, an exit code, and nothing left, however it ends."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import siltstone
from siltstone.cli import doctor_command
from tests.support.command import Command

Process = Callable[..., "subprocess.Popen[bytes]"]


def files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "chunks").rglob("*"))


@pytest.mark.slow
def test_it_reports_and_leaves_nothing(process: Process, folder: Path) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(b"x")
    before = files(folder)
    with process("doctor", "--conformance", "--only", "delete or longest or streamed") as running:
        out, errors = running.communicate(timeout=120)
    assert (running.returncode, errors) == (0, b"")
    lines = out.decode().splitlines()
    assert "ok       conformance: delete removes the chunk: 1 case" in lines
    assert "ok       conformance: the longest name: 1 case" in lines
    assert "ok       conformance: streamed create takes all pieces from one buffer: 1 case" in lines
    assert lines[-1].startswith("ok       conformance: cost: ")
    assert files(folder) == before


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_nothing_is_left(
    process: Process, folder: Path, number: signal.Signals, code: int
) -> None:
    before = files(folder)
    with process("doctor", "--conformance", "--json") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        for _ in range(5):
            assert b'"conformance"' in running.stdout.readline()
        running.send_signal(number)
        out, errors = running.communicate(timeout=120)
    assert running.returncode == code, errors
    assert errors == {130: b"siltstone: interrupted\n", 143: b"siltstone: terminated\n"}[code]
    assert b'"cost"' in out
    assert files(folder) == before


def test_what_is_missing_is_named(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "find_spec", lambda name: None)
    ran = command("doctor", "--conformance")
    assert ran.code == 2
    assert "pytest and hypothesis" in ran.err
    assert "try: pip install 'hypothesis>=6.100' 'pytest>=8.4'" in ran.err


def test_only_goes_with_it(command: Command) -> None:
    assert command("doctor", "--only", "create").code == 2
