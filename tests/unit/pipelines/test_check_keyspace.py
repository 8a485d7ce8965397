"""The deep check of a keyspace as a job says what the check by one process says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.container.models.segments import Finding
from siltstone.pipelines.check_keyspace import check_keyspace
from siltstone.pipelines.local_executor import LocalExecutor
from tests.support.objects.small_segments import NAME, small_keyspace, store_for_keyspaces
from tests.support.pipelines.seen_items import SeenItems
from tests.support.stores import chunk_path, flip

VALUES = {f"k{number:02}": b"value %02d " % number * 20 for number in range(60)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a keyspace whose value segments are closed, but for the last, and flushed."""

    async def filled() -> None:
        async with small_keyspace(made) as (store, keyspace, _):
            for key, value in VALUES.items():
                await keyspace.put("b", key, value)
            await store.flush()

    made = store_for_keyspaces(tmp_path / "store")
    asyncio.run(filled())
    return made


def found(folder: Path, executor: SeenItems) -> list[Finding]:
    with siltstone.open(folder, read_only=True) as store:
        return list(check_keyspace(str(folder / "siltstone.yaml"), store, NAME, executor))


def found_alone(folder: Path) -> list[Finding]:
    with siltstone.open(folder, read_only=True) as store:
        return list(objects.check(store, NAME, deep=True))


@pytest.fixture
def executor() -> Iterator[SeenItems]:
    with closing(LocalExecutor(2)) as local:
        yield SeenItems(local)


def test_records_of_closed_segments_are_read_where_the_work_is(
    folder: Path, executor: SeenItems
) -> None:
    assert found(folder, executor) == []
    assert {outcome.status for outcome in executor.outcomes} == {"ok"}
    with siltstone.open(folder, read_only=True) as store:
        segments = objects.open(store, NAME).stat().segments
    closed = [each.segment for each in segments if each.status == "sealed"]
    assert len(closed) > 3
    assert sorted(outcome.subject for outcome in executor.outcomes) == closed


@pytest.mark.parametrize("where", [b"value 07 value", b"k31"])
def test_damage_is_told_as_by_one_process(folder: Path, executor: SeenItems, where: bytes) -> None:
    for path in list((folder / "chunks" / "data").rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        if where in data:
            flip(chunk_path(folder, str(path.relative_to(folder / "chunks"))), data.index(where))
    told = found(folder, executor)
    assert told == found_alone(folder)
    assert [each.severity for each in told] == ["damage"] * len(told) != []
    assert sorted({outcome.status for outcome in executor.outcomes}) == ["damaged", "ok"]


def test_a_segment_whose_chunk_is_gone_is_told_as_by_one_process(
    folder: Path, executor: SeenItems
) -> None:
    for path in list((folder / "chunks" / "data").rglob("*")):
        if path.is_file() and b"value 07 value" in path.read_bytes():
            path.unlink()
    told = found(folder, executor)
    assert told == found_alone(folder) != []
    assert sorted({outcome.status for outcome in executor.outcomes}) == ["failed", "ok"]


def test_a_keyspace_that_is_not_there_is_an_error(folder: Path, executor: SeenItems) -> None:
    with (
        siltstone.open(folder, read_only=True) as store,
        pytest.raises(objects.KeyspaceNotFoundError),
    ):
        list(check_keyspace(str(folder), store, "none", executor))
