"""A large merge of a collection is the same rows in one batch, whatever happens meanwhile."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
import pytest

from siltstone.collections.blocking import Collection, Collections
from siltstone.collections.rows.snapshot import SnapshotSplit
from siltstone.core.errors import CollectionNotFoundError
from siltstone.pipelines.compact_collection import CHANGED, DAMAGED, compact_collection
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.work import FAILED, OK, SAME, Item, ItemOutcome, Work
from tests.support.collections.store_fixtures import collections, folder

__all__ = ["collections", "folder"]

RANGE = 50_000
SCHEMA = pyarrow.schema(
    [pyarrow.field("k", pyarrow.int64(), nullable=False), ("v", pyarrow.string())]
)


@pytest.fixture
def numbers(collections: Collections) -> Collection:
    """Rows that came, some of which went, in eight appends."""
    made = collections.create("numbers", SCHEMA, key=["k"], times="count")
    chance = Random(3)
    for _ in range(8):
        keys = [chance.randrange(10_000) for _ in range(1_000)]
        gone = made.snapshot().to_arrow().slice(0, chance.randrange(300)) if keys else None
        texts = [chance.randbytes(30).hex() for _ in keys]
        made.append(pyarrow.table({"k": keys, "v": texts}), remove=gone)
    return made


def rows_at(numbers: Collection, time: int) -> Counter[tuple[Any, ...]]:
    table = numbers.snapshot(time).to_arrow()
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def key_bounds(numbers: Collection) -> list[bytes]:
    """Of the first keys of all parts, as they lie."""
    shares = [split.share for split in numbers.snapshot().splits()]
    runs = [run for share in shares if isinstance(share, SnapshotSplit) for run in share.runs]
    return [piece.part.key_min for run in runs for piece in run]


def tickets(numbers: Collection) -> list[str]:
    return [row.name for row in numbers.info().writers if row.name.startswith("ticket")]


class Elsewhere:
    """Does packs as another process would, and lets something happen after each."""

    workers = 1

    def __init__(self, after: Callable[[], object] = lambda: None) -> None:
        self._after = after

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        with pickle.loads(pickle.dumps(work)).open() as step:
            for pack in packs:
                for item in pack:
                    outcome = step(pickle.loads(pickle.dumps(item)))
                    self._after()
                    yield pickle.loads(pickle.dumps(outcome))

    def close(self) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize("since", [0, 5, 7])
def test_ranges_that_workers_merge_are_one_batch_of_the_same_rows(
    folder: Path, numbers: Collection, since: int
) -> None:
    numbers.advance_since(since)
    before = {time: rows_at(numbers, time) for time in range(since, 8)}
    executor = LocalExecutor(2) if since else Elsewhere()
    *ranges, whole = compact_collection(folder, "numbers", executor, range_bytes=RANGE)
    assert len(ranges) > 3
    assert {outcome.status for outcome in ranges} == {OK}
    assert (whole.subject, whole.status) == ("numbers", OK)
    assert "parts in place of 8 batches" in whole.message
    assert (numbers.info().batches, tickets(numbers)) == (1, [])
    assert {time: rows_at(numbers, time) for time in range(since, 8)} == before
    assert since < 7 or numbers.info().rows == before[7].total(), "what went is left out"
    bounds = key_bounds(numbers)
    assert bounds == sorted(bounds)
    numbers.collect()
    assert numbers.sweep() == 0
    assert len(list(folder.rglob("*.parquet"))) == numbers.info().parts >= 2
    (same,) = compact_collection(folder, "numbers", executor, range_bytes=RANGE)
    assert same.status == SAME


def test_appends_go_on_while_workers_merge(folder: Path, numbers: Collection) -> None:
    more = Elsewhere(lambda: numbers.append([{"k": 1, "v": "more"}]))
    *ranges, whole = compact_collection(folder, "numbers", more, range_bytes=RANGE)
    assert whole.status == OK
    assert numbers.info().batches == 1 + len(ranges)
    assert rows_at(numbers, 7 + len(ranges))[1, "more"] == len(ranges)


def test_a_merge_that_others_did_meanwhile_changes_nothing_and_leaves_nothing(
    folder: Path, numbers: Collection
) -> None:
    before = rows_at(numbers, 7)
    done: list[bool] = []

    def compact() -> None:
        if not done:
            done.append(True)
            numbers.compact()

    found = list(compact_collection(folder, "numbers", Elsewhere(compact), range_bytes=RANGE))
    assert found[-1].status == CHANGED
    assert rows_at(numbers, 7) == before
    assert tickets(numbers) == []
    numbers.collect()
    assert numbers.sweep() == len(found) - 1
    assert len(list(folder.rglob("*.parquet"))) == numbers.info().parts


def test_what_others_replace_stays_while_workers_read_it(folder: Path, numbers: Collection) -> None:
    def replaced() -> None:
        numbers.append([{"k": 1, "v": "more"}])
        numbers.compact()
        numbers.collect()

    found = list(compact_collection(folder, "numbers", Elsewhere(replaced), range_bytes=RANGE))
    assert [outcome.status for outcome in found] == [OK] * (len(found) - 1) + [CHANGED]
    numbers.collect()
    numbers.sweep()
    assert len(list(folder.rglob("*.parquet"))) == numbers.info().parts


def test_an_object_that_is_gone_is_told_and_nothing_is_put(
    folder: Path, numbers: Collection
) -> None:
    min(folder.rglob("*.parquet"), key=lambda path: path.stat().st_size).unlink()
    (found,) = compact_collection(folder, "numbers", Elsewhere(), range_bytes=10**9)
    assert (found.status, "chunk=collections/" in found.message) == (FAILED, True)
    assert (numbers.info().batches, tickets(numbers)) == (8, [])


def test_a_flipped_byte_is_told_and_nothing_is_put(folder: Path, numbers: Collection) -> None:
    before = numbers.info()
    path = max(folder.rglob("*.parquet"), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    found = list(compact_collection(folder, "numbers", Elsewhere(), range_bytes=10**9))
    assert [outcome.status for outcome in found] == [DAMAGED]
    assert path.name in found[0].message
    assert numbers.info().batches == before.batches


def test_a_job_that_is_given_up_leaves_what_a_sweep_deletes(
    folder: Path, numbers: Collection
) -> None:
    before = numbers.info()
    outcomes = compact_collection(folder, "numbers", Elsewhere(), range_bytes=RANGE)
    next(outcomes)
    outcomes.close()
    assert (numbers.info().batches, tickets(numbers)) == (before.batches, [])
    assert numbers.sweep() == 1


def test_small_collections_and_missing_ones(folder: Path, collections: Collections) -> None:
    small = collections.create("small", SCHEMA, key=["k"], times="count")
    assert [one.status for one in compact_collection(folder, "small", Elsewhere())] == [SAME]
    for key in range(3):
        small.append([{"k": key, "v": "a"}])
    for _ in range(2):
        small.append([], remove=[{"k": 1, "v": "a"}])
        small.append([{"k": 1, "v": "a"}])
    found = list(compact_collection(folder, "small", Elsewhere(), range_bytes=1))
    assert {one.status for one in found} == {OK}
    assert small.info().batches == 1
    assert rows_at(small, 6) == Counter({(0, "a"): 1, (1, "a"): 1, (2, "a"): 1})
    with pytest.raises(CollectionNotFoundError):
        list(compact_collection(folder, "nowhere", Elsewhere()))
