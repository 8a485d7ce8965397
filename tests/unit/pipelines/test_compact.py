"""A compaction leaves fewer chunks and the same bytes, whatever happens meanwhile."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path

import pytest

import siltstone
from siltstone.container.compact.compaction import CompactionRules
from siltstone.core.constants import KIB
from siltstone.pipelines.compact import CHANGED, DAMAGED, MergeWork, compact
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.owned_store import OwnedStore, owned_store
from siltstone.pipelines.work import FAILED, OK, Item, ItemOutcome, Work
from tests.support.stores import chunk_path, flip, make_store

RULES = CompactionRules(small_bytes=8 * KIB, chunk_bytes=64 * KIB, count_min=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a store of small chunks, which its background work leaves alone."""
    more = "optimiser:\n  enabled: false\n"
    return make_store(tmp_path / "store", chunk_bytes=KIB, containers=1, more=more)


def write(folder: Path, rounds: int, names: Iterable[str]) -> dict[str, bytes]:
    """Append to segments in chunks of at most a KiB, and allow larger chunks from then on."""
    settings = folder / "siltstone.yaml"
    text = settings.read_text()
    settings.write_text(text.replace(f"chunk_size: {64 * KIB}", f"chunk_size: {KIB}"))
    chance = random.Random(5)
    content = dict.fromkeys(names, b"")
    with siltstone.open(folder) as store:
        for _ in range(rounds):
            for name in content:
                data = chance.randbytes(chance.randint(900, KIB))
                store.create(name, exist_ok=True).append(data)
                content[name] += data
        store.flush()
    settings.write_text(text.replace(f"chunk_size: {KIB}\n", f"chunk_size: {64 * KIB}\n"))
    return content


def check(folder: Path, content: dict[str, bytes]) -> None:
    with siltstone.open(folder, read_only=True) as store:
        for name, data in content.items():
            info = store.segment(name).info()
            found = store.segment(name).read(info.start_offset, info.length)
            assert found == data[info.start_offset :]
        assert [f for f in store.check() if f.severity == "damage"] == []


def chunks(folder: Path) -> set[str]:
    with siltstone.open(folder, read_only=True) as store:
        return {chunk.chunk for info in store.list() for chunk in store.segment(info.name).chunks()}


class Between:
    """Calls ``happen`` after the workers wrote and before the owner states it."""

    workers = 2

    def __init__(self, happen: Callable[[ItemOutcome], ItemOutcome]) -> None:
        self.happen = happen

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        assert pickle.loads(pickle.dumps(work)) == work
        for outcome in list(LocalExecutor(2).run(work, packs)):
            yield self.happen(outcome)

    def close(self) -> None:
        pass


@pytest.mark.slow
def test_small_neighbours_and_lonely_chunks_become_few(folder: Path) -> None:
    content = write(folder, 6, [f"many/{number}" for number in range(4)])
    content |= write(folder, 1, [f"one/{number}" for number in range(20)])
    before = chunks(folder)
    assert len(before) == 44
    with owned_store(folder) as store:
        found = list(compact(store, LocalExecutor(2), RULES))
        assert {outcome.status for outcome in found} == {OK}
        assert list(compact(store, LocalExecutor(2), RULES)) == []
    after = chunks(folder)
    assert len(after) <= 8
    assert not after & before
    check(folder, content)
    with siltstone.open(folder) as store_now:
        store_now.collect()
        assert not [name for name in before if (folder / "chunks" / name).exists()]
    check(folder, content)


def test_without_sharing_segments_keep_chunks_of_their_own(folder: Path) -> None:
    write(folder, 1, [f"one/{number}" for number in range(8)])
    rules = CompactionRules(small_bytes=8 * KIB, chunk_bytes=64 * KIB, count_min=2, share=False)
    with owned_store(folder) as store:
        assert list(compact(store, LocalExecutor(2), rules)) == []


@pytest.mark.slow
def test_what_changes_meanwhile_stays_as_it_was(folder: Path) -> None:
    content = write(folder, 5, ["a", "b", "c"])
    with owned_store(folder) as store:

        def call(name: str, verb: str, *arguments: object) -> None:
            for container in store.containers:
                try:
                    store.loop.run(getattr(container, verb)(name, *arguments))
                except siltstone.SegmentNotFoundError:
                    continue

        did: list[str] = []

        def happen(outcome: ItemOutcome) -> ItemOutcome:
            if not did:
                # After the plan and the copy: one segment is gone and one is shorter.
                call("a", "delete")
                call("b", "truncate", 1_500)
                for container in store.containers:
                    store.loop.run(container.collect())
                did.append(outcome.subject)
            return outcome

        found = [outcome.status for outcome in compact(store, Between(happen), RULES)]
    assert CHANGED in found
    assert set(found) <= {OK, CHANGED}
    del content["a"]
    check(folder, content)


@pytest.mark.slow
def test_a_worker_that_writes_elsewhere_is_noticed(folder: Path) -> None:
    content = write(folder, 4, ["a", "b"])
    before = chunks(folder)
    with owned_store(folder) as store:

        def lose(outcome: ItemOutcome) -> ItemOutcome:
            chunk_path(folder, outcome.subject).unlink()
            return outcome

        found = list(compact(store, Between(lose), RULES))
    assert {outcome.status for outcome in found} == {FAILED}
    assert all("merged chunk is not there" in outcome.message for outcome in found)
    assert chunks(folder) == before
    check(folder, content)


@pytest.mark.slow
def test_a_damaged_source_is_told_and_left(folder: Path) -> None:
    write(folder, 4, ["a"])
    names = sorted(chunks(folder))
    flip(chunk_path(folder, names[1]), 3)
    with owned_store(folder) as store:
        found = list(compact(store, LocalExecutor(2), RULES))
    assert [outcome.status for outcome in found] == [DAMAGED]
    assert sorted(chunks(folder)) == names


@pytest.mark.slow
def test_a_repeated_task_finds_its_chunk_written_and_nothing_is_lost(folder: Path) -> None:
    """An attempt with a lost answer has written: the repeat is refused, a later run merges."""
    content = write(folder, 4, ["a", "b"])
    with owned_store(folder) as store:
        executor = LocalExecutor(1)

        class Twice:
            workers = 1

            def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
                kept = [list(pack) for pack in packs]
                list(executor.run(work, kept))
                return executor.run(work, kept)

            def close(self) -> None:
                pass

        found = list(compact(store, Twice(), RULES))
        assert {outcome.status for outcome in found} == {FAILED}
        assert {o.status for o in compact(store, executor, RULES)} == {OK}
    check(folder, content)


@pytest.mark.slow
def test_another_owner_keeps_the_job_from_beginning(folder: Path) -> None:
    write(folder, 4, ["a"])
    before = chunks(folder)
    with (
        siltstone.open(folder),
        pytest.raises(siltstone.StoreInUseError),
        owned_store(folder) as store,
    ):
        list(compact(store, LocalExecutor(1), RULES))
    assert chunks(folder) == before


@pytest.mark.slow
def test_a_job_that_ends_early_leaves_garbage_and_no_damage(folder: Path) -> None:
    content = write(folder, 6, [f"s{number}" for number in range(6)])
    rules = CompactionRules(small_bytes=8 * KIB, chunk_bytes=8 * KIB, count_min=2)
    with owned_store(folder) as store:
        job = compact(store, LocalExecutor(1), rules)
        assert next(job).status == OK
        job.close()
    check(folder, content)
    with owned_store(folder) as store:
        assert {outcome.status for outcome in compact(store, LocalExecutor(2), rules)} <= {OK}
    check(folder, content)
    with siltstone.open(folder) as opened:
        opened.collect()
        kinds = {finding.kind for finding in opened.sweep()}
    assert kinds <= {"waiting"}


@pytest.mark.slow
def test_work_on_another_store_does_not_begin(folder: Path, tmp_path: Path) -> None:
    write(folder, 4, ["a"])
    text = (folder / "siltstone.yaml").read_text()
    other = make_store(tmp_path / "other")
    moved = (other / "siltstone.yaml").read_text().splitlines()
    uuid = next(line for line in text.splitlines() if line.startswith("uuid"))
    (other / "siltstone.yaml").write_text(
        "\n".join(uuid if line.startswith("uuid") else line for line in moved)
    )
    work = MergeWork(store=str(other), uuid=uuid.removeprefix("uuid: ").strip('"'), rate=None)
    with pytest.raises(siltstone.StoreError, match="another store"), work.open():
        pass


def test_merges_travel(folder: Path) -> None:
    write(folder, 4, ["a", "b"])
    with owned_store(folder) as store:
        assert isinstance(store, OwnedStore)
        seen: list[Sequence[Item]] = []

        class Seeing:
            workers = 1

            def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
                seen.extend(packs)
                yield from ()

            def close(self) -> None:
                pass

        assert list(compact(store, Seeing(), RULES)) == []
    assert seen
    assert pickle.loads(pickle.dumps(seen)) == seen
