"""Blocks of code of the pages under docs, and how they are run in a folder of a test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.architecture.source_tree import ROOT

PLACES = ("/data", "/mnt", "/var/log", "/tmp")
PLACE = re.compile(rf'(?:^|(?<="))({"|".join(PLACES)})(?=/)')


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in one language, in order."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def moved(text: str, here: Path) -> str:
    """The same, with places of a machine in the folder ``here``."""
    return PLACE.sub(rf"{here}\1", text)


def follow(here: Path, page: str, **names: object) -> dict[str, Any]:
    """Run the Python of a page as one program, with names that it takes for granted."""
    for code in blocks(page, "python"):
        exec(compile(moved(code, here), page, "exec"), names)
    return names


def run_trial(here: Path, page: str, told: Mapping[str, str], **variables: str) -> str:
    """Run the one block of a page that makes a store ``./trial``; return what it prints.

    Args:
        here: the folder to run in.
        page: below ``docs``.
        told: what stands in the page for a server, and what the test has instead.
        variables: of the shell.
    """
    (block,) = (text for text in blocks(page, "text") if "init ./trial" in text)
    for old, new in told.items():
        assert old in block
        block = block.replace(old, new)
    command = f'siltstone() {{ {sys.executable} -m siltstone "$@"; }}\n{block}'
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=here,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
