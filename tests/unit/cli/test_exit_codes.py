"""Mistakes of people at a shell: exit code and one line, as one table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import siltstone
from siltstone.cli import main as main_module
from siltstone.cli.error_codes import EXIT_CODES, exit_code
from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.main import run
from siltstone.core import errors
from siltstone.core.records.store_manifest import StoreManifest, encode_store_manifest
from siltstone.objects import errors as object_errors
from tests.support.command import Command

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")

MISTAKES: dict[str, tuple[list[str], int, str]] = {
    "unknown segment": (["cat", "no"], 3, "no such segment"),
    "append to an unknown segment": (["append", "no", "/dev/null"], 3, "no such segment"),
    "unknown table": (["table", "get", "no", "k"], 3, "no such table"),
    "finalise an unknown adoption": (
        ["adoption", "finalise", "no"],
        3,
        "no such adoption adoption=no",
    ),
    "release an unknown adoption": (
        ["adoption", "release", "no"],
        3,
        "no such adoption adoption=no",
    ),
    "existing segment": (["create", "open"], 4, "segment exists"),
    "sealed segment": (["append", "sealed", "INPUT"], 4, "sealed"),
    "source not sealed": (["concat", "sealed{1}", "open{1}"], 4, "sealed"),
    "several containers": (["concat", "{0}", "{2}"], 2, "several containers"),
    "before the start": (["cat", "open", "--offset", "0"], 4, "truncated"),
    "past the end": (["cat", "open", "--offset", "99"], 4, "beyond the end"),
    "truncate past the end": (["truncate", "open", "99"], 4, "beyond the end"),
    "negative offset": (["cat", "open", "--offset", "-1"], 2, "--offset"),
    "no number": (["truncate", "open", "x"], 2, "not a valid integer"),
    "empty name": (["create", ""], 2, "name is empty"),
    "reserved name": (["create", "_system/x"], 2, "reserved"),
    "missing input": (["append", "open", "/nowhere"], 2, "/nowhere"),
    "unknown verb": (["fly"], 2, "No such command"),
    "unknown option": (["ls", "--fly"], 2, "--fly"),
    "missing argument": (["cat"], 2, "Missing argument"),
    "lines and bytes": (["tail", "open", "-n", "1", "--bytes", "1"], 2, "exclude"),
    "used folder": (["init", "STORE"], 4, "there is a store here already"),
    "store of an empty path": (["--store", "", "ls"], 2, "the path is empty"),
    "init of no binding": (["init", "x", "--binding", "no"], 2, "no plugin is called 'no'"),
    "init of no log": (["init", "x", "--log", "no"], 2, "no plugin is called 'no'"),
    "init with an unknown setting": (["init", "x", "--log-option", "fly=1"], 2, "setting 'fly'"),
    "init with a wrong setting": (
        ["init", "x", "--log-option", "file_bytes=1B"],
        2,
        "x/siltstone.yaml line ",
    ),
    "init in an empty path": (["init", ""], 2, "the path is empty"),
    "export to an empty path": (["export", "open", ""], 2, "the path is empty"),
    "place of backups is an empty path": (["backup", "list", ""], 2, "the path is empty"),
    "the page that tells more": (["table", "scan"], 2, "(siltstone table scan --help tells more)"),
    "a name that colours": (["cat", "\x1b[31mred"], 3, "segment=\\x1b[31mred"),
    "too many containers": (["init", "x", "--containers", "9999"], 2, "--containers"),
}


@pytest.mark.slow
def test_each_mistake_is_one_line(command: Command, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "input").write_text("x")
    with siltstone.open(folder) as store:
        for name in ("open", "sealed", "open{1}", "sealed{1}", "{0}", "{2}"):
            store.create(name).append(b"0123456789")
            if "sealed" in name:
                store.segment(name).seal()
        store.segment("open").truncate(4)
    for mistake, (arguments, code, text) in MISTAKES.items():
        places = {"STORE": str(folder), "INPUT": str(tmp_path / "input")}
        ran = command(*(places.get(argument, argument) for argument in arguments))
        assert (ran.code, ran.out) == (code, ""), mistake
        assert re.fullmatch(rf"siltstone: [^\n]*{re.escape(text)}[^\n]*\n", ran.err), mistake


@pytest.mark.parametrize(
    ("text", "reason"),
    [("a: [", "not valid YAML"), ("", "is missing"), ("flush: {x: 1}", "flush.x: unknown key")],
)
def test_damaged_settings(command: Command, folder: Path, text: str, reason: str) -> None:
    file = folder / "siltstone.yaml"
    file.write_text((file.read_text() if text.startswith("flush") else "") + text)
    ran = command("ls")
    assert ran.code == 2
    assert reason in ran.err
    assert ran.err.count("\n") == 1


def test_a_store_of_a_newer_format(command: Command, folder: Path) -> None:
    manifest = StoreManifest(store_id=bytes(16), container_count=1, created_ms=0, format_number=99)
    path = folder / "chunks" / "system" / "store"
    path.chmod(0o600)
    path.write_bytes(encode_store_manifest(manifest))
    ran = command("ls")
    assert ran.code == 2
    assert "found=99 known=1" in ran.err


def test_a_damaged_store_object(command: Command, folder: Path) -> None:
    path = folder / "chunks" / "system" / "store"
    path.chmod(0o600)
    path.write_bytes(b"garbage of some length, which is no record")
    assert command("ls").code == 6


@pytest.mark.slow
def test_a_traceback_is_shown_only_when_asked_for(command: Command) -> None:
    assert "Traceback" not in command("cat", "no").err
    assert "Traceback" in command("--verbose", "cat", "no").err


def test_a_mistake_of_ours_is_shown_in_full(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise AssertionError("a promise of ours was broken")

    monkeypatch.setattr(main_module.siltstone, "main", broken)
    assert run(["ls"]) == 1
    assert "Traceback" in capfd.readouterr().err


def test_help_is_there_for_everything(capfd: pytest.CaptureFixture[str]) -> None:
    for verb in _verbs(main_module.siltstone):
        assert run([*verb.split(), "--help"]) == 0
        assert "--json" in capfd.readouterr().out
    for group, verbs in _groups(main_module.siltstone):
        assert run([*group, "--help"]) == 0
        shown = " ".join(capfd.readouterr().out.split())
        for each in verbs.commands.values():
            assert each.get_short_help_str(limit=1_000) in shown
        assert "..." not in shown.partition("Commands:")[2]
    assert run([]) == 2
    assert "Usage" in capfd.readouterr().err


def test_every_error_has_a_code() -> None:
    for name in dir(errors):
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, errors.SiltstoneError):
            assert any(issubclass(kind, known) for known, _ in EXIT_CODES)


def test_each_error_of_keyspaces_has_a_code_that_says_more_than_failed() -> None:
    kinds = [each for each in vars(object_errors).values() if isinstance(each, type)]
    plain = [
        each.__name__
        for each in kinds
        if issubclass(each, object_errors.ObjectError) and exit_code(each("x")) is ExitCode.FAILED
    ]
    assert plain == ["ObjectError"]  # the base, which nothing raises


def test_a_narrower_class_stands_before_a_wider_one() -> None:
    for index, (kind, _) in enumerate(EXIT_CODES):
        hidden = [
            later.__name__
            for later, code in EXIT_CODES[index + 1 :]
            if issubclass(later, kind) and code is not EXIT_CODES[index][1]
        ]
        assert hidden == []


def test_a_stream_that_failed_has_the_code_of_its_cause() -> None:
    error = siltstone.PartialAppendError(
        segment="a", progress=siltstone.StreamProgress(), cause=ValueError()
    )
    error.__cause__ = errors.FencedError("x")
    assert exit_code(error) is ExitCode.NOT_OWNER


def test_the_page_names_every_verb() -> None:
    named = set(re.findall(r"(?m)^\| `([a-z]+(?: [a-z-]+)?)\b(?! \|)[^`]*` \| [^\d]", PAGE))
    assert named == _verbs(main_module.siltstone)


def test_the_page_names_every_code() -> None:
    rows = dict(re.findall(r"(?m)^\| `(\w+Error)` \| (\d) \|", PAGE))
    assert rows == {kind.__name__: str(int(code)) for kind, code in EXIT_CODES}
    codes = {int(code) for code in re.findall(r"(?m)^\| (\d+) \| ", PAGE)}
    assert codes == {int(code) for code in ExitCode}


def _groups(group: click.Group, *above: str) -> Iterator[tuple[tuple[str, ...], click.Group]]:
    yield above, group
    for name, verb in group.commands.items():
        if isinstance(verb, click.Group):
            yield from _groups(verb, *above, name)


def _verbs(group: click.Group) -> set[str]:
    found: set[str] = set()
    for name, verb in group.commands.items():
        if isinstance(verb, click.Group):
            found |= {f"{name} {inner}" for inner in verb.commands}
        else:
            found.add(name)
    return found
