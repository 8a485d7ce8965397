"""Programs are fetched once, appear when they are complete, and are kept apart by pin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from services.cache import cache_folder, install, program_folder
from services.go_program import GoProgram
from services.unavailable import UnavailableError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SILTSTONE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_cache_is_where_the_variable_says(cache: Path) -> None:
    assert cache_folder() == cache


def test_the_cache_is_the_users_own_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SILTSTONE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "siltstone"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "siltstone"


def test_a_program_is_made_once() -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "program").write_bytes(b"x")

    for _ in range(2):
        assert (install("name", "v1", make) / "program").read_bytes() == b"x"
    assert len(made) == 1


def test_another_pin_is_another_program() -> None:
    install("name", "v1", lambda folder: (folder / "one").touch())
    install("name", "v2", lambda folder: (folder / "two").touch())
    assert (program_folder("name", "v1") / "one").exists()
    assert (program_folder("name", "v2") / "two").exists()


def test_what_failed_leaves_nothing_and_can_be_tried_again() -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise UnavailableError("no network")

    with pytest.raises(UnavailableError, match="no network"):
        install("name", "v1", fail)
    assert not program_folder("name", "v1").exists()
    folder = install("name", "v1", lambda folder: (folder / "whole").touch())
    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_what_a_killed_process_left_is_removed() -> None:
    left = program_folder("name", "v1").parent / ".name-v1.left"
    left.mkdir(parents=True)
    install("name", "v1", lambda folder: None)
    assert not left.exists()


FETCHING = """
import os, sys
from pathlib import Path
from services.cache import install
def make(folder):
    with open(sys.argv[1], "a") as file:
        file.write("made\\n")
    for _ in range(200):
        os.sched_yield()
    (folder / "program").touch()
assert (install("name", "v1", make) / "program").exists()
"""


@pytest.mark.slow
def test_of_several_processes_one_makes_it(tmp_path: Path) -> None:
    told = tmp_path / "told"
    running = [
        subprocess.Popen([sys.executable, "-c", FETCHING, told], cwd=Path(__file__).parents[3])
        for _ in range(4)
    ]
    assert [process.wait(60) for process in running] == [0] * 4
    assert told.read_text() == "made\n"


def test_without_go_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    program = GoProgram(name="p", package="example.com/p", pin="v1")
    assert program.installed() is None
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnavailableError, match="no go on PATH"):
        program.fetch()


def test_a_build_that_fails_tells_what_go_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho no such module $2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match=r"no such module example\.com/p@v1"):
        GoProgram(name="p", package="example.com/p", pin="v1").fetch()
