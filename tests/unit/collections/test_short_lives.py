"""Processes that append once and end keep a collection in order, if they settle."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone.collections.state import compaction_plan
from siltstone.collections.state.rollups import ROLLUP_EVERY
from tests.support.collections.stored_objects import paths

SCHEMA = pyarrow.schema([("n", pyarrow.int64())])
LIVES = 70


@pytest.fixture
def store(tmp_path: Path) -> Path:
    settings = siltstone.init(tmp_path / "store")
    with settings.open("a", encoding="utf-8") as file:
        file.write("\ngarbage:\n  delay: 0s\n")
    with siltstone.open_collections(settings) as collections:
        collections.create("counts", SCHEMA, key=["n"], times="count")
        collections.settle()
    return settings


@pytest.mark.slow
def test_many_of_them_leave_few_batches_entries_and_writers(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_plan, "LOWEST_FACTOR", 32)
    for number in range(LIVES):
        with siltstone.open_collections(store) as collections:
            collections.collection("counts").append([{"n": number}])
            collections.settle()
    with siltstone.open_collections(store) as collections:
        counts = collections.collection("counts")
        info = counts.info()
        entries = counts.entries()
        assert sorted(counts.snapshot().to_arrow()["n"].to_pylist()) == list(range(LIVES))
        assert list(collections.check(deep=True)) == []
    assert info.writers == ()
    assert info.batches < 20
    assert info.seqno > 2 * LIVES  # each life also gives up its writer
    assert len(entries) < 3 * ROLLUP_EVERY
    kept = len(entries) + ROLLUP_EVERY + 2  # what is below a new floor goes with the next rollup
    assert len(paths(store.parent, "entries", info.id)) <= kept


def test_what_is_uploaded_and_not_appended_is_not_given_up(store: Path) -> None:
    with siltstone.open_collections(store) as collections:
        batch = collections.collection("counts").batch([{"n": n} for n in range(5_000)])
        collections.settle()
    with siltstone.open_collections(store) as collections:
        counts = collections.collection("counts")
        counts.append_batches([batch])
        assert counts.snapshot().to_arrow().num_rows == 5_000


def test_a_named_writer_is_known_after_it_settled(store: Path) -> None:
    with siltstone.open_collections(store) as collections:
        collections.collection("counts").writer("w").append([{"n": 1}], sequence=7)
        collections.settle()
    with siltstone.open_collections(store) as collections:
        writer = collections.collection("counts").writer("w")
        assert writer.append([{"n": 1}], sequence=7).repeated


def test_to_settle_what_nothing_was_done_to_makes_no_entry(store: Path) -> None:
    with siltstone.open_collections(store) as collections:
        before = collections.collection("counts").info().seqno
        collections.settle()
        collections.settle()
        assert collections.collection("counts").info().seqno == before
