"""docs/plugins.md names each check of the suite at least once, and no check that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

from siltstone.testing.chunk_checks.subject import ChunkSubject
from siltstone.testing.chunk_storage_contract import ChunkStorageContract

PAGE = Path(__file__).parents[3] / "docs" / "plugins.md"
HEADING = "## The rules and their checks"
ROW = re.compile(r"^\| (?!rule |---)(.+?) \| (.+?) \|$", re.MULTILINE)
CHECKS_MIN = 120


def rows() -> list[tuple[str, list[str]]]:
    """Each rule with its checks."""
    text = PAGE.read_text(encoding="utf-8").partition(HEADING)[2]
    return [(rule, re.findall(r"`(\w+)`", cell)) for rule, cell in ROW.findall(text)]


def checks() -> set[str]:
    """The checks of the suite: methods, not the cases of parametrised ones."""
    return {name.removeprefix("test_") for name in dir(ChunkStorageContract) if "test_" in name[:5]}


def test_every_check_has_a_rule() -> None:
    named = {check for _, found in rows() for check in found}
    assert checks() - named == set()


def test_every_check_that_is_named_is_there() -> None:
    named = {check for _, found in rows() for check in found}
    assert named - checks() == set()


def test_every_rule_has_a_check() -> None:
    assert [rule for rule, found in rows() if not found] == []
    assert len(rows()) > 80


def test_there_are_many_checks() -> None:
    assert len(checks()) >= CHECKS_MIN


def test_no_check_hides_another_one() -> None:
    """Checks of the same name in two classes of the suite would be one check."""
    groups = [kind for kind in ChunkStorageContract.__mro__ if issubclass(kind, ChunkSubject)]
    found = [name for kind in groups for name in vars(kind) if name.startswith("test_")]
    assert len(found) == len(set(found)) == len(checks())


def test_what_may_be_set_is_told() -> None:
    text = PAGE.read_text(encoding="utf-8")
    settable = {name for name in vars(ChunkSubject)["__annotations__"] if not name.startswith("_")}
    assert set(re.findall(r"^\| `(\w+)` \| ", text, re.MULTILINE)) == settable
