from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from siltstone.store.settings.units import about_size
from tests.support.command import Command


def names(command: Command, *arguments: str) -> list[str]:
    return [one["name"] for one in command("ls", *arguments, "--json").values]


@pytest.mark.slow
def test_a_pattern_chooses_names(command: Command) -> None:
    for name in ("a.txt", "ab.txt", "x/a.txt", "x/y/a.txt", "a.log", "a*b"):
        command("create", name)
    assert names(command, "*.txt") == ["a.txt", "ab.txt"]
    assert names(command, "?.txt") == ["a.txt"]
    assert names(command, "**.txt") == ["a.txt", "ab.txt", "x/a.txt", "x/y/a.txt"]
    assert names(command, "x/*/a.txt") == ["x/y/a.txt"]
    assert names(command, "x/") == ["x/a.txt", "x/y/a.txt"]
    assert names(command, "a*b") == ["a*b"]
    assert names(command, "nope*") == []


@pytest.mark.slow
def test_what_begins_with_the_text_itself_is_found_too(command: Command) -> None:
    for name in ("a*b/c", "ab"):
        command("create", name)
    assert names(command, "a*b") == ["a*b/c", "ab"]


@pytest.mark.slow
def test_tables_are_listed_by_a_pattern_too(command: Command) -> None:
    for name in ("t1", "t2", "u/t1"):
        command("table", "create", name)
    assert command("table", "ls", "t?").out == "t1\nt2\n"
    assert command("table", "ls", "**t1").out == "t1\nu/t1\n"
    assert command("table", "ls", "t").out == "t1\nt2\n"


@pytest.mark.slow
def test_a_long_listing_tells_when(command: Command) -> None:
    command("create", "a")
    begun = datetime.now(UTC)
    head, row = command("ls", "-l").out.splitlines()
    assert head.split() == ["NAME", "START", "LENGTH", "FLUSHED", "CREATED", "STATE"]
    found = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", row)
    assert found is not None
    created = datetime.fromisoformat(found[0]).replace(tzinfo=UTC)
    assert abs((begun - created).total_seconds()) < 3600


@pytest.mark.slow
def test_sizes_for_people(command: Command, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("in") / "input"
    file.write_bytes(bytes(1_572_864))
    command("append", "a", str(file), "--create")
    assert command("ls", "-h").out.splitlines()[1].split() == ["a", "0", "1.5MiB", "1.5MiB", "open"]
    assert "1.5MiB" in command("ls", "-lh").out
    assert command("ls", "-h", "--json").values == command("ls", "--json").values
    assert "--human" in command("ls", "--help").out


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (1024, "1.0KiB"),
        (10 * 1024 + 1, "10KiB"),
        (2**30 * 3 // 2, "1.5GiB"),
        (5 * 2**40, "5.0TiB"),
        (2**60, "1048576TiB"),
    ],
)
def test_about_size(size: int, text: str) -> None:
    assert about_size(size) == text
