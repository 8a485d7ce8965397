"""The template of a binding is installed as a package of its own, and keeps the contract there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "examples" / "binding"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A copy of the template, as an author begins with it."""
    copy = tmp_path / "copy"
    shutil.copytree(TEMPLATE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def environment_of(place: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(place / "installed"), str(ROOT))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run(place: Path, *line: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", *line],
        cwd=place,
        env=environment_of(place),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3_000:] + ran.stderr
    return ran.stdout


def install(place: Path) -> None:
    run(
        place, "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation",
        "--disable-pip-version-check", "--target", "installed", ".",
    )  # fmt: skip
    shutil.rmtree(place / "siltstone_shelf")  # What runs is what was installed.


def test_a_store_opens_with_what_the_template_writes_into_its_settings(place: Path) -> None:
    install(place)
    (text,) = re.findall(r"```yaml\n(.*?)```", (place / "README.md").read_text(), re.DOTALL)
    run(place, "siltstone", "init", "store", "--binding", "shelf", "--option", "path=here.db")
    settings = place / "store" / "siltstone.yaml"
    written = settings.read_text()
    section = re.search(r"^long_term_storage:\n(?: .*\n)+", written, re.MULTILINE)
    assert section is not None
    settings.write_text(written.replace(section[0], text.replace("/data/shelf.db", "here.db")))
    run(place, "siltstone", "--store", "store", "create", "a")
    assert "a " in run(place, "siltstone", "--store", "store", "ls")


def test_the_template_is_installed_and_its_suite_is_green(place: Path) -> None:
    install(place)
    told = run(place, "pytest", "-q", "-p", "no:cacheprovider", "test_shelf.py")
    passed = re.search(r"(\d+) passed", told)
    assert passed is not None
    assert int(passed[1]) > 250, told
    assert "failed" not in told


def test_a_binding_that_imports_old_paths_works_and_is_warned(place: Path) -> None:
    errors = place / "siltstone_shelf" / "errors.py"
    old = "from siltstone.core.throttling import ChunkThrottledError\n"
    errors.write_text(
        errors.read_text().replace(
            "from siltstone.core.errors", f"{old}from siltstone.core.errors", 1
        )
        + "\nassert issubclass(ChunkThrottledError, Exception)\n"
    )
    install(place)
    program = f"""
import siltstone
from siltstone_shelf.plugin import siltstone_chunk_storage as make
storage = make("shelf", {{"path": {str(place / "here.db")!r}}})
storage.create("data/a", [b"bytes"])
print(storage.stat("data/a").length)
"""
    ended = subprocess.run(
        [sys.executable, "-W", "always::DeprecationWarning", "-c", program],
        env=environment_of(place),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "5\n"
    told = "DeprecationWarning: siltstone.core.throttling is siltstone.core.errors now"
    assert f"errors.py:9: {told}" in ended.stderr
