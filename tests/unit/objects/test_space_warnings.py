"""What the rows of keyspaces tell people, in a process that has none of them open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.objects.records import keys
from siltstone.objects.records.keys import LargeStatus, large_key
from siltstone.objects.records.large_row import LargeRow, encode_large_row
from siltstone.objects.records.rebuild_rows import (
    Doubt,
    Rebuild,
    RebuildPhase,
    encode_doubt,
    encode_rebuild,
)
from siltstone.objects.records.space_rows import (
    ValueStatus,
    decode_state,
    encode_manifest_row,
    encode_task,
)
from siltstone.objects.space_names import space_names
from tests.support.objects.rebuilt import all_sealed
from tests.support.objects.small_segments import small_keyspace, store_for_keyspaces
from tests.support.stores import make_store

NAMES = space_names("photos")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a keyspace, and with another one of which nothing is to be said."""
    folder = make_store(tmp_path, containers=2)
    with siltstone.open(folder) as store:
        for name in ("photos", "whole"):
            objects.create(store, name).put("b", "k", b"value", ttl_s=1_000)
        objects.create(store, "clocks", head_only="with_lookup")
    return folder


def told(folder: Path) -> list[tuple[str, str]]:
    """Keyspaces and kinds, as a reader finds them."""
    with siltstone.open(folder, read_only=True) as store:
        return [(each.keyspace, each.kind.value) for each in objects.warnings(store)]


def write(folder: Path, row_key: bytes, value: bytes) -> None:
    with siltstone.open(folder) as store:
        store.table(NAMES.ledger, force=True).put(row_key, value)


def test_nothing_is_said_where_all_is_well(folder: Path) -> None:
    assert told(folder) == []


def test_an_unfinished_rebuild_is_told(folder: Path) -> None:
    with siltstone.open(folder) as store:
        row = store.table(NAMES.ledger).get(keys.STATE)
        assert row is not None
    begun = Rebuild(phase=RebuildPhase.RECORDS, state=decode_state(row.value, where="state"))
    write(folder, keys.STATE, encode_rebuild(begun))
    assert told(folder) == [("photos", "rebuild")]


@pytest.mark.parametrize("row_key", [keys.SPACE, keys.STATE, keys.manifest_key(1)])
def test_a_keyspace_that_does_not_open_is_told(folder: Path, row_key: bytes) -> None:
    write(folder, row_key, b"\x09")
    assert told(folder) == [("photos", "unreadable")]


def test_a_segment_that_is_gone_is_told(folder: Path) -> None:
    with siltstone.open(folder) as store:
        store.segment(NAMES.value_segment(1), force=True).delete()
    assert told(folder) == [("photos", "unreadable")]


def test_doubtful_objects_are_told(folder: Path) -> None:
    write(folder, keys.doubtful_key(7), encode_doubt(Doubt(number=1, last_sqn=1)))
    assert told(folder) == [("photos", "doubtful")]


def test_what_expired_long_ago_is_told(folder: Path) -> None:
    with siltstone.open(folder, read_only=True) as store:
        (row_key,) = [key for key, _ in store.table(NAMES.ledger).scan(b"\x08", b"\x09")]
    old = keys.decode_expiry_key(row_key)[1]
    write(folder, keys.expiry_key(old, 1_000_000), b"")
    assert told(folder) == [("photos", "expiry")]


@pytest.mark.parametrize(
    ("row_key", "make"),
    [
        (keys.task_key(900), encode_task),
        (
            large_key(LargeStatus.DEAD, 901),
            lambda time: encode_large_row(LargeRow(not_before_s=time)),
        ),
    ],
    ids=["value segment", "large value"],
)
def test_deletions_that_are_overdue_are_told(folder: Path, row_key: bytes, make: object) -> None:
    assert callable(make)
    write(folder, row_key, make(2**31))
    assert told(folder) == []
    write(folder, row_key, make(0))  # no row tells since when
    assert told(folder) == []
    write(folder, row_key, make(1_000_000))
    assert told(folder) == [("photos", "tasks")]


async def test_a_segment_whose_footer_does_not_come_is_told(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        for number in range(50):
            await keyspace.put("b", f"k{number}", b"v")
        await all_sealed(space)
        first, second, *_ = (await space.parts.manifest.now()).rows
        assert second.status is ValueStatus.SEALED
        table = store.table(space.parts.names.ledger)
        rolling = replace(first, status=ValueStatus.ROLLING, footer_end=0)
        await table.put(keys.manifest_key(first.first_sqn), encode_manifest_row(rolling))
        (told,) = [each async for each in objects.warnings_async(store)]
        assert (told.kind.value, "values/00000001 gets no footer" in told.message) == (
            "footer",
            True,
        )


async def test_a_footer_that_is_being_written_next_to_compacted_segments_is_not_told(
    tmp_path: Path,
) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        for number in range(50):
            await keyspace.put("b", f"k{number}", b"v")
        await all_sealed(space)
        table, manifest = store.table(space.parts.names.ledger), await space.parts.manifest.now()
        *_, newest, active = manifest.rows
        assert newest.status is ValueStatus.SEALED
        # A compaction took the next number while the newest one was active.
        oldest = replace(manifest.rows[0], number=active.number + 1)
        rolling = replace(newest, status=ValueStatus.ROLLING, footer_end=0)
        for row in (oldest, rolling):
            await table.put(keys.manifest_key(row.first_sqn), encode_manifest_row(row))
        assert [each async for each in objects.warnings_async(store)] == []


def test_bytes_of_a_change_whose_rows_were_looked_at_before_are_not_told(folder: Path) -> None:
    with siltstone.open(folder) as store:
        store.segment(NAMES.value_segment(1), force=True).append(b"newer")
        assert list(objects.warnings(store)) == []
