"""Programs of npm: how they are installed, what may be missing, and what the locks hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.azurite import PROGRAM
from services.cache import program_folder
from services.npm_program import LOCKS, NpmProgram
from services.unavailable import UnavailableError

NPM = """#!/bin/sh
echo "$@" > asked
cp package.json package-lock.json "$SEEN"
mkdir -p node_modules/azurite/dist/src/blob downloads
echo > node_modules/azurite/dist/src/blob/main.js
"""
FAILING = """#!/bin/sh
echo no such package
exit 3
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("SILTSTONE_CACHE", str(cache))
    return cache


def provide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """Make a ``PATH`` with these programs and none of Node."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cp", "mkdir", "env"):
        (folder / name).symlink_to(f"/bin/{name}")
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.usefixtures("cache")
def test_it_is_installed_from_the_lock_and_runs_no_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    monkeypatch.setenv("SEEN", str(seen))
    provide(tmp_path, monkeypatch, node="#!/bin/sh\n", npm=NPM)
    assert PROGRAM.installed() is None
    path = PROGRAM.fetch()
    assert PROGRAM.installed() == path
    assert path.parts[-6:] == ("node_modules", "azurite", "dist", "src", "blob", "main.js")
    folder = path.parents[5]
    assert (folder / "asked").read_text().startswith("ci --ignore-scripts --omit=dev")
    assert not (folder / "downloads").exists()
    assert (seen / "package-lock.json").read_bytes() == (LOCKS / "azurite.json").read_bytes()
    asked = json.loads((seen / "package.json").read_text())
    assert asked["dependencies"] == {"azurite": PROGRAM.pin}
    assert PROGRAM.fetch() == path


@pytest.mark.usefixtures("cache")
def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provide(tmp_path, monkeypatch, node="#!/bin/sh\n")
    with pytest.raises(UnavailableError, match="runs on Node, and there is no npm"):
        PROGRAM.fetch()


def test_an_installation_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    provide(tmp_path, monkeypatch, node="#!/bin/sh\n", npm=FAILING)
    with pytest.raises(UnavailableError, match=r"(?s)installing azurite failed.*no such package"):
        PROGRAM.fetch()
    assert PROGRAM.installed() is None
    kept = [path.name for path in cache.rglob("*") if path.is_dir()]
    assert [name for name in kept if "azurite" in name] == []


def test_what_was_fetched_is_of_no_use_without_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    program = NpmProgram(name="p", pin="1", script="main.js")
    provide(tmp_path, monkeypatch)
    main = program_folder("p", "1") / "node_modules" / "p" / "main.js"
    main.parent.mkdir(parents=True)
    main.touch()
    assert main.is_relative_to(cache)
    assert program.installed() is None


def test_a_lock_names_every_package_by_its_content_and_no_place() -> None:
    packages = json.loads((LOCKS / "azurite.json").read_text())["packages"]
    assert packages["node_modules/azurite"]["version"] == PROGRAM.pin
    del packages[""]
    assert [name for name, one in packages.items() if not one.get("integrity")] == []
    assert [name for name, one in packages.items() if "resolved" in one] == []
