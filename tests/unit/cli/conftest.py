"""Runs the command in this process or in a new one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.cli.main import run
from tests.support.command import Command, Ran

COMMAND = (sys.executable, "-m", "siltstone")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a new store."""
    settings = siltstone.init(tmp_path / "store", containers=2)
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("path: ./tier1", "path: ./tier1\n    file_bytes: 16MiB"))
    return settings.parent


@pytest.fixture
def command(folder: Path, capfd: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process for the store of this test."""

    def call(*arguments: str, store: str | None = None) -> Ran:
        code = run(["--store", store or str(folder), *arguments])
        out, err = capfd.readouterr()
        return Ran(code=code, out=out, err=err)

    return call


@pytest.fixture
def process(folder: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Start the command in a new process."""

    def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        line: Sequence[str] = (*COMMAND, "--store", str(folder), *arguments)
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    return start
