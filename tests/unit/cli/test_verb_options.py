from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from siltstone.cli.log_output import log_levels
from siltstone.cli.main import run, siltstone
from tests.support.command import Command

COMMON = {"--json", "--store", "-q", "--quiet", "-v", "--verbose"}


def lacking(command: click.Command, name: str) -> Iterator[str]:
    """Name the verbs at and below ``command`` that do not know all common options."""
    known = {option for parameter in command.params for option in parameter.opts}
    if not known >= COMMON:
        yield name
    if isinstance(command, click.Group):
        for verb_name, verb in command.commands.items():
            yield from lacking(verb, f"{name} {verb_name}")


def test_every_verb_knows_the_common_options() -> None:
    assert list(lacking(siltstone, "siltstone")) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("--json", "table", "ls"),
        ("table", "--json", "ls"),
        ("table", "ls", "--json"),
        ("--json", "table", "ls", "--json"),
    ],
)
def test_json_may_stand_anywhere(command: Command, arguments: tuple[str, ...]) -> None:
    command("table", "create", "t")
    assert command(*arguments).values == [{"table": "t"}]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("-q", "check"), ("check", "--quiet"), ("--quiet", "check", "-q")]
)
def test_quiet_may_stand_anywhere(command: Command, arguments: tuple[str, ...]) -> None:
    assert command("check").err
    ran = command(*arguments)
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("-v", "table", "get", "t", "k"),
        ("table", "-v", "get", "t", "k"),
        ("table", "get", "t", "k", "-v"),
    ],
)
def test_verbose_may_stand_anywhere(command: Command, arguments: tuple[str, ...]) -> None:
    plain = command("table", "get", "t", "k")
    assert (plain.code, len(plain.err.splitlines())) == (3, 1)
    ran = command(*arguments)
    assert ran.code == 3
    assert "Traceback (most recent call last)" in ran.err
    assert "INFO siltstone." in ran.err
    assert ran.err.splitlines()[-1] == plain.err.strip()


def test_text_that_is_no_option_is_no_option(command: Command) -> None:
    ran = command("cat", "--", "-v")
    assert ran.code == 3
    assert ran.err.startswith("siltstone: no such segment segment=-v ")
    assert ran.err.count("\n") == 1


@pytest.mark.slow
def test_the_store_may_come_after_the_verb(
    folder: Path, command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    command("create", "a")
    assert run(["ls", "--store", str(folder), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["name"] == "a"
    assert run(["--store", "/nope", "ls", "--store", str(folder)]) == 0


@pytest.mark.slow
def test_twice_verbose_shows_each_call_and_then_the_log_is_off(command: Command) -> None:
    assert "stat chunk=system/store" in command("-vv", "ls").err
    assert "stat chunk=system/store" in command("-v", "ls", "-v").err
    lines = [line for line in command("ls", "-vv", "-vv").err.splitlines() if "opens the" in line]
    assert len(lines) == 1
    assert "chunk=system/store" not in command("-v", "ls").err
    assert command("ls").err == ""
    assert logging.getLogger("siltstone").handlers == []
    assert logging.getLogger("siltstone").level == logging.NOTSET


@pytest.mark.slow
def test_a_variable_asks_for_the_log(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILTSTONE_LOG", "debug")
    ran = command("cat", "nope")
    assert "stat chunk=system/store" in ran.err
    assert "Traceback" not in ran.err
    monkeypatch.setenv("SILTSTONE_LOG", "siltstone.cli=INFO")
    assert "opens the store" in command("ls").err
    assert "chunk=" not in command("ls").err
    monkeypatch.setenv("SILTSTONE_LOG", "loud")
    ran = command("ls")
    assert ran.code == 2
    assert "$SILTSTONE_LOG is a level (debug, info, warning, error)" in ran.err


@pytest.mark.parametrize(
    ("verbosity", "wanted", "levels"),
    [
        (0, None, {}),
        (0, "", {}),
        (1, None, {"siltstone": logging.INFO}),
        (3, None, {"siltstone": logging.DEBUG}),
        (0, "Warning", {"siltstone": logging.WARNING}),
        (2, "error", {"siltstone": logging.ERROR}),
        (1, "urllib3=debug", {"siltstone": logging.INFO, "urllib3": logging.DEBUG}),
        (0, "info, a.b = error", {"siltstone": logging.INFO, "a.b": logging.ERROR}),
    ],
)
def test_levels_of_the_log(verbosity: int, wanted: str | None, levels: dict[str, int]) -> None:
    assert log_levels(verbosity, wanted) == levels


@pytest.mark.parametrize("wanted", ["loud", "=info", "a=", "a=b=c", "1"])
def test_no_other_level_is_taken(wanted: str) -> None:
    with pytest.raises(click.UsageError, match="SILTSTONE_LOG is a level"):
        log_levels(0, wanted)


def test_help_of_a_verb(command: Command) -> None:
    assert command("help").out == command("--help").out
    assert command("help", "ls").out == command("ls", "--help").out
    assert command("help", "table", "put").out == command("table", "put", "--help").out
    assert command("help", "ls", "--json").values == [
        {"verb": "siltstone ls", "help": command("ls", "--help").out.removesuffix("\n")}
    ]
    ran = command("help", "tabel")
    assert (ran.code, ran.out) == (2, "")
    assert "No such command 'tabel'" in ran.err
    assert command("help", "ls", "x").code == 2
