"""A program that a person has to install is named, and nothing is fetched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.installed_program import InstalledProgram
from services.unavailable import UnavailableError


def program(
    *commands: str, files: tuple[str, ...] = (), probe: tuple[str, ...] = ("true",)
) -> InstalledProgram:
    return InstalledProgram(
        name="some", commands=commands, files=files, packages=("p", "q"), probe=probe
    )


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("as_root")
def test_what_is_there_is_found() -> None:
    found = program("sh", "ls", files=("/proc",)).fetch()
    assert found.name == "sh"
    assert found.is_file()


@pytest.mark.usefixtures("as_root")
def test_what_is_missing_is_named_with_its_packages(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    with pytest.raises(UnavailableError, match=f"no-such-command, {gone} .*install p q"):
        program("sh", "no-such-command", files=(gone,)).installed()


@pytest.mark.usefixtures("as_root")
def test_what_is_forbidden_here_is_told() -> None:
    with pytest.raises(UnavailableError, match="it is forbidden"):
        program("sh", probe=("sh", "-c", "echo it is forbidden; exit 1")).installed()


def test_others_than_root_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UnavailableError, match="root"):
        program("sh").fetch()
