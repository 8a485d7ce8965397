"""A missing service: skipped and reported at the end, or a failure where it is required."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.catalogue import SERVICES, required

ROOT = Path(__file__).parents[3]
ASKING = "tests/unit/services/test_s3_servers.py::test_a_bucket_can_be_used"


def run(tmp_path: Path, ci: str, *more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SILTSTONE_CACHE": str(tmp_path), "CI": ci, "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more, ASKING],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_missing_service_is_told_at_the_end(tmp_path: Path, workers: tuple[str, ...]) -> None:
    ran = run(tmp_path, "", *workers)
    assert ran.returncode == 0, ran.stdout
    assert "SERVICES THAT WERE MISSING" in ran.stdout
    assert "1 tests left out, missing service versitygw: it was not fetched" in ran.stdout


@pytest.mark.slow
def test_a_missing_service_that_is_required_fails_in_ci(tmp_path: Path) -> None:
    ran = run(tmp_path, "true")
    assert ran.returncode == 1, ran.stdout
    assert "missing service versitygw" in ran.stdout


def test_what_is_required_is_there_to_be_had() -> None:
    assert set(required()) <= set(SERVICES)


def test_every_service_has_its_row_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in SERVICES if f"| `{name}` |" not in text] == []
