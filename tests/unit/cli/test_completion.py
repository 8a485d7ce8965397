"""What a shell completes: asked by bash itself, and the answers for other shells."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pyarrow
import pytest

import siltstone
from siltstone import objects
from siltstone.cli.main import run
from siltstone.cli.main import siltstone as root
from siltstone.cli.named_values import SEGMENT, named_type
from siltstone.cli.session import COMPLETE_VARIABLE
from siltstone.cli.typed_words import Typed, quoted, typed
from tests.unit.cli.conftest import COMMAND

BREAKS = " \t\n\"'><=;|&(:"
ODD = "logs/a:b c'd$e*"

Answers = Callable[..., list[str]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = siltstone.init(tmp_path_factory.mktemp("completion") / "store").parent
    with siltstone.open(folder) as store:
        for name in ("{x}data/one", "{x}data/two", "other", "two\nlines", ODD):
            store.create(name).append(name.encode())
        for name in ("users", "uses"):
            store.create_table(name)
        objects.create(store, "phones")
        photos = objects.create(store, "photos")
        for bucket in ("2026", "2027", "1999"):
            photos.put(bucket, "k", b"")
    with siltstone.open_collections(folder) as collections:
        schema = pyarrow.schema([("n", pyarrow.int64())])
        for name in ("gusts", "guests"):
            collections.create(name, schema, key=["n"])
        gusts = collections.collection("gusts")
        gusts.bookmark("billing")
        gusts.writer("loader").append([], sequence=0)
    return folder


@pytest.fixture
def answers(
    filled: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Answers:
    """Ask as zsh does: the last word is to be completed."""

    def ask(*words: str) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setenv(COMPLETE_VARIABLE, "zsh_complete")
            patch.setenv("SILTSTONE_STORE", str(filled))
            patch.setenv("COMP_WORDS", " ".join(["siltstone", *words]))
            patch.setenv("COMP_CWORD", str(len(words)))
            assert run([]) == 0
        out, err = capfd.readouterr()
        assert err == ""
        lines = out.splitlines()
        return [f"{kind} {value}" for kind, value in zip(lines[::3], lines[1::3], strict=True)]

    return ask


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ta"], ["plain table", "plain tail"]),
        (["table", "pu"], ["plain put"]),
        (["help", "table", "pu"], ["plain put"]),
        (["cat", "{x}"], ["plain {x}data/one", "plain {x}data/two"]),
        (["cat", "two"], []),
        (["rm", "{x}data/one", "{x}"], ["plain {x}data/two"]),
        (["concat", "ot"], ["plain other"]),
        (["concat", "other", "{x}data/o"], ["plain {x}data/one"]),
        (["retention", "set", "ot"], ["plain other"]),
        (["ls", "ot"], ["plain other"]),
        (["collection", "st"], ["plain stat"]),
        (["collection", "read", "gu"], ["plain guests", "plain gusts"]),
        (["collection", "check", "gusts", "g"], ["plain guests"]),
        (["collection", "ls", "gus"], ["plain gusts"]),
        (["collection", "create", "g"], []),
        (["collection", "rename", "gusts", "g"], []),
        (["collection", "bookmark", "rm", "gusts", "b"], ["plain billing"]),
        (["collection", "writer", "rm", "gusts", "l"], ["plain loader"]),
        (["collection", "append", "gusts", "fi"], ["file fi"]),
        (["objects", "ge"], ["plain get"]),
        (["objects", "get", "ph"], ["plain phones", "plain photos"]),
        (["objects", "get", "photos", "20"], ["plain 2026", "plain 2027"]),
        (["objects", "check", "photos", "ph"], ["plain phones"]),
        (["objects", "ls", "pho"], ["plain phones", "plain photos"]),
        (["objects", "create", "ph"], []),
        (["objects", "put", "photos", "2026", "k", "fi"], ["file fi"]),
        (["table", "get", "us"], ["plain users", "plain uses"]),
        (["table", "ls", "use"], ["plain users", "plain uses"]),
        (["init", "new", "--binding", "n"], ["plain nfs"]),
        (["init", "new", "--log", "ka"], ["plain kafka"]),
        (["create", "o"], []),
        (["append", "other", "fi"], ["file fi"]),
        (["import", "new", "fi"], ["file fi"]),
        (["migrate", "legacy", "fo"], ["dir fo"]),
        (["--store", "pa"], ["file pa"]),
        (["completion", "ba"], ["plain bash"]),
        (["cat", "--off"], ["plain --offset"]),
        (["copy", "--on", ""], ["plain local", "plain spark"]),
        (["spark", "ver"], ["plain verify", "plain verify-import"]),
        (["spark", "ba"], []),
        (["spark", "restore", "--gen"], ["plain --generation"]),
        (["spark", "copy", "other", "{x}data/o"], ["plain {x}data/one"]),
    ],
)
def test_words_are_completed(answers: Answers, words: list[str], expected: list[str]) -> None:
    assert sorted(answers(*words)) == expected


def test_names_come_from_the_store_that_the_line_names(
    answers: Answers, filled: Path, tmp_path: Path
) -> None:
    other = siltstone.init(tmp_path / "new").parent
    with siltstone.open(other) as store:
        store.create("of the other")
    assert answers("--store", str(other), "cat", "o") == ["plain of the other"]
    assert answers("cat", "--store", str(other), "o") == ["plain of the other"]
    assert answers("copy", str(other), str(filled), "o") == ["plain of the other"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_without_a_store_there_is_no_answer_and_no_word(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in (
        (COMPLETE_VARIABLE, f"{shell}_complete"),
        ("COMP_TYPED", "siltstone cat "),
        ("COMP_BREAKS", BREAKS),
        ("COMP_WORDS", "siltstone cat "),
        ("COMP_CWORD", "" if shell == "fish" else "2"),
    ):
        monkeypatch.setenv(name, value)
    assert run([]) == 1
    assert capfd.readouterr() == ("", "")


def test_every_parameter_that_names_a_segment_is_completed() -> None:
    def missed(group: click.Group, path: str = "") -> list[str]:
        found = []
        for name, command in group.commands.items():
            verb = f"{path} {name}".strip()
            if isinstance(command, click.Group):
                found += missed(command, verb)
            else:
                found += [
                    f"{verb} {parameter.name}"
                    for parameter in command.params
                    if parameter.name in ("segment", "segments") and parameter.type is not SEGMENT
                ]
        return found

    assert missed(root) == ["create segment", "import segment"]
    assert named_type("cat", "offset") is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("siltstone", Typed(["siltstone"], "", "")),
        ("siltstone ", Typed(["siltstone", ""], "", "")),
        ("s cat a\\ b", Typed(["s", "cat", "a b"], "", "")),
        ("s cat x/a:b:c", Typed(["s", "cat", "x/a:b:c"], "x/a:b:", "")),
        ("s cat x/a\\:b", Typed(["s", "cat", "x/a:b"], "", "")),
        ("s cat 'a:b c", Typed(["s", "cat", "a:b c"], "", "'")),
        ('s cat x:"a \\"b\\c', Typed(["s", "cat", 'x:a "b\\c'], "x:", '"')),
        ("s cat 'a:'b", Typed(["s", "cat", "a:b"], "", "")),
        ("s cat '' --store=/a", Typed(["s", "cat", "", "--store=/a"], "--store=", "")),
    ],
)
def test_a_line_of_bash_is_read_up_to_the_cursor(line: str, expected: Typed) -> None:
    assert typed(line, BREAKS) == expected


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_bash_takes_what_was_quoted_for_it_literally(quote: str) -> None:
    assert shutil.which("bash")
    odd = "".join(chr(code) for code in range(32, 127)).replace("!", "") + "ü日"
    line = f"printf %s {quote}{quoted(odd, quote)}{quote}"
    ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert ran.stdout == odd


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    "begun", ["cat logs/a:b", "cat logs/a:b\\ c", 'cat "lo', "cat 'logs/a:b c"]
)
def test_tab_in_bash_completes_a_name_that_needs_quotes(
    begun: str, filled: Path, tmp_path: Path
) -> None:
    """The completed command is run at once: the segment holds its own name."""
    program = tmp_path / "bin" / "siltstone"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    start = tmp_path / "start"
    start.write_text("PS1=; source <(siltstone completion bash); bind 'set bell-style none'\n")
    environment = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "dumb",
        "SILTSTONE_STORE": str(filled),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    leader, follower = pty.openpty()
    with subprocess.Popen(
        ["bash", "--noprofile", "--rcfile", str(start), "-i"],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=follower,
        env=environment,
        start_new_session=True,
    ) as running:
        os.close(follower)
        os.write(leader, f"siltstone {begun}\t\nexit\n".encode())
        assert running.stdout is not None
        found = running.stdout.read()
        running.wait(120)
    os.close(leader)
    assert found == ODD.encode()
