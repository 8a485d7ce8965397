"""Code of pages under docs: each block is run, on stores in a folder of the test.

Places of a machine that a page names, such as ``/data``, are in that folder. Blocks for Spark are
run by ``tests/spark``, recipes of docs/operations.md by ``test_recipes``.
"""

from __future__ import annotations

import gc
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import siltstone
from siltstone.cli.main import run
from siltstone.cli.option_text import options_of
from siltstone.core.hooks import BINDINGS_GROUP, TIER1_GROUP, plugin_settings
from siltstone.store.site import site_of
from tests.support.docs.pages import PLACES, blocks, follow, moved


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the test: the working directory, with the places of a machine in it."""
    for place in PLACES:
        (tmp_path / place[1:]).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def owned(folder: Path) -> Iterator[siltstone.Store]:
    siltstone.init(folder)
    with siltstone.open(folder) as store:
        store.create("a").append(b"some bytes\n")
        yield store


@pytest.mark.slow
def test_pauses(here: Path) -> None:
    siltstone.init(here).rename(here / "store.yaml")
    try:
        found = follow(here, "operations.md")
    finally:
        gc.unfreeze()
    with found["store"] as store:
        assert not store.closed


def test_jobs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with owned(here / "data") as store:
        store.flush()
    follow(here, "pipelines.md")
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == {"ok"}


@pytest.mark.slow
def test_backups(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with owned(here / "data" / "store") as store:
        store.flush()
    follow(here, "backup.md")
    assert capsys.readouterr().out == "1 11\n"
    with siltstone.open(here / "data" / "new", read_only=True) as store:
        assert store.segment("a").read(0, 100) == b"some bytes\n"


@pytest.fixture
def logs(here: Path) -> Path:
    """Files of a program, one of them in its own folder."""
    place = here / "var/log/app"
    (place / "web").mkdir(parents=True)
    for name in ("today", "web/today"):
        (place / name).write_text(f"{name}\n")
    return place


def test_plain_files(here: Path, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with owned(here / "weather") as store:
        follow(here, "files.md", store=store)
        assert capsys.readouterr().out == "logs/today 6\nlogs/web/today 10\n"
        assert store.segment("logs/web/today").read(0, 100) == b"web/today\n"


@pytest.fixture
def command(here: Path) -> Callable[..., list[int]]:
    """Runs the commands of one block of a page on the store ``own``; returns the exit codes."""

    def give(page: str, index: int) -> list[int]:
        lines = blocks(page, "sh")[index].splitlines()
        words = [shlex.split(line, comments=True)[1:] for line in lines]
        there = [[moved(word, here) for word in line] for line in words]
        return [run(["--store", str(here / "own"), *line]) for line in there]

    return give


@pytest.mark.slow
def test_plain_files_by_command(here: Path, logs: Path, command: Callable[..., list[int]]) -> None:
    siltstone.init(here / "own")
    for name in ("2013-01.csv", "2013-02.csv"):
        (here / name).write_text(f"{name}\n")
    assert command("files.md", 0) == [0, 0, 0]
    assert (here / "tmp/logs/web/today").read_bytes() == (logs / "web/today").read_bytes()
    with siltstone.open(here / "own", read_only=True) as store:
        assert store.segment("flights/2013").read(0, 100) == b"2013-01.csv\n2013-02.csv\n"


def test_tables(here: Path) -> None:
    with owned(here / "own") as store:
        table = store.create_table("t")
        table.put(b"k", b"old")

        def once(version: int) -> Iterator[siltstone.TableUpdate]:
            table.put(b"k", b"new")
            return islice(table.follow(version), 1)

        given = SimpleNamespace(snapshot=table.snapshot, follow=once)
        found = follow(here, "tables.md", table=given)
        assert found["copy"] == {b"k": b"old"}
        assert found["update"].version == table.version()


@pytest.mark.slow
def test_recovery_and_salvage(here: Path, command: Callable[..., list[int]]) -> None:
    with owned(here / "own") as store:
        store.create("SEGMENT").append(b"x")
        store.create_table("t").update({b"text": b"v", b"\xff": b"\xfe"})
        store.flush()
    look, recover, salvage = range(3)
    assert command("recovery.md", look) == [0, 0, 0]
    (here / "own" / "tier1").rename(here / "lost")
    assert command("recovery.md", recover) == [6, 0]
    assert command("recovery.md", salvage) == [0, 0, 0]
    follow(here, "recovery.md")
    with siltstone.open(here / "new", read_only=True) as store:
        table = {key: found.value for key, found in store.table("t").scan()}
    assert table == {b"text": b"v", b"\xff": b"\xfe"}


def test_a_suite_of_ones_own(here: Path) -> None:
    found = follow(here, "plugins.md")
    assert found["TestMyStorage"].missing == {"seal", "free_space"}
    assert found["KNOWN"][0].is_certain


@pytest.mark.parametrize(
    "page",
    [
        "bindings/azure.md",
        "bindings/gcs.md",
        "bindings/hdfs.md",
        "bindings/s3.md",
        "tier1/kafka.md",
    ],
)
def test_init_writes_the_settings_that_are_shown(page: str) -> None:
    command = blocks(page, "sh")[0].replace("\\\n", " ").splitlines()[-1]
    given: dict[str, list[str]] = {}
    words = iter(shlex.split(command)[3:])
    for option in words:
        given.setdefault(option, []).append(next(words))
    binding, log = given.get("--binding", ["nfs"])[0], given.get("--log", ["file"])[0]
    options = options_of(given.get("--option", []), plugin_settings(BINDINGS_GROUP, binding))
    log_options = options_of(given.get("--log-option", []), plugin_settings(TIER1_GROUP, log))
    site = site_of("unused", binding=binding, options=options, log=log, log_options=log_options)
    written = yaml.safe_load(site.settings_text(bytes(16)))
    shown = yaml.safe_load(blocks(page, "yaml")[0])
    assert shown == {section: written[section] for section in shown}
