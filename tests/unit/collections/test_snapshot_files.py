"""The parts of a snapshot as files, and its rows that are in none."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import parquet

import siltstone
from siltstone.core.errors import CapabilityError
from tests.support.collections.collections_world import (
    SCHEMA,
    CollectionsWorld,
    many_rows,
    pairs_of,
    rows,
)

pytestmark = pytest.mark.virtual_time


def test_files_and_inline_rows_are_all_that_a_snapshot_shows(tmp_path: Path) -> None:
    siltstone.init(tmp_path, containers=1)
    with siltstone.open_collections(tmp_path) as collections:
        gusts = collections.create("gusts", SCHEMA, key=["k"], times="count")
        empty = gusts.snapshot().files()
        assert (empty.files, empty.inline.num_rows, empty.as_of) == ((), 0, None)
        gusts.append(many_rows(1_000))
        gusts.append(rows(("a", 1), ("b", 2)))
        gusts.append(many_rows(1_000, 1_000))
        found = gusts.snapshot(1).files()
        (file,) = found.files
        table = parquet.read_table(file.uri.removeprefix("file://"))
        assert pairs_of(table) == pairs_of(many_rows(1_000))
        assert found.inline.to_pylist() == [
            {"k": "a", "v": 1, "_diff": 1},
            {"k": "b", "v": 2, "_diff": 1},
        ]
        assert (file.has_later, file.has_counts, found.cancels) == (False, False, False)
        assert len(gusts.snapshot().files().files) == 2


def test_files_say_what_their_rows_need(tmp_path: Path) -> None:
    siltstone.init(tmp_path, containers=1)
    with siltstone.open_collections(tmp_path) as collections:
        gusts = collections.create("gusts", SCHEMA, key=["k"], times="count")
        gusts.append(many_rows(1_000))
        gusts.append(many_rows(1_000))
        gusts.compact()
        kinds = [
            [(file.has_later, file.has_counts) for file in gusts.snapshot(time).files().files]
            for time in range(2)
        ]
        assert kinds == [[(True, False)], [(False, False)]]
        gusts.append([], remove=rows(("key-00000001", 1)))
        assert [gusts.snapshot(time).files().cancels for time in (1, 2)] == [False, True]
        gusts.advance_since(2)
        gusts.compact()
        (file,) = gusts.snapshot().files().files
        assert (file.has_later, file.has_counts) == (False, True)


async def test_storage_without_addresses_is_refused_and_the_other_way_named() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(rows(("a", 1)))
        assert (await (await gusts.snapshot()).files()).inline.num_rows == 1
        await gusts.append(many_rows(1_000))
        with pytest.raises(CapabilityError, match=r"no address.*read\.format"):
            await (await gusts.snapshot()).files()
