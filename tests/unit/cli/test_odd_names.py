"""Names that are not UTF-8, and names that are missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from siltstone.cli.main import run
from siltstone.cli.session import STORE_VARIABLE
from tests.support.command import Command
from tests.unit.cli.conftest import COMMAND

ODD = os.fsdecode(b"odd\xff")


@pytest.mark.slow
def test_json_is_utf_8_whatever_files_are_called(folder: Path, tmp_path: Path) -> None:
    (tmp_path / ODD).write_bytes(b"x")
    line = [*COMMAND, "--store", str(folder), "import", "a", str(tmp_path / ODD)]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    ran = subprocess.run([*line, "--dry-run", "--json"], capture_output=True, env=environment)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"odd\\udcff" in ran.stdout
    assert subprocess.run(line, capture_output=True, env=environment).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ls", ODD), "siltstone: not valid UTF-8: 'odd\\udcff'\n"),
        (("create", ODD), "siltstone: name is not valid unicode segment='odd\\udcff'\n"),
        (("init", ODD), "long_term_storage.nfs.path: not valid UTF-8\n"),
    ],
)
def test_what_must_be_text_is_told(
    arguments: tuple[str, ...],
    said: str,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = command(*arguments)
    assert ran.code == 2
    assert ran.err.endswith(said)
    assert ran.err.count("\n") == 1


def test_a_user_who_names_no_store_is_told_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    assert run(["ls"]) == 2
    told = "which store? give --store or $SILTSTONE_STORE; there is no ./siltstone.yaml"
    assert capfd.readouterr().err == f"siltstone: {told} (StoreNotFoundError in docs/errors.md)\n"
