"""The tours of README.md, of the Python interface and of its pages do what they say.

The blocks of each run in order in one empty folder, each ``python`` block in a process, ``sh`` in
bash. A block prints what it announces: as a comment after ``print(...)``, in ``sh`` as lines that
begin with ``#>``. ``…`` there stands for anything. Blocks in other languages are not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT
from tests.support.processor_limit import HOURS_S, limited

BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
SHOWN = "#> "
PROCESSOR_S = 60
"""Processor time of a block; how long that takes depends on the other load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of the tour.

    Attributes:
        command: what runs it.
        expected: the lines that it announces.
    """

    command: tuple[str, ...]
    expected: tuple[str, ...]


def blocks(text: str) -> list[Block]:
    """Return the runnable blocks in order."""
    found = []
    for language, body in BLOCK.findall(text):
        if language == "python":
            command = (sys.executable, "-W", "error", "-c", body)
            expected = tuple(PRINTED.findall(body))
        else:
            command = ("bash", "-euo", "pipefail", "-c", body)
            lines = body.splitlines()
            expected = tuple(line.removeprefix(SHOWN) for line in lines if line.startswith(SHOWN))
        found.append(Block(command=command, expected=expected))
    return found


def fits(expected: str, line: str) -> bool:
    """Whether a printed line is the one that was announced."""
    pattern = ".*".join(re.escape(part) for part in expected.split("…"))
    return re.fullmatch(pattern, line) is not None


@pytest.mark.slow
@pytest.mark.timeout(HOURS_S)
@pytest.mark.parametrize(
    ("page", "kinds"),
    [
        pytest.param("README.md", {sys.executable, "bash"}, id="readme"),
        pytest.param("docs/python.md", {sys.executable}, id="python"),
        pytest.param("docs/collections.md", {sys.executable, "bash"}, id="collections"),
        pytest.param("docs/keyspaces.md", {sys.executable, "bash"}, id="keyspaces"),
        pytest.param("docs/volumes.md", {sys.executable, "bash"}, id="volumes"),
    ],
)
def test_the_tour_does_what_it_says(page: str, kinds: set[str], tmp_path: Path) -> None:
    tour = blocks((ROOT / page).read_text(encoding="utf-8"))
    assert {block.command[0] for block in tour} == kinds
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8", "TZ": "UTC"}
    for block in tour:
        run = subprocess.run(
            limited(block.command, PROCESSOR_S),
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        printed = run.stdout.splitlines()
        assert len(printed) == len(block.expected), (block.expected, printed)
        for expected, line in zip(block.expected, printed, strict=True):
            assert fits(expected, line), (expected, line)


def test_a_block_that_says_something_else_would_be_noticed() -> None:
    (block,) = blocks("```python\nprint(1)  # one … more\n```\n")
    assert block.expected == ("one … more",)
    assert fits(block.expected[0], "one or more")
    assert not fits(block.expected[0], "one or many")
