"""Collections of a store on a disk, for blocking callers on any thread."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone.bindings.nfs import chunk_storage
from siltstone.collections.blocking import Collections, open_collections
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import (
    CapabilityError,
    ClosedError,
    CollectionError,
    StoreNotFoundError,
    UpperMismatchError,
)
from siltstone.core.records.collection_choice import encode_choice
from tests.support.collections.collections_world import SCHEMA, many_rows, pairs_of, rows
from tests.support.collections.store_fixtures import folder

__all__ = ["folder"]

GUSTS = pyarrow.schema(
    [pyarrow.field("station", pyarrow.string(), nullable=False), ("gust", pyarrow.float64())]
)


@pytest.fixture
def collections(folder: Path) -> Iterator[Collections]:
    with open_collections(folder) as opened:
        yield opened


def test_a_table_that_changes_is_read_at_each_time_and_followed(collections: Collections) -> None:
    gusts = collections.create("gusts", GUSTS, key=["station"], history="7d")
    first = gusts.append([{"station": "oslo", "gust": 12.5}, {"station": "bergen", "gust": 21.0}])
    gusts.append(
        [{"station": "oslo", "gust": 14.0}],
        remove=[{"station": "oslo", "gust": 12.5}],
        expected_upper=first.upper,
    )
    with pytest.raises(UpperMismatchError):
        gusts.append([], expected_upper=first.upper)
    loader = gusts.writer("loader-7")
    for _ in range(2):
        loader.append(pyarrow.table({"station": ["bodø"], "gust": [17.0]}), sequence=1)
    assert loader.sequence == 1

    frame = gusts.snapshot().to_pandas()
    assert dict(zip(frame["station"], frame["gust"], strict=True)) == {
        "bergen": 21.0,
        "bodø": 17.0,
        "oslo": 14.0,
    }
    assert gusts.snapshot(as_of=first.time).to_arrow().num_rows == 2
    bill = gusts.bookmark("billing")
    upper = gusts.info().upper
    told = 0
    for changes in gusts.subscribe(as_of=bill.since, until=upper):
        told += changes.to_arrow().num_rows
        bill.advance(changes.upper - 1)
    assert told == 5
    assert bill.since == loader.append([], sequence=1).time


def test_threads_share_a_handle(collections: Collections) -> None:
    gusts = collections.create("gusts", SCHEMA, key=["k"], times="count")
    with ThreadPoolExecutor(8) as threads:
        done = list(threads.map(lambda n: gusts.append(many_rows(1, n)), range(64)))
    assert sorted(one.time for one in done) == list(range(64))
    with gusts.snapshot(lease=True) as snapshot:
        found = pyarrow.Table.from_batches(snapshot.batches(), schema=snapshot.schema)
    assert pairs_of(found) == pairs_of(many_rows(64))


def test_what_one_process_made_another_one_finds(folder: Path, collections: Collections) -> None:
    gusts = collections.create("gusts", SCHEMA, key=["k"], times="count")
    batch = pickle.loads(pickle.dumps(gusts.batch(many_rows(2_000))))
    with open_collections(folder) as others:
        other = others.collection("gusts")
        assert repr(other) == "Collection('gusts')"
        with other.listen(0) as listener:
            gusts.writer("job").append_batches([batch], sequence=0, expected_upper=0)
            assert next(listener).updates.num_rows == 2_000
            assert listener.frontier == 1
        other.append(rows(("a", 1)))
        other.compact()
        assert other.collect() == 0, "parts stay for 15 minutes"
        assert others.sweep() == other.sweep() == 0
        others.rename("gusts", "winds")
        assert collections.list() == ["winds"]
    assert gusts.snapshot(columns=["k"]).to_arrow().num_rows == 2_001
    gusts.finish()
    assert [changes.upper for changes in gusts.listen(2)] == [2**64 - 1]
    collections.drop("winds")
    assert collections.list() == []


def test_a_bookmark_and_a_schema_of_blocking_callers(collections: Collections) -> None:
    gusts = collections.create("gusts", SCHEMA, key=["k"], times="count")
    for number in range(3):
        gusts.compare_and_append(
            [{"k": "a", "v": number, "_time": number, "_diff": 1}],
            expected_upper=number,
            new_upper=number + 1,
        )
    mark = gusts.bookmark("m", since=1)
    assert (mark.name, mark.since, len(mark.token)) == ("m", 1, 16)
    assert gusts.advance_since(1) == 1
    mark.remove()
    gusts.evolve(SCHEMA.append(pyarrow.field("w", pyarrow.int64())))
    assert gusts.schema.names == ["k", "v", "w"]
    assert gusts.snapshot(1).as_of == 1
    assert len(gusts.snapshot(1).splits()) == 1


def test_closed_collections_say_so(folder: Path) -> None:
    opened = open_collections(folder)
    gusts = opened.create("gusts", SCHEMA, key=["k"])
    snapshot, listener = gusts.snapshot(lease=True), gusts.listen()
    opened.close()
    for late in (opened, snapshot, listener):
        late.close()
    with pytest.raises(ClosedError):
        gusts.append(rows(("a", 1)))


def test_an_environment_that_was_given_stays_open(folder: Path) -> None:
    environment = SystemEnvironment()
    with open_collections(folder, environment=environment) as opened:
        assert opened.list() == []
    with open_collections(folder, environment=environment) as opened:
        opened.create("gusts", SCHEMA, key=["k"])
    environment.close()


def test_what_cannot_be_opened_says_why(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError):
        open_collections(tmp_path / "nothing")
    with open_collections(folder) as opened:
        opened.create("gusts", SCHEMA, key=["k"])
    choice = folder / "chunks" / "collections" / "consensus"
    choice.unlink()
    choice.write_bytes(encode_choice("table"))
    with pytest.raises(CollectionError, match="uses=table"):
        open_collections(folder)


def test_a_storage_without_whole_creates_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = replace(chunk_storage.CAPABILITIES, whole=False)
    monkeypatch.setattr(chunk_storage, "CAPABILITIES", lacking)
    with pytest.raises(CapabilityError, match="whole"):
        open_collections(folder)


def test_workers_read_splits_by_the_place_of_the_store_alone(tmp_path: Path) -> None:
    siltstone.init(tmp_path / "store", containers=1)
    siltstone.init(tmp_path / "other", containers=1)
    with siltstone.open_collections(tmp_path / "store") as collections:
        gusts = collections.create("gusts", SCHEMA, key=["k"])
        gusts.append(many_rows(3_000))
        gusts.append([{"k": "a", "v": 1}])
        with gusts.snapshot(lease=True) as snapshot:
            splits = pickle.loads(pickle.dumps(snapshot.splits()))
            tables = [
                pyarrow.Table.from_batches(siltstone.read_split(tmp_path / "store", split))
                for split in splits
            ]
            assert pairs_of(pyarrow.concat_tables(tables)) == pairs_of(snapshot.to_arrow())
    with pytest.raises(siltstone.StoreError, match="another store"):
        next(siltstone.read_split(tmp_path / "other", splits[0]))
    for part in (tmp_path / "store").rglob("*.parquet"):
        part.unlink()
    with pytest.raises(siltstone.LeaseExpiredError, match="take a new snapshot"):
        list(siltstone.read_split(tmp_path / "store", splits[0]))
