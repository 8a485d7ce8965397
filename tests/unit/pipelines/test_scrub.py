"""A scrub finds all damage and nothing else, while owners and collectors work."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

import pytest

import siltstone
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.scrub import DAMAGED, GONE, MISSING, SHORT, ScrubWork, plan_scrub, scrub
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.work import FAILED, OK, Item, ItemOutcome, Work
from tests.support.stores import chunk_path, flip
from tests.unit.pipelines.conftest import Fill


def statuses(outcomes: Iterable[ItemOutcome]) -> dict[str, str]:
    found = list(outcomes)
    assert len({outcome.subject for outcome in found}) == len(found)
    return {outcome.subject: outcome.status for outcome in found}


@pytest.mark.slow
def test_every_chunk_is_read_once(folder: Path, fill: Fill, executor: LocalExecutor) -> None:
    for number in range(5):
        fill(f"a/{number}", 30_000)
    with store_view(folder) as view:
        rows = view.chunk_rows()
        found = list(scrub(view, executor))
    assert {outcome.subject for outcome in found} == {row.chunk.name for row in rows}
    assert {outcome.status for outcome in found} == {OK}
    assert sum(outcome.length for outcome in found) == sum(row.chunk.length for row in rows)
    # Chunks of the table log are chunks too.
    assert {row.chunk.name.split("/")[0] for row in rows} == {"data", "system"}


@pytest.mark.slow
def test_injected_damage_is_found_exactly(
    folder: Path, fill: Fill, executor: LocalExecutor
) -> None:
    names = [chunk.chunk for chunk in fill("a", 60_000).chunks()]
    flip(chunk_path(folder, names[1]), 0)
    flip(chunk_path(folder, names[4]), 4095)
    chunk_path(folder, names[6]).write_bytes(chunk_path(folder, names[6]).read_bytes()[:-1])
    chunk_path(folder, names[8]).unlink()
    with chunk_path(folder, names[9]).open("ab") as file:
        file.write(b"behind the committed length")
    with store_view(folder) as view:
        found = list(scrub(view, executor))
    wrong = {outcome.subject: outcome.status for outcome in found if outcome.status != OK}
    assert wrong == {names[1]: DAMAGED, names[4]: DAMAGED, names[6]: SHORT, names[8]: MISSING}
    assert all(outcome.message for outcome in found if outcome.status != OK)


@pytest.mark.slow
def test_what_was_dropped_meanwhile_is_not_damage(
    folder: Path, store: siltstone.Store, fill: Fill, executor: LocalExecutor
) -> None:
    segment = fill("a", 20_000)
    names = [chunk.chunk for chunk in segment.chunks()]
    with store_view(folder) as view:
        items = plan_scrub(view.chunk_rows())
        segment.truncate(5_000)
        store.flush()
        store.collect()
        chunk_path(folder, names[0]).unlink()
        chunk_path(folder, names[-1]).unlink()
        found = statuses(scrub(view, executor, items))
    assert found[names[0]] == GONE
    assert found[names[-1]] == MISSING


class Slow:
    """An executor that calls ``before`` ahead of each item."""

    workers = 1

    def __init__(self, before: object, inner: LocalExecutor) -> None:
        self.before = before
        self.inner = inner

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        for pack in packs:
            for item in pack:
                self.before()  # type: ignore[operator]
                yield from self.inner.run(work, [[item]])

    def close(self) -> None:
        pass


@pytest.mark.slow
def test_a_pin_keeps_chunks_from_a_collector_during_the_job(
    folder: Path, store: siltstone.Store, fill: Fill, executor: LocalExecutor
) -> None:
    segment = fill("a", 40_000)
    fill("b", 40_000)

    def shorten() -> None:
        if segment.info().start_offset < 36_000:
            segment.truncate(segment.info().start_offset + 5_000)
            segment.append(b"x" * 3_000)
            store.flush()
        store.collect()

    before = list((folder / "chunks" / "data").rglob("*.chunk"))
    with store_view(folder) as view:
        found = statuses(scrub(view, Slow(shorten, executor)))
        assert set(found.values()) == {OK}
        assert all(path.exists() for path in before)
    assert store.collect() > 0
    assert not all(path.exists() for path in before)
    assert not list((folder / "chunks" / "system" / "pins").glob("*"))


@pytest.mark.slow
def test_a_service_that_does_not_answer_is_no_damage(
    folder: Path, fill: Fill, executor: LocalExecutor
) -> None:
    name = next(iter(fill("a", 3_000).chunks())).chunk
    path = chunk_path(folder, name)
    path.unlink()
    path.mkdir()  # the binding cannot say what this is
    with store_view(folder) as view:
        found = statuses(scrub(view, executor))
    assert found[name] in {FAILED, MISSING}
    assert Counter(found.values())[OK] == len(found) - 1


@pytest.mark.slow
def test_items_travel_and_hold_no_secret(folder: Path, fill: Fill) -> None:
    fill("a", 30_000)
    with store_view(folder) as view:
        items = plan_scrub(view.chunk_rows())
        work = ScrubWork(store=view.path, uuid=view.uuid)
    assert pickle.loads(pickle.dumps(items)) == items
    assert pickle.loads(pickle.dumps(work)) == work
    assert len(pickle.dumps(tuple(items))) < 300 * len(items)
