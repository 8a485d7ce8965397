"""Verbs that work on Spark on request, and their old names below ``spark``.

Threads stand for a session and its tasks; ``tests/spark/test_command.py`` has real ones.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import siltstone
import siltstone.spark
from siltstone.cli.old_spark_verbs import OLD_NAMES
from siltstone.pipelines.local_executor import LocalExecutor
from tests.support.command import Command, Ran

OPTIONS = ("--master", "local[3]", "--conf", "a=b", "--conf", "c=d=e", "--threads", "2")

LINES: dict[str, tuple[int, list[str]]] = {
    "backup": (0, ["HOME/second", "--container", "0"]),
    "copy": (4, ["HOME/other", "--prefix", "s"]),
    "import": (0, ["new/{name}", "HOME/files", "--seal"]),
    "migrate-legacy": (6, ["HOME/old", "--under", "x/"]),
    "restore": (0, ["HOME/place", "HOME/restored", "--generation", "1"]),
    "verify-backup": (6, ["HOME/damaged", "1", "2"]),
    "verify-migration": (6, ["ORIGINAL/brought"]),
}
"""For each old name: the exit code, and the words after the name."""


@dataclass(slots=True)
class Cluster:
    """Stands for Spark.

    Attributes:
        sessions: the options of each session.
        threads: of each task, for each executor.
        closed: how many executors are closed.
    """

    sessions: list[dict[str, Any]] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    closed: int = 0


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()

    class Tasks(LocalExecutor):
        def __init__(self, session: object, *, threads: int, stops: bool) -> None:
            assert stops
            made.threads.append(threads)
            super().__init__(threads)

        def close(self) -> None:
            made.closed += 1

    monkeypatch.setattr(siltstone.spark, "session", lambda **given: made.sessions.append(given))
    monkeypatch.setattr("siltstone.spark.executor.SparkExecutor", Tasks)
    return made


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store and the input of the verbs; most of it has a fault."""
    home = tmp_path_factory.mktemp("original")
    for name in ("store", "other"):
        siltstone.init(home / name)
    with siltstone.open(home / "other") as store:
        store.create("s1").append(b"no copy")
    for name in ("files", "old", "brought"):
        (home / name).mkdir()
        (home / name / "a$offset.0").write_bytes(b"a" * 7)
        (home / name / "a$header").write_text("maxsize=9&0=a$offset.0&")
    (home / "old" / "b$header").write_text("maxsize=9&0=b$offset.0&")
    with siltstone.open(home / "store") as store:
        for number in range(3):
            store.create(f"s{number}").append(f"{number}".encode() * 1000)
            store.flush()
    return home


@pytest.fixture
def home(original: Path, command: Command, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of the original."""
    store, place = str(original / "store"), original / "place"
    if not place.exists():
        for _ in range(2):
            assert command("backup", "create", str(place), store=store).code == 0
        copytree(place, original / "damaged")
        next((original / "damaged").rglob("*.chunk.*")).write_bytes(b"damaged")
        brought = original / "brought"
        assert command("migrate", "legacy", str(brought), store=store).code == 0
        (brought / "a$offset.0").write_bytes(b"b" * 7)
    return lambda name: copytree(original, tmp_path / name)


@pytest.fixture
def ran(command: Command, home: Callable[[str], Path], original: Path) -> Callable[..., Ran]:
    """Run a line in a new home; its output without what differs between homes."""

    def run(name: str, *words: str) -> Ran:
        place = home(name)
        line = [
            word.replace("HOME", str(place)).replace("ORIGINAL", str(original)) for word in words
        ]
        done = command(*line, store=str(place / "store"))
        out = done.out.replace(str(place), "HOME")
        return Ran(code=done.code, out=re.sub(r'"begun_ms": \d+', "", out), err=done.err)

    return run


def now(old: str) -> list[str]:
    """The words that replace an old name, with the argument that comes before the others."""
    return [*OLD_NAMES[old].split(), *(["HOME/store"] if old == "copy" else [])]


def warning(old: str, where: str) -> str:
    new = OLD_NAMES[old] + (" SOURCE TARGET" if old == "copy" else "")
    return (
        f"siltstone: 'siltstone spark {old}' is the old name of 'siltstone {new} --on {where}', "
        "and goes with the next version\n"
    )


def test_every_old_name_is_tried() -> None:
    assert set(LINES) == set(OLD_NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("old", LINES)
def test_a_verb_does_on_spark_what_it_does_here_and_what_its_old_name_does(
    old: str, ran: Callable[..., Ran], cluster: Cluster
) -> None:
    code, rest = LINES[old]
    here = ran("here", *now(old), *rest, "--json")
    assert cluster == Cluster()
    there = ran("there", *now(old), *rest, "--on", "spark", *OPTIONS, "--json")
    before = ran("before", "spark", old, *rest, *OPTIONS, "--json")
    assert here.code == there.code == before.code == code
    told = [sorted(one.out.splitlines()) for one in (here, there, before)]
    assert told[0] == told[1] == told[2] != []
    assert here.err == there.err
    assert before.err == warning(old, "spark") + there.err
    started = {"master": "local[3]", "settings": {"a": "b", "c": "d=e"}}
    assert [one | started for one in cluster.sessions] == cluster.sessions
    assert (len(cluster.sessions), cluster.threads, cluster.closed) == (2, [2, 2], 2)


@pytest.mark.slow
def test_what_was_done_on_spark_is_not_done_again_here(
    command: Command, folder: Path, tmp_path: Path, cluster: Cluster
) -> None:
    (tmp_path / "files").mkdir()
    for name in ("a", "b"):
        (tmp_path / "files" / name).write_text(name)
    place, other = str(tmp_path / "place"), str(siltstone.init(tmp_path / "other"))
    for line, key, done in (
        (["import", "x/{name}", str(tmp_path / "files")], "repeated", [True, True]),
        (["copy", str(folder), other], "status", ["same", "same"]),
        (["backup", "create", place], "copied_fragments", [0]),
    ):
        assert command(*line, "--on", "spark").code == 0
        assert [value[key] for value in command(*line, "--json").values] == done
    assert len(cluster.sessions) == 3


@pytest.mark.slow
def test_an_old_name_works_on_threads_too(ran: Callable[..., Ran], cluster: Cluster) -> None:
    code, rest = LINES["copy"]
    done = ran("local", "spark", "copy", *rest, "--executor", "local")
    assert done.code == code
    assert done.err.startswith(warning("copy", "local"))
    assert cluster == Cluster()


@pytest.mark.parametrize("option", [("--master", "local[2]"), ("--conf", "a=b")], ids="=".join)
@pytest.mark.parametrize("old", LINES)
def test_options_of_spark_are_refused_without_it(
    old: str, option: tuple[str, str], command: Command, folder: Path, tmp_path: Path
) -> None:
    """They are refused before any work; the named places only have to exist."""
    place = str(tmp_path / "x") if old in {"backup", "restore"} else str(folder)
    line = [word.replace("HOME/store", str(folder)) for word in now(old)]
    line += [place, *([place] if old in {"import", "restore"} else [])]
    done = command(*line, *option)
    assert (done.code, done.out) == (2, "")
    told = "--master and --conf are for {} spark: add it, or leave them out ("
    assert told.format("--on") in done.err
    line = ["spark", old, *line[len(now(old)) :], "--executor", "local"]
    assert told.format("--executor") in command(*line, *option).err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["import", "x", "HOME", "--in-place"], "for copies: leave it out with --in-place"),
        *(
            (["migrate", "legacy", "HOME", "--mode", mode], f"leave it out with {mode}")
            for mode in ("no_upgrade", "code_only", "install_new")
        ),
        (["backup", "list", "HOME"], "No such option"),
    ],
)
def test_what_does_not_work_on_spark_is_refused(
    words: list[str], told: str, command: Command, tmp_path: Path, cluster: Cluster
) -> None:
    done = command(*(word.replace("HOME", str(tmp_path)) for word in words), "--on", "spark")
    assert (done.code, done.out, cluster) == (2, "", Cluster())
    assert told in done.err


@pytest.mark.slow
def test_what_only_plans_starts_no_spark(
    command: Command, original: Path, cluster: Cluster
) -> None:
    old = [str(original / "old"), "--dry-run"]
    for code, line in (
        (0, ["import", "x/{name}", *old, "--on", "spark"]),
        (0, ["spark", "import", "x/{name}", *old]),
        (6, ["migrate", "legacy", *old, "--on", "spark"]),
    ):
        done = command(*line)
        assert (done.code, cluster) == (code, Cluster())
        assert "a$offset.0" in done.out or "refused" in done.out


def test_without_pyspark_the_package_is_named(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] in ("pyspark", "py4j")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [one for one in sys.modules if one.startswith("siltstone.spark")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    place = str(tmp_path / "backups")
    for line, option in ((["backup", "create", place, "--on", "spark"], "--on"),
                         (["spark", "backup", place], "--executor")):  # fmt: skip
        done = command(*line)
        assert (done.code, done.out) == (2, "")
        told = done.err.splitlines()[-1]
        assert "needs a package that is not installed (pyspark)" in told
        assert f"; or {option} local, which needs no Spark (" in told
    assert not Path(place).exists()


def test_old_names_are_in_no_list(command: Command) -> None:
    listed = command("spark", "--help").out.partition("Commands:")[2]
    assert {line.split()[0] for line in listed.splitlines() if line[:3].strip()} == {
        "compact",
        "compact-collection",
        "export",
        "scrub",
        "sums",
        "verify",
        "verify-import",
    }
    for old, new in OLD_NAMES.items():
        for line in (["spark", old, "--help"], ["help", "spark", old]):
            shown = " ".join(command(*line).out.split())
            assert f"The old name of 'siltstone {new}" in shown
            assert "--executor [local|spark]" in shown
