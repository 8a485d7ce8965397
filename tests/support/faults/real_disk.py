"""A real ext4 for one test, or a skip that says why there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.faults.crash_file_system import CrashFileSystem, why_not


def real_disk(folder: Path, mebibytes: int) -> Iterator[CrashFileSystem]:
    """Yield one file system and take it away again; the body of a fixture."""
    reason = why_not()
    with ExitStack() as stack:
        if reason is None:
            try:
                disk = stack.enter_context(CrashFileSystem(folder, mebibytes=mebibytes))
            except OSError as error:
                # A root of a container may not mount; a root of CI should.
                if os.environ.get("CI") == "true":
                    raise
                reason = str(error)
        if reason is not None:
            pytest.skip(f"no real disk here: {reason}")
        yield disk
