"""Tables as applications hold them, blocking and asyncio, and what outlives a store."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import siltstone
from siltstone import KeyChange, Put, RangeRemoval, RemoveRange, TableUpdate, VersionIs


@pytest.fixture
def table(store: siltstone.Store, name: str) -> siltstone.Table:
    return store.create_table(name)


def keys(
    source: siltstone.Table | siltstone.TableSnapshot, *, reverse: bool = False
) -> list[bytes]:
    return [key for key, _ in source.scan(reverse=reverse)]


def test_a_failed_condition_names_its_key_and_what_was_found(table: siltstone.Table) -> None:
    version = table.update({b"a": b"1", b"b": b"2"})
    with pytest.raises(siltstone.ConditionFailedError) as failed:
        table.update({b"a": b"9"}, expected={b"a": version, b"b": None})
    assert failed.value.condition == VersionIs(table.name, b"b", None)
    assert failed.value.current == version
    with pytest.raises(siltstone.ConditionFailedError) as failed:
        table.update({b"a": None}, expected={b"c": version})
    assert failed.value.current is None
    assert table.update({b"a": None, b"c": b"3"}, expected={b"a": version, b"c": None}) > version
    assert keys(table) == [b"b", b"c"]


def test_a_range_is_one_small_record_whatever_it_removes(table: siltstone.Table) -> None:
    for first in range(0, 30_000, 5_000):
        table.update({b"%06d" % number: b"v" for number in range(first, first + 5_000)})
    before = table.version()
    after = table.remove_range(b"000001", b"029999")
    assert after - before < 100
    assert keys(table) == [b"000000", b"029999"]
    with pytest.raises(siltstone.ConditionFailedError):
        table.remove_range(expected={b"000000": None})
    table.remove_range(expected={b"000000": table.get(b"000000").version})  # type: ignore[union-attr]
    assert keys(table) == []


@pytest.mark.parametrize("end", [b"a", b"b"])
def test_an_empty_range_is_refused(table: siltstone.Table, end: bytes) -> None:
    with pytest.raises(ValueError, match="range"):
        table.remove_range(b"b", end)


def test_operations_of_a_commit_take_effect_in_order(
    store: siltstone.Store, table: siltstone.Table
) -> None:
    table.put(b"old", b"")
    name = table.name
    store.commit([Put(name, b"a", b""), RemoveRange(name), Put(name, b"b", b"")])
    assert keys(table) == [b"b"]


def test_scans_hold_little_and_go_both_ways(table: siltstone.Table) -> None:
    value = bytes(400_000)
    for number in range(10):
        table.put(b"%d" % number, value)
    assert keys(table) == [b"%d" % number for number in range(10)]
    assert keys(table, reverse=True) == [b"%d" % number for number in reversed(range(10))]


def test_a_snapshot_stays_as_it_was(table: siltstone.Table) -> None:
    version = table.update({b"a": b"1", b"b": b"2"})
    with table.snapshot(60) as snapshot:
        table.remove_range()
        table.put(b"c", b"3")
        assert snapshot.version >= version
        assert keys(snapshot) == [b"a", b"b"]
        assert keys(snapshot, reverse=True) == [b"b", b"a"]
        assert snapshot.get(b"a") == siltstone.TableValue(value=b"1", version=version)
        assert snapshot.get(b"c") is None
        assert keys(table) == [b"c"]
    with pytest.raises(siltstone.SnapshotExpiredError):
        snapshot.get(b"a")


@pytest.mark.parametrize("ttl_s", [0, -1, 24 * 3600 + 1, float("nan")])
def test_a_snapshot_has_a_limited_life(table: siltstone.Table, ttl_s: float) -> None:
    with pytest.raises(ValueError, match="ttl_s"):
        table.snapshot(ttl_s)


def test_a_follower_continues_from_a_snapshot(table: siltstone.Table) -> None:
    table.put(b"before", b"")
    snapshot = table.snapshot()
    made = [table.update({b"a": b"1", b"b": None}), table.remove_range(b"a", b"c")]
    updates = table.follow(snapshot.version)
    assert [next(updates), next(updates)] == [
        TableUpdate(version=made[0], changes=(KeyChange(b"a", b"1"), KeyChange(b"b", None))),
        TableUpdate(version=made[1], changes=(RangeRemoval(b"a", b"c"),)),
    ]
    waiting = threading.Timer(0.05, lambda: table.remove_range(b"x"))
    waiting.start()
    assert next(updates).changes == (RangeRemoval(b"x", None),)
    waiting.join()
    updates.close()  # type: ignore[attr-defined]


def test_a_version_that_never_was_is_told(table: siltstone.Table) -> None:
    table.put(b"a", b"")
    version = table.put(b"b", b"")
    with pytest.raises(ValueError, match="version"):
        next(table.follow(version - 1))


def test_a_snapshot_ends_with_its_store_and_does_not_hold_it(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        table = store.create_table("t")
        version = table.put(b"a", b"1")
        store.flush()
        snapshot = table.snapshot()
    del snapshot
    with siltstone.open(tmp_path) as store:
        table = store.table("t")
        found = table.get(b"a")
        assert found is not None
        assert found.version == version
        updates = table.follow(0)
        assert next(updates).changes == (KeyChange(b"a", b"1"),)
        updates.close()  # type: ignore[attr-defined]
