"""A known deviation has to fail; a check that holds again is reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

SUITE = """
import pytest
from siltstone.testing.deviations import Deviation, expect_deviation

KNOWN = (
    Deviation(check="test_broken", service="s 1", why="is broken"),
    Deviation(check="test_mended", service="s 1", why="was broken"),
    Deviation(check="test_some[b]", service="s 1", why="cannot do b"),
    Deviation(check="test_race", service="s 1", why="sometimes", is_certain=False),
)

@pytest.fixture(autouse=True)
def _deviation(request):
    expect_deviation(request, KNOWN)

def test_broken():
    assert False

def test_mended():
    pass

@pytest.mark.parametrize("case", ["a", "b", "c"])
def test_some(case):
    assert case != "b"

def test_race():
    pass

def test_unknown():
    assert False
"""


@pytest.mark.slow
def test_what_is_known_must_fail_and_nothing_else_may(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--rootdir", "."],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    lines = set(ran.stdout.splitlines())
    told = {line.split(" - ")[0] for line in lines}
    assert {"FAILED test_it.py::test_mended", "FAILED test_it.py::test_unknown"} <= told
    assert "XFAIL test_it.py::test_broken - s 1: is broken" in lines
    assert any(line.startswith("XFAIL test_it.py::test_some[b]") for line in lines)
    assert any(line.startswith("XPASS test_it.py::test_race") for line in lines)
    assert {"PASSED test_it.py::test_some[a]", "PASSED test_it.py::test_some[c]"} <= lines
