"""``copy`` and ``migrate legacy`` continue where they were killed, in the session that was open.

Injected: SIGKILL at a note, before the commit and after it. Must hold: no noted byte is copied
again; the end is the same as without the kill; only what the sweep deletes is left.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import siltstone
from siltstone.core.constants import KIB
from tests.support.command import Command

RANGE = 64 * KIB
RANGES = 40

KILLED = f"""
import os, signal, sys
from siltstone.cli.main import run
from siltstone.container.imports.hidden_segments import HiddenSegments
from siltstone.container.imports.sessions import Imports
from siltstone.migration.legacy import copy_plan as legacy_plan
from siltstone.migration.source import file_runs
from siltstone.pipelines import copy_plan, import_notes, work
from siltstone.pipelines.import_sessions import NotedRanges
from siltstone.store.handles.import_writer import ImportWriter

where, count, counted, *arguments = sys.argv[1:]
left = int(count)
copy_plan.PART_BYTES = legacy_plan.RUN_BYTES = {RANGE}
copy_plan.GROUP_BYTES = file_runs.GROUP_BYTES = 1
work.PACK_BYTES_MIN = work.PACK_BYTES_MAX = 1
import_notes.NOTE_BYTES = {4 * RANGE}

write_chunk, add, commit = ImportWriter.write_chunk, NotedRanges.add, Imports.commit

def counting(writer, length, pieces):
    made = write_chunk(writer, length, pieces)
    with open(counted, "a") as file:
        file.write(f"{{length}}\\n")
    return made

def dying():
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

def adding(*given):
    if where == "add":
        dying()
    add(*given)

async def committing(*given):
    if where == "commit":
        dying()
    found = await commit(*given)
    if where == "committed":
        dying()
    return found

fill = HiddenSegments._fill

async def filling(*given):
    await fill(*given)
    if where == "begun":
        dying()

HiddenSegments._fill = filling
ImportWriter.write_chunk, NotedRanges.add, Imports.commit = counting, adding, committing
sys.exit(run(arguments))
"""
"""The command in a process that kills itself; a task moves 64 KiB, and every four are noted."""

NOTED = 28
"""Ranges in notes when the 30th is added."""


def made(folder: Path) -> Path:
    siltstone.init(folder)
    with (folder / "siltstone.yaml").open("a") as settings:
        settings.write("\nsegments:\n  chunk_size: 64KiB\n")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    with siltstone.open(folder, read_only=True) as store:
        return {info.name: store.segment(info.name).read(0, info.length) for info in store.list()}


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["copy", "legacy"])
def test_what_was_noted_is_not_copied_again(verb: str, command: Command, tmp_path: Path) -> None:
    source, target = made(tmp_path / "source"), made(tmp_path / "target")
    names = {"a": Random(1).randbytes(30 * RANGE), "b": Random(2).randbytes(10 * RANGE)}
    with siltstone.open(source) as store:
        for name, data in names.items():
            store.create(name).append(data)
        store.flush()
    old = tmp_path / "old"
    assert command("migrate", "export", str(old), store=str(source)).code == 0
    arguments = {
        "copy": ["copy", str(source), str(target), "--threads", "1"],
        "legacy": ["--store", str(target), "migrate", "legacy", str(old), "--threads", "1"],
    }[verb]

    def copied(where: str, count: int, code: int) -> int:
        counted = tmp_path / f"copied-{where}"
        counted.touch()
        line = [sys.executable, "-c", KILLED, where, str(count), str(counted), *arguments]
        child = subprocess.run(line, capture_output=True, text=True)
        assert child.returncode == code, child.stderr
        return sum(int(length) for length in counted.read_text().split())

    assert copied("add", 30, -signal.SIGKILL) >= 30 * RANGE
    assert not set(content(target).values()) - {b""}
    assert copied("commit", 1, -signal.SIGKILL) == (RANGES - NOTED) * RANGE
    assert not set(content(target).values()) - {b""}
    assert copied("committed", 1, -signal.SIGKILL) == 0
    assert copied("none", 1, 0) == 0
    assert content(target) == names
    with siltstone.open(target) as store:
        assert not [found for found in store.check() if found.severity == "damage"]
        store.collect()
        assert {finding.kind for finding in store.sweep()} <= {"waiting"}
    left = [path for path in (target / "chunks" / "import").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in left) == RANGES * RANGE


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["copy", "legacy", "import"])
def test_a_commit_that_died_with_chunks_of_which_no_note_tells_is_begun_again(
    verb: str, command: Command, tmp_path: Path
) -> None:
    """Killed when both hidden segments have been built."""
    source, target = made(tmp_path / "source"), made(tmp_path / "target")
    names = {"a": Random(1).randbytes((NOTED + 1) * RANGE), "b": Random(2).randbytes(RANGE)}
    with siltstone.open(source) as store:
        for name, data in names.items():
            store.create(name).append(data)
    old, plain = str(tmp_path / "old"), str(tmp_path / "plain")
    for verbs in (["migrate", "export", old], ["export", "{path}", plain]):
        assert command(*verbs, store=str(source)).code == 0
    arguments = {
        "copy": ["copy", str(source), str(target)],
        "legacy": ["--store", str(target), "migrate", "legacy", old],
        "import": ["--store", str(target), "import", "{path}", plain],
    }[verb]
    for where, code in (("begun", -signal.SIGKILL), ("none", 0)):
        line = [sys.executable, "-c", KILLED, where, "2", str(tmp_path / "copied"), *arguments]
        child = subprocess.run(line, capture_output=True)
        assert child.returncode == code, child
        assert content(target) == names or code
    with siltstone.open(target) as store:
        for _ in range(3):
            store.collect()
        assert not [found for found in store.check(deep=True) if found.severity == "damage"]


@pytest.mark.slow
def test_notes_of_other_bytes_are_not_taken(command: Command, tmp_path: Path) -> None:
    """A segment that is deleted and made again has other bytes at the same offsets."""
    source, target = made(tmp_path / "source"), made(tmp_path / "target")
    with siltstone.open(source) as store:
        store.create("a").append(Random(1).randbytes(NOTED * RANGE))
    counted = tmp_path / "copied"
    arguments = [str(counted), "copy", str(source), str(target), "--threads", "1"]
    line = [sys.executable, "-c", KILLED, "commit", "1", *arguments]
    assert subprocess.run(line, capture_output=True).returncode == -signal.SIGKILL
    data = Random(2).randbytes(NOTED * RANGE)
    with siltstone.open(source) as store:
        store.segment("a").delete()
        store.create("a").append(data)
    with siltstone.open(target) as store:
        store.segment("a").delete()
    assert command("copy", str(source), str(target)).code == 0
    assert content(target) == {"a": data}


@pytest.mark.slow
def test_a_file_that_is_another_one_of_the_same_length_is_copied_again(tmp_path: Path) -> None:
    target, old = made(tmp_path / "target"), tmp_path / "old"
    old.mkdir()
    (old / "a$header").write_text("maxsize=9&0=a$offset.0&")
    (old / "a$offset.0").write_bytes(Random(1).randbytes(NOTED * RANGE))

    def ran(where: str) -> int:
        line = [sys.executable, "-c", KILLED, where, "1", str(tmp_path / "copied")]
        line += ["--store", str(target), "migrate", "legacy", str(old), "--threads", "1"]
        return subprocess.run(line, capture_output=True).returncode

    assert ran("commit") == -signal.SIGKILL
    data = Random(2).randbytes(NOTED * RANGE)
    (old / "new").write_bytes(data)
    (old / "new").replace(old / "a$offset.0")
    assert ran("none") == 0
    assert content(target) == {"a": data}


@pytest.mark.slow
def test_a_copy_of_more_than_a_frame_of_a_small_log_comes_as_chunks(
    command: Command, tmp_path: Path
) -> None:
    source, target = made(tmp_path / "source"), made(tmp_path / "target")
    settings = target / "siltstone.yaml"
    text = settings.read_text().replace("path: ./tier1", "path: ./tier1\n    file_bytes: 1MiB")
    settings.write_text(text)
    data = Random(1).randbytes(1024 * KIB - 100)
    with siltstone.open(source) as store:
        store.create("a").append(data)
    assert command("copy", str(source), str(target)).code == 0
    assert content(target) == {"a": data}
