"""A message names the culprit, and what to do."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import siltstone
from siltstone.cli.ways_out import WAYS_OUT, way_out
from siltstone.core import errors
from siltstone.core.error_facts import add_facts
from tests.support.command import Command

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        (("cat", "nope"), 3, ("segment=nope", "append --create", "ls lists")),
        (("append", "nope", str(ROOT / "README.md")), 3, ("segment=nope", "append --create")),
        (("create", "a"), 4, ("segment=a", "--exist-ok")),
        (("table", "put", "nope", "k", "v"), 3, ("table=nope", "table create")),
        (("table", "create", "t"), 4, ("table=t", "--exist-ok")),
        (("table", "get", "t", "k"), 3, ("table=t", "key=k")),
    ],
)
def test_what_a_request_misses_is_told(
    command: Command, arguments: tuple[str, ...], code: int, parts: tuple[str, ...]
) -> None:
    command("create", "a")
    command("table", "create", "t")
    ran = command(*arguments)
    assert ran.code == code
    assert [part for part in parts if part not in ran.err] == []
    assert len(ran.err.splitlines()) == 1


@pytest.mark.slow
def test_the_holder_of_a_store_is_told_and_how_to_take_it(command: Command, folder: Path) -> None:
    with siltstone.open(folder):
        ran = command("create", "b")
    assert ran.code == 5
    for part in ("owner=pid=", str(folder / "tier1"), "--takeover", "StoreInUseError in docs/"):
        assert part in ran.err


def test_the_folder_and_the_settings_of_storage_are_told(command: Command, folder: Path) -> None:
    shutil.move(folder / "chunks", folder / "elsewhere")
    ran = command("ls")
    assert ran.code == 2
    for part in (f"path={folder / 'chunks'}", f"settings={folder / 'siltstone.yaml'}"):
        assert part in ran.err
    assert "StoreNotFoundError in docs/errors.md" in ran.err


def test_the_folder_of_another_store_is_told(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    siltstone.init(tmp_path / "other")
    settings = folder / "siltstone.yaml"
    text = settings.read_text(encoding="utf-8").replace("./chunks", str(tmp_path / "other/chunks"))
    settings.write_text(text, encoding="utf-8")
    ran = command("ls")
    assert f"path={tmp_path / 'other' / 'chunks'}" in ran.err
    assert f"settings={settings}" in ran.err


def test_storage_that_is_in_use_is_told(command: Command, folder: Path, tmp_path: Path) -> None:
    ran = command("init", str(tmp_path / "new"), "--option", f"path={folder / 'chunks'}")
    assert ran.code == 4
    assert f"path={folder / 'chunks'}" in ran.err
    assert "choose another folder or prefix" in ran.err


def test_storage_that_refuses_is_told(command: Command, tmp_path: Path) -> None:
    options = ("bucket=archive", "prefix=p", "endpoint=http://127.0.0.1:9", "insecure=true")
    given = [word for option in options for word in ("--option", option)]
    keys = ("--option", "access_key_id=a", "--option", "secret_access_key=hunter2")
    region = ("--option", "region=us-east-1")
    ran = command("init", str(tmp_path / "new"), "--binding", "s3", *given, *keys, *region)
    assert ran.code == 1
    for part in ("bucket=archive", "prefix=p", "endpoint=http://127.0.0.1:9", "docs/errors.md"):
        assert part in ran.err
    assert "hunter2" not in ran.err


def test_facts_are_added_once() -> None:
    error = errors.ChunkUnavailableError("no answer", chunk="a", operation="stat")
    add_facts(error, {"path": "/x", "bucket": ""})
    add_facts(error, {"path": "/y", "prefix": "p"})
    assert str(error) == "no answer chunk=a operation=stat path=/x prefix=p"


def test_a_page_tells_of_each_error_that_is_named() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.SiltstoneError):
            bare = kind.__new__(kind)
            named = re.search(r"(\w+) in docs/errors\.md", way_out(bare))
            assert named is None or f"`{named[1]}`" in page


def test_verbs_that_are_named_are_there() -> None:
    from siltstone.cli.main import siltstone as verbs

    words = {word for _, way in WAYS_OUT for word in re.findall(r"(?:^|; )(\w+)", way)}
    sentences = {"end", "do", "recover", "look", "doctor", "health", "check"}
    assert words - sentences <= set(verbs.commands)
