"""How many bytes a job may move a second: counted by the calls of the limiter, not in time."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

import siltstone
from siltstone.core.constants import KIB
from siltstone.pipelines.scrub import plan_scrub, scrub
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.work import OK, Item, ItemOutcome, Work, share_of
from tests.support.command import Command
from tests.support.memory_folder import folder_in_memory

RATE = 640 * KIB
LOCAL = ("--executor", "local", "--threads", "2")


class Limiter:
    """Lets everything pass at once, and records rates and the bytes that were asked of each."""

    seen: list[tuple[int, list[int]]]

    def __init__(self, environment: object, rate: int, small_wait_s: float = 0.0) -> None:
        self.asked: list[int] = []
        self.seen.append((rate, self.asked))

    def wait_s(self, length: int, longest_s: float = 0.0) -> float:
        self.asked.append(length)
        return 0.0


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[int]]]:
    """The rate of each client, and how many bytes its calls asked for."""
    found: list[tuple[int, list[int]]] = []
    monkeypatch.setattr(Limiter, "seen", found, raising=False)
    monkeypatch.setattr("siltstone.store.store_assembly.Bandwidth", Limiter)
    monkeypatch.setattr("siltstone.migration.source.worker_layout.Bandwidth", Limiter)
    return found


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory: the disk is not tested here."""
    with folder_in_memory(tmp_path) as folder:
        yield folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with two chunks of 300 KiB in all, the default of ``command``."""
    made = siltstone.init(tmp_path / "store").parent
    with siltstone.open(made) as store:
        for name in ("a", "b"):
            store.create(name).append(name.encode() * (150 * KIB))
        store.flush()
    return made


class Four:
    """Opens the work four times at a time, as four tasks would."""

    workers = 4

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        items = [item for pack in packs for item in pack]
        for number in range(4):
            with work.open(4) as step:
                yield from map(step, items[number::4])

    def close(self) -> None:
        pass


def test_openings_share_one_rate(folder: Path, seen: list[tuple[int, list[int]]]) -> None:
    with store_view(folder) as view:
        found = list(scrub(view, Four(), plan_scrub(view.chunk_rows()), rate=RATE))
    assert {outcome.status for outcome in found} == {OK}
    assert [rate for rate, _ in seen] == [RATE // 4] * 4
    assert (share_of(3, 4), share_of(None, 4)) == (1, None)


def moved(seen: list[tuple[int, list[int]]]) -> int:
    return sum(length for _, asked in seen for length in asked)


@pytest.mark.slow
def test_every_verb_asks_for_what_it_moves(
    command: Command, folder: Path, tmp_path: Path, seen: list[tuple[int, list[int]]]
) -> None:
    file = tmp_path / "y"
    file.write_bytes(b"y" * (300 * KIB))
    assert command("import", "y", str(file)).code == 0
    copied = siltstone.init(tmp_path / "copied").parent
    assert command("copy", str(folder), str(copied)).code == 0
    for verb, rates in {
        ("scrub",): {RATE},
        ("export", str(tmp_path / "out"), "--form", "files"): {RATE},
        ("verify", str(tmp_path / "out")): {RATE},
        ("verify", str(copied)): {RATE // 2},
        ("verify-import", "y", str(file)): {RATE // 2},
        ("compact", "--small", "1MiB", "--min", "2"): {RATE},
    }.items():
        seen.clear()
        ran = command("spark", *verb, "--rate", "640KiB", *LOCAL)
        assert ran.code == 0, ran.err
        assert {rate for rate, _ in seen} == rates, verb
        assert moved(seen) >= 300 * KIB, verb
        assert command("spark", *verb, "--rate", "0", *LOCAL).code == 2


@pytest.mark.slow
def test_so_does_every_verb_that_need_not_work_on_spark(
    command: Command, folder: Path, tmp_path: Path, seen: list[tuple[int, list[int]]]
) -> None:
    old, placed = tmp_path / "old", folder / "chunks" / "beside"
    old.mkdir()
    (old / "x$header").write_text("maxsize=307200&0=x$offset.0&")
    (old / "x$offset.0").write_bytes(b"x" * (300 * KIB))
    placed.mkdir()
    for file in (tmp_path / "y", placed / "w"):
        file.write_bytes(b"y" * (300 * KIB))
    place, copied = str(tmp_path / "backups"), siltstone.init(tmp_path / "copied").parent
    for verb, rate in {
        ("backup", "create", place): RATE,
        ("backup", "verify", place): RATE,
        ("backup", "restore", place, str(tmp_path / "restored")): RATE,
        ("copy", str(folder), str(copied)): RATE,
        ("import", "y", str(tmp_path / "y")): RATE,
        ("import", "w", str(placed / "w"), "--in-place"): RATE,
        ("migrate", "legacy", str(old)): RATE,
        ("migrate", "verify", str(old)): RATE // 2,
    }.items():
        seen.clear()
        ran = command(*verb, "--rate", "640KiB")
        assert ran.code == 0, ran.err
        assert {one for one, _ in seen} == {rate}, verb
        assert moved(seen) >= 300 * KIB, verb
        assert command(*verb, "--rate", "0").code == 2
    for unread in (("--no-verify", "--rate", "1MiB"), ("--threads", "2")):
        assert command("import", "v", str(placed / "w"), "--in-place", *unread).code == 2
