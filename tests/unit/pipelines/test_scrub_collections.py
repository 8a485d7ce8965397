"""A scrub reads all that collections name; what is damaged is named, what was replaced is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import pyarrow
import pytest

import siltstone
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.pipelines import work as pipeline_work
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.scrub_collections import scrub_collections
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.whole_objects import ObjectItem
from siltstone.pipelines.work import Item, ItemOutcome, Work
from tests.support.collections.stored_objects import objects, paths
from tests.support.stores import flip

pytestmark = pytest.mark.slow

SCHEMA = pyarrow.schema([("n", pyarrow.int64())])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with two collections: three parts, inline rows, and a rollup above the first one."""
    settings = siltstone.init(tmp_path / "store")
    siltstone.open(settings).close()
    with settings.open("a", encoding="utf-8") as file:
        file.write("\ngarbage:\n  delay: 0s\ncollections:\n  compaction: off\n")
    with siltstone.open_collections(settings) as collections:
        for name, parts in (("a", 2), ("b", 1)):
            made = collections.create(name, SCHEMA, key=["n"], times="count")
            for number in range(parts):
                made.append(pyarrow.table({"n": range(number, number + 5_000)}))
            for number in range(70):
                made.append([{"n": number}])
            collections.settle()
    return tmp_path / "store"


def scrubbed(store: Path, **choices: object) -> list[ItemOutcome]:
    with store_view(store) as view, closing(LocalExecutor(threads=2)) as executor:
        return list(scrub_collections(view, executor, **choices))  # type: ignore[arg-type]


def wrong(store: Path) -> dict[str, str]:
    """Status of each outcome that is not ``ok``."""
    return {one.subject: one.status for one in scrubbed(store) if one.status != "ok"}


def key_of(store: Path, path: Path) -> str:
    return path.relative_to(store / "chunks").as_posix()


def test_a_sound_store_has_an_outcome_for_each_object_of_rows(store: Path) -> None:
    outcomes = scrubbed(store)
    assert {one.status for one in outcomes} == {"ok"}
    parts = {name: len(data) for name, data in objects(store).items() if "/parts/" in name}
    read = {one.subject: one.length for one in outcomes if one.subject != "collections/"}
    assert read == parts
    assert len(parts) == 3
    assert outcomes[-1].subject == "collections/"


def test_a_store_without_collections_has_no_outcome(tmp_path: Path) -> None:
    siltstone.open(siltstone.init(tmp_path / "store")).close()
    assert scrubbed(tmp_path / "store") == []


@pytest.mark.parametrize(
    ("harm", "status"),
    [
        (lambda path: flip(path, 1_000), "damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "short"),
        (lambda path: path.unlink(), "missing"),
    ],
)
def test_a_harmed_object_of_rows_is_named_once(
    store: Path, harm: Callable[[Path], object], status: str
) -> None:
    part = paths(store, "parts")[0]
    harm(part)
    found = [(one.subject, one.status) for one in scrubbed(store) if one.status != "ok"]
    assert found == [(key_of(store, part), status)]


@pytest.mark.parametrize("kind", ["entries", "rollups"])
def test_harmed_entries_and_rollups_are_named(store: Path, kind: str) -> None:
    with siltstone.open_collections(store) as collections:
        one = collections.collection("a").info().id
    harmed = paths(store, kind, one)[-1]
    flip(harmed, 60)
    assert set(wrong(store).values()) == {"damaged"}
    harmed.unlink()
    assert wrong(store)


def test_what_an_earlier_run_has_read_is_not_read_again(store: Path) -> None:
    done = {one.subject: one.length for one in scrubbed(store)}
    first = paths(store, "parts")[0]
    flip(first, 1_000)
    assert [one.subject for one in scrubbed(store, done=done)] == ["collections/"]
    del done[key_of(store, first)]
    found = [one for one in scrubbed(store, done=done) if one.status != "ok"]
    assert [one.subject for one in found] == [key_of(store, first)]


def test_a_part_that_was_replaced_while_it_was_read_is_gone(store: Path) -> None:
    """A compaction replaces it, and it is collected, after the plan and before the read."""

    class Compacting(LocalExecutor):
        def run(self, work: object, packs: object) -> Generator[ItemOutcome]:
            with siltstone.open_collections(store) as collections:
                for name in ("a", "b"):
                    target = collections.collection(name)
                    target.compact()
                    for row in target.info().writers:
                        target.forget_writer(row.name)
                    target.collect()
            return super().run(work, packs)  # type: ignore[arg-type]

    with store_view(store) as view, closing(Compacting(threads=1)) as executor:
        outcomes = list(scrub_collections(view, executor))
    assert [one.status for one in outcomes if "/parts/" in one.subject] == ["gone"] * 3


def test_each_object_of_rows_is_read_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one process are read by workers, and not by the driver, which reads the rest."""
    read: Counter[str] = Counter()
    real = NfsChunkStorage.read_into

    def noted(storage: NfsChunkStorage, name: str, offset: int, buffer: bytearray) -> int:
        read[name] += "/parts/" in name
        return real(storage, name, offset, buffer)

    monkeypatch.setattr(NfsChunkStorage, "read_into", noted)
    assert wrong(store) == {}
    assert +read == Counter(name for name in objects(store) if "/parts/" in name)


class Noting(LocalExecutor):
    """Notes what each task is to read."""

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        self.packs = [[cast("ObjectItem", item) for item in pack] for pack in packs]
        return super().run(work, self.packs)


def test_all_workers_have_a_share_of_the_objects_of_one_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a run continues an earlier one: of what that one left."""
    monkeypatch.setattr(pipeline_work, "PACK_BYTES_MIN", 1_000)
    settings = siltstone.init(tmp_path / "store")
    siltstone.open(settings).close()
    with settings.open("a", encoding="utf-8") as file:
        file.write("\ncollections:\n  compaction: off\n")
    with siltstone.open_collections(settings) as collections:
        made = collections.create("one", SCHEMA, key=["n"], times="count")
        rows = (pyarrow.table({"n": range(number, number + 2_000)}) for number in range(24))
        for table in rows:
            made.append_batches([made.batch(table)])
    done: dict[str, int] = {}
    for left in (24, 12, 0):
        with store_view(tmp_path / "store") as view, closing(Noting(threads=4)) as executor:
            found = list(scrub_collections(view, executor, done))
            assert {one.status for one in found} == {"ok"}
            names = [item.name for pack in executor.packs for item in pack]
            assert len(names) == len(set(names)) == left
            assert not set(names) & done.keys()
            shares = [sum(item.size for item in pack) for pack in executor.packs]
            assert not shares or len(shares) >= 2 * executor.workers
            assert max(shares, default=0) <= sum(shares) / executor.workers
        done |= {one.subject: one.length for one in found[:12]}


def test_an_item_is_as_large_as_its_object() -> None:
    assert ObjectItem(name="x", length=7, crc=1).size == 7
