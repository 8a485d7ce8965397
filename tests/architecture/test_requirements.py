"""The requirement files: every package pinned and hashed, one version in all of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT

FILES = ("build", "base", "dev", "spark", "fuzz", "bench", "docs")
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)", re.MULTILINE)


@pytest.mark.parametrize("name", FILES)
def test_every_package_is_pinned_and_hashed(name: str) -> None:
    text = _path(name).read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[A-Za-z0-9])", re.sub(r"(?m)^\s*#.*\n", "", text))
    loose = [
        entry.split("\n")[0]
        for entry in entries
        if not PIN.match(entry) or "--hash=sha256:" not in entry
    ]
    assert loose == []


def test_a_package_has_one_version_in_all_files() -> None:
    versions: dict[str, set[str]] = {}
    for name in FILES:
        for package, version in _pins(name).items():
            versions.setdefault(package, set()).add(version)
    assert {package: found for package, found in versions.items() if len(found) > 1} == {}


def test_what_the_package_needs_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = {
        "base": project["dependencies"],
        "dev": [
            *project["dependencies"],
            *(
                one
                for name in (
                    "uvloop",
                    "metrics",
                    "s3",
                    "obstore",
                    "gcs",
                    "azure",
                    "azure-identity",
                    "kafka",
                    "hdfs",
                )
                for one in extras[name]
            ),
        ],
        "spark": [*extras["spark"], *extras["collections"], *extras["delta"]],
    }
    missing = [
        f"{name}: {requirement}"
        for name, requirements in needed.items()
        for requirement in requirements
        if _normalised(re.split(r"[<>=!~\[; ]", requirement)[0]) not in _pins(name)
    ]
    assert missing == []


def _path(name: str) -> Path:
    return ROOT / "requirements" / f"{name}.txt"


def _pins(name: str) -> dict[str, str]:
    text = _path(name).read_text(encoding="utf-8")
    return {_normalised(match["name"]): match["version"] for match in PIN.finditer(text)}


def _normalised(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()
