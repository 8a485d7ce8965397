"""The source tree as the architecture tests see it: modules parsed once, and the tracked files."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (ROOT / "siltstone", ROOT / "services")


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One module of a package.

    Attributes:
        path: relative to the root of the repository.
        text: the source.
        tree: the same, parsed.
    """

    path: str
    text: str
    tree: ast.Module


@cache
def modules() -> tuple[Module, ...]:
    """Return every module of the packages, committed or not."""
    found = []
    for path in sorted(path for package in PACKAGES for path in package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(
            Module(path=path.relative_to(ROOT).as_posix(), text=text, tree=ast.parse(text))
        )
    return tuple(found)


@cache
def trees_of_tests() -> dict[str, ast.Module]:
    """Return every module of the tests, parsed, by its path."""
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "tests").rglob("*.py"))
    }


def forget_trees() -> None:
    """Let the parsed modules go: some 600 MB, which a worker would keep to its end."""
    modules.cache_clear()
    trees_of_tests.cache_clear()


@cache
def tracked_files() -> tuple[Path, ...]:
    """Return the files that git keeps and that are still there; skip the test outside a clone."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git clone")
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    paths = (ROOT / name for name in listing.stdout.split("\0") if name)
    return tuple(path for path in paths if path.is_file())


def tracked_lines() -> list[tuple[str, str]]:
    """Return every line of every tracked text file as ``(path:number, line)``."""
    lines: list[tuple[str, str]] = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # not text, so it has no lines
            continue
        name = path.relative_to(ROOT).as_posix()
        lines.extend(
            (f"{name}:{number}", line) for number, line in enumerate(text.splitlines(), start=1)
        )
    return lines
