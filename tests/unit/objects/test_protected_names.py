"""What belongs to a keyspace is changed by its own verbs alone, unless a handle is forced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from tests.support.stores import make_store

VALUES = "objects/{photos}/values/00000001"
LEDGER = "objects/{photos}/ledger"
BESIDE = "mine{photos}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[siltstone.Store]:
    """A store with a keyspace, and a sealed segment in the same container."""
    with siltstone.open(make_store(tmp_path, containers=4)) as store:
        objects.create(store, "photos").put("b", "k", b"v" * 1_000, ttl_s=10_000)
        beside = store.create(BESIDE)
        beside.append(b"beside")
        beside.seal()
        yield store


def write_file(segment: siltstone.Segment) -> None:
    """Append as to a file."""
    with segment.open("ab") as file:
        file.write(b"x")


def write_buffered(segment: siltstone.Segment) -> None:
    """Append by batches."""
    with segment.buffered() as writer:
        writer.write(b"x")


CHANGES: dict[str, Callable[[siltstone.Store], object]] = {
    "append": lambda store: store.segment(VALUES).append(b"x"),
    "append many": lambda store: store.segment(VALUES).append_many([b"x"]),
    "a file": lambda store: write_file(store.segment(VALUES)),
    "buffered": lambda store: write_buffered(store.segment(VALUES)),
    "exactly once": lambda store: store.segment(VALUES).writer("w"),
    "truncate": lambda store: store.segment(VALUES).truncate(3),
    "seal": lambda store: store.segment(VALUES).seal(),
    "delete": lambda store: store.segment(VALUES).delete(),
    "rename": lambda store: store.segment(VALUES).rename(BESIDE + "2"),
    "rename to it": lambda store: store.segment(BESIDE).rename("objects/{photos}/values/00000002"),
    "concat": lambda store: store.segment(VALUES).concat(BESIDE),
    "set attributes": lambda store: store.segment(VALUES).set_attributes({"a": "b"}),
    "create": lambda store: store.create("objects/{photos}/large/0000000000000001"),
    "create a table": lambda store: store.create_table("objects/{photos}/other"),
    "put": lambda store: store.table(LEDGER).put(b"k", b"v"),
    "remove": lambda store: store.table(LEDGER).remove(b"\x02"),
    "update": lambda store: store.table(LEDGER).update({b"\x02": None}),
    "remove range": lambda store: store.table(LEDGER).remove_range(),
    "commit to the table": lambda store: store.commit([siltstone.Remove(LEDGER, b"\x02")]),
    "commit to the segment": lambda store: store.commit([siltstone.Append(VALUES, b"x")]),
    "import": lambda store: store.open_import("session", VALUES),
    "retention": lambda store: store.set_retention(VALUES, bytes_max=1),
    "retention of all": lambda store: store.set_retention(
        "objects/{photos}/", prefix=True, age_max=timedelta(hours=1)
    ),
}


def test_changes_from_outside_are_refused_and_nothing_is_changed(store: siltstone.Store) -> None:
    rows = list(store.table(LEDGER).scan())
    refused = {}
    for name, change in CHANGES.items():
        with pytest.raises(siltstone.SiltstoneError) as caught:
            change(store)
        refused[name] = caught.type if "keyspace=photos" in str(caught.value) else None
    assert refused == dict.fromkeys(CHANGES, siltstone.SegmentNameError) | {
        "buffered": siltstone.BufferedWriteError  # which has it as its cause
    }
    assert list(store.table(LEDGER).scan()) == rows
    assert [info.name for info in store.list("objects/")] == [VALUES]
    info = store.segment(VALUES).info()
    assert (info.start_offset, info.sealed, dict(info.attributes)) == (0, False, {})
    photos = objects.open(store, "photos")
    found = photos.get("b", "k")
    assert found is not None
    assert found.value == b"v" * 1_000
    photos.put("b", "k2", b"w")
    assert list(photos.check(deep=True)) == []


def test_a_segment_of_a_keyspace_is_no_source_of_a_concat(store: siltstone.Store) -> None:
    target = store.create(BESIDE + "2")
    with pytest.raises(siltstone.SegmentNameError, match="keyspace=photos"):
        target.concat(VALUES)
    assert store.segment(VALUES).info().length > 0


def test_what_only_reads_or_flushes_is_not_refused(store: siltstone.Store) -> None:
    segment, table = store.segment(VALUES), store.table(LEDGER)
    segment.flush()
    length = segment.info().length
    assert len(segment.read(0, length)) == length
    assert segment.open().read(10) == segment.read(0, 10)
    assert segment.append_bytes_max > 0
    assert segment.writers() == []
    assert list(segment.chunks())
    assert list(segment.examine())
    assert segment.offset_at(0) == 0
    assert table.get(b"\x02") is not None
    with table.snapshot() as snapshot:
        assert list(snapshot.scan()) == list(table.scan())
    assert next(iter(table.follow(0))) is not None
    name = store.create("more{photos}").name
    store.commit([siltstone.Append(name, b"x")], [siltstone.LengthIs(VALUES, length)])


def test_a_handle_that_is_forced_changes_it(
    store: siltstone.Store,
) -> None:
    store.table(LEDGER, force=True).put(b"\xff", b"v")
    assert store.table(LEDGER).get(b"\xff") is not None
    segment = store.segment(VALUES, force=True)
    segment.truncate(0)
    segment.delete()
    assert list(store.list("objects/")) == []


def test_names_that_no_keyspace_has_are_free(store: siltstone.Store) -> None:
    for name in ("objects/mine", "objects/photos/values", "objects/{photos}", "objects/{a/b}/c"):
        store.create(name).append(b"x")
        store.segment(name).delete()


def test_general_retention_leaves_the_values_of_keyspaces(store: siltstone.Store) -> None:
    """Their oldest bytes are values as all others."""
    photos = objects.open(store, "photos")
    for number in range(40):
        photos.put("b", f"k{number}", b"v" * 100_000)
    store.create("plain").append_many([b"p" * 100_000] * 40)
    store.flush()
    store.set_retention("", prefix=True, bytes_max=0)
    assert [cut.segment for cut in store.retain()] == [BESIDE, "plain"]
    assert store.segment(VALUES).info().start_offset == 0
    assert list(photos.check(deep=True)) == []


async def test_handles_of_before_refuse_after_their_container_is_open_again(
    tmp_path: Path,
) -> None:
    async with await siltstone.open_async(make_store(tmp_path)) as store:
        await objects.create_async(store, "photos")
        segment = store.segment(VALUES)
        for slot in store._here:
            slot.bind(slot.container)
        with pytest.raises(siltstone.SegmentNameError):
            await segment.delete()
