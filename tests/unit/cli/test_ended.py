"""A verb that a signal ends: what it prints, that its job ends at once, whether it continues.

Injected: an interrupt where a verb looks at the second outcome of its job. Must hold: 130 and one
line; the job has ended although the traceback lives; a verb that says that it continues does so,
and moves less the second time than it would without the first.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any, NoReturn

import pytest

import siltstone
from siltstone.cli.interrupts import GOES_ON, Terminated
from siltstone.cli.main import run
from siltstone.cli.session import Session
from siltstone.core.constants import KIB
from siltstone.migration.files import copy_files
from siltstone.migration.legacy import copy_plan as legacy_plan
from siltstone.migration.legacy import export
from siltstone.migration.source import file_runs
from siltstone.pipelines import copy_plan, import_notes, verify_copy
from siltstone.pipelines import work as packing
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.work import OK, Item, ItemOutcome, Work
from siltstone.store.blocking.segment import Segment
from tests.support.command import Command, Ran

CHUNK = 64 * KIB
COUNT = 6
"""Chunks of a segment, files of a folder."""

ENDED = "siltstone: interrupted"


class Ending:
    """An outcome that comes with an interrupt, whose traceback is kept."""

    def __init__(self, kept: list[BaseException]) -> None:
        self.__dict__["kept"] = kept

    def __getattr__(self, name: str) -> NoReturn:
        self.kept.append(KeyboardInterrupt())
        raise self.kept[-1]


@dataclass
class Watch:
    """What ``LocalExecutor.run`` did."""

    ends_at: int | None = 1
    runs: list[Generator[ItemOutcome]] = field(default_factory=list)
    kept: list[BaseException] = field(default_factory=list)
    done: int = 0


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watched = Watch()
    real = LocalExecutor.run

    def run(self: LocalExecutor, work: Work, packs: Iterable[Sequence[Item]]) -> object:
        made = passed(real(self, work, packs))
        watched.runs.append(made)
        return made

    def passed(outcomes: Generator[ItemOutcome]) -> Generator[ItemOutcome]:
        with closing(outcomes):
            for outcome in outcomes:
                if watched.done == watched.ends_at:
                    yield Ending(watched.kept)  # type: ignore[misc]
                watched.done += outcome.status == OK
                yield outcome

    monkeypatch.setattr(LocalExecutor, "run", run)
    for module, name, value in (
        (packing, "PACK_BYTES_MIN", 1),
        (packing, "PACK_BYTES_MAX", 1),
        (copy_files, "PACK_BYTES", 1),
        (verify_copy, "PACK_BYTES_MAX", CHUNK),
        (import_notes, "NOTE_BYTES", 1),
        (copy_plan, "PART_BYTES", CHUNK),
        (copy_plan, "GROUP_BYTES", 1),
        (legacy_plan, "RUN_BYTES", CHUNK),
        (file_runs, "GROUP_BYTES", 1),
    ):
        monkeypatch.setattr(module, name, value)
    return watched


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of several chunks, and other input of the verbs: copied for each test."""
    home = tmp_path_factory.mktemp("original")
    store, other = made(home / "store"), made(home / "other")
    random = Random(1)
    for name in ("files", "store/chunks/here"):
        (home / name).mkdir()
        for number in range(COUNT):
            (home / name / str(number)).write_bytes(random.randbytes(CHUNK))
    with siltstone.open(store) as opened:
        opened.create("long").append(random.randbytes(COUNT * CHUNK))
        for number in range(2 * COUNT):
            opened.create(f"small/{number}").append(random.randbytes(KIB))
            opened.flush()
    calls: list[tuple[Path, list[str]]] = [
        (store, ["backup", "create", str(home / "place")]),
        (store, ["migrate", "export", str(home / "old"), "--prefix", "long"]),
        (store, ["import", "in", str(home / "files")]),
        (store, ["import", "here", str(store / "chunks" / "here"), "--in-place", "--no-verify"]),
        (other, ["migrate", "legacy", str(home / "old"), "--under", "old/"]),
    ]
    for path, arguments in calls:
        assert run(["--store", str(path), "--quiet", *arguments]) == 0
    text = (store / "siltstone.yaml").read_text().replace("./chunks", "./elsewhere")
    (store / "new.yaml").write_text(text)
    return home


def made(folder: Path) -> Path:
    siltstone.init(folder)
    with (folder / "siltstone.yaml").open("a") as settings:
        settings.write(f"\nsegments:\n  chunk_size: {CHUNK}\n")
    return folder


LOCAL = ["--executor", "local", "--threads", "1"]
ONE = ["--threads", "1"]
FILES = ["--form", "files", "--file-size", "64KiB"]
SMALL = ["--small", "2KiB", "--chunk-size", "4KiB", "--min", "2"]
VERBS: dict[str, tuple[bool, list[str]]] = {
    "import": (True, ["import", "new/{name}", "HOME/files", *ONE]),
    "copy": (True, ["copy", "HOME/store", "HOME/other", "long", *ONE]),
    "backup create": (True, ["backup", "create", "HOME/second", *ONE]),
    "backup verify": (False, ["backup", "verify", "HOME/place", *ONE]),
    "backup restore": (True, ["backup", "restore", "HOME/place", "HOME/restored", *ONE]),
    "migrate legacy": (True, ["migrate", "legacy", "HOME/old", "--under", "new/", *ONE]),
    "migrate verify": (False, ["--store", "HOME/other", "migrate", "verify", "ORIGINAL/old", *ONE]),
    "storage copy": (True, ["storage", "copy", "HOME/store/new.yaml", *ONE]),
    "storage switch": (True, ["storage", "switch", "HOME/store/new.yaml", *ONE]),
    "spark scrub": (False, ["spark", "scrub", *LOCAL]),
    "spark scrub --resume": (True, ["spark", "scrub", "--resume", "HOME/kept", *LOCAL]),
    "spark export": (
        True,
        ["spark", "export", "HOME/out", *FILES, *LOCAL],
    ),
    "spark compact": (
        True,
        ["spark", "compact", *SMALL, *LOCAL],
    ),
    "spark sums": (True, ["spark", "sums", *LOCAL]),
    "spark verify": (False, ["spark", "verify", "HOME/store", *LOCAL]),
    "spark verify-import": (False, ["spark", "verify-import", "in", "HOME/files", *LOCAL]),
}


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_an_interrupt_ends_a_job_at_once_and_says_whether_it_continues(
    verb: str, original: Path, command: Command, tmp_path: Path, watch: Watch
) -> None:
    continues, arguments = VERBS[verb]

    def ran(name: str, ends_at: int | None) -> tuple[Ran, int]:
        home = tmp_path / name
        if not home.exists():
            copytree(original, home)
        watch.ends_at, watch.done = ends_at, 0
        line = [
            part.replace("HOME", str(home)).replace("ORIGINAL", str(original)) for part in arguments
        ]
        return command(*line, store=str(home / "store")), watch.done

    whole, count = ran("twin", None)
    assert (whole.code, count >= 3) == (0, True), whole
    stopped, before = ran("home", 1)
    assert (stopped.code, before) == (130, 1)
    assert stopped.err == (f"{ENDED}; {GOES_ON}\n" if continues else f"{ENDED}\n")
    assert {inspect.getgeneratorstate(one) for one in watch.runs} == {inspect.GEN_CLOSED}
    watch.kept.clear()
    again, after = ran("home", None)
    assert again.code == 0, again
    assert (after < count) is continues


OTHER = ["--store", "HOME/other", "migrate"]
ENDS = {
    "export": (["migrate", "export", "HOME/out", "--prefix", "small/"], (export, "_exported")),
    "rollback": ([*OTHER, "rollback"], (Segment, "delete")),
    "finalise": ([*OTHER, "finalise"], (Segment, "set_attributes")),
}


@pytest.mark.slow
@pytest.mark.parametrize("verb", ENDS)
def test_a_verb_without_a_job_says_that_it_continues(
    verb: str, original: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For rollbacks and ends, the tests of these verbs try every step as the last one."""
    arguments, (owner, name) = ENDS[verb]
    home = Path(copytree(original, tmp_path / "home"))
    if verb == "export":
        count = 2
    else:
        arguments = [*arguments, str(home / "old")]
        bring = ["--store", "HOME/other", "migrate", "legacy", str(home / "old")]
        assert command(*(part.replace("HOME", str(home)) for part in bring)).code == 0
        count = 1
    line = [part.replace("HOME", str(home)) for part in arguments]
    real, calls = getattr(owner, name), 0

    def interrupted(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            raise KeyboardInterrupt
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        ran = command(*line, store=str(home / "store"))
    assert (ran.code, ran.err) == (130, f"{ENDED}; {GOES_ON}\n")
    again = command(*line, store=str(home / "store"))
    assert again.code == 0, again


def test_a_terminated_verb_says_so(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def terminated(*_: object, **__: object) -> NoReturn:
        raise Terminated

    monkeypatch.setattr(Session, "open_reader", terminated)
    ran = command("ls")
    assert (ran.code, ran.err) == (143, "siltstone: terminated\n")
