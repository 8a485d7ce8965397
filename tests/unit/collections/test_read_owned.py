"""Collections in a table of a store, for processes that read next to its owner or without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone.collections.blocking import Collection, Collections, open_collections
from siltstone.collections.blocking.read_collections import collections_to_read
from siltstone.collections.place import CollectionSettings
from siltstone.core.errors import CollectionNotFoundError, ReadOnlyError
from tests.support.collections.collections_world import NAME, SCHEMA, many_rows, rows
from tests.support.memory_folder import folder_in_memory
from tests.support.services.table_places import table_store

AT_ONCE = CollectionSettings(consensus="table", garbage_delay_ms=0, compacts=False)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A store whose collections are in a table, and that no process has open."""
    with folder_in_memory(tmp_path) as made:
        table_store(made, containers=3)
        yield made


def files(folder: Path) -> dict[str, bytes]:
    """All objects of collections."""
    root = folder / "chunks" / "collections"
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_reader_sees_all_that_the_owner_acknowledged_before(folder: Path) -> None:
    with (
        siltstone.open(folder) as store,
        open_collections(store) as collections,
        siltstone.open(folder, read_only=True) as reader,
        open_collections(reader) as seen,
    ):
        assert seen.list() == []
        with pytest.raises(CollectionNotFoundError):
            seen.collection(NAME)
        gusts = collections.create(NAME, SCHEMA, key=["k"], times="count")
        mirror = seen.collection(NAME)
        for number in range(150):  # Rollups, and entries that are removed.
            gusts.append(rows(("a", number)))
            assert mirror.info().upper == number + 1
        gusts.append(many_rows(700))
        collections.settle()
        gusts.collect()
        assert mirror.snapshot().to_arrow().num_rows == 850
        assert mirror.snapshot(as_of=20).to_arrow().num_rows == 21
        changes = mirror.listen(100, lease=False, until=151)
        assert sum(len(step.updates) for step in changes) == 750
        assert list(seen.check(deep=True)) == []


def test_who_reads_needs_no_owner(folder: Path) -> None:
    with siltstone.open(folder) as store, open_collections(store) as collections:
        collections.create(NAME, SCHEMA, key=["k"]).append(many_rows(700))
    with collections_to_read(folder) as seen:
        assert seen.list() == [NAME]
        assert seen.collection(NAME).snapshot().to_arrow().num_rows == 700
        assert [one.name for one in seen.space()] == ["catalog", NAME]
        assert list(seen.warnings()) == []


def test_long_term_storage_alone_shows_what_was_flushed(folder: Path) -> None:
    """Also where the settings do not say that there is a table, as those of a look by a URL."""
    with siltstone.open(folder) as store, open_collections(store) as collections:
        gusts = collections.create(NAME, SCHEMA, key=["k"], times="count")
        gusts.append(rows(("a", 1)))
        store.flush()
        gusts.append(rows(("a", 2)))
        file = folder / "siltstone.yaml"
        file.write_text(file.read_text().replace("consensus: table", "consensus: objects"))
        with collections_to_read(folder, recover="read-only") as seen:
            assert seen.collection(NAME).snapshot().to_arrow()["v"].to_pylist() == [1]


CHANGES: list[Callable[[Collections, Collection], object]] = [
    lambda all_of, one: one.append(rows(("b", 1))),
    lambda all_of, one: one.append(many_rows(700)),
    lambda all_of, one: one.batch(many_rows(700)),
    lambda all_of, one: one.writer("loader").append(rows(("b", 1)), sequence=0),
    lambda all_of, one: one.finish(),
    lambda all_of, one: one.compact(),
    lambda all_of, one: one.collect(),
    lambda all_of, one: one.sweep(),
    lambda all_of, one: one.bookmark("mine"),
    lambda all_of, one: one.advance_since(1),
    lambda all_of, one: one.snapshot(lease=True),
    lambda all_of, one: one.subscribe(),
    lambda all_of, one: all_of.collect(),
    lambda all_of, one: all_of.sweep(),
    lambda all_of, one: all_of.sweep(nameless=True),
    lambda all_of, one: all_of.rename(NAME, "other"),
    lambda all_of, one: all_of.drop(NAME),
    lambda all_of, one: all_of.create("other", SCHEMA, key=["k"]),
]


def test_who_reads_changes_nothing(folder: Path) -> None:
    """There is garbage, and there are parts that a sweep would delete: no process appended them."""
    with siltstone.open(folder) as store, open_collections(store, settings=AT_ONCE) as collections:
        gusts = collections.create(NAME, SCHEMA, key=["k"], times="count")
        for number in range(3):
            gusts.append(many_rows(700, number * 700))
        gusts.compact()
        gusts.append(rows(("a", 1)))
        gusts.batch(many_rows(700))
        for row in gusts.info().writers:
            gusts.forget_writer(row.name)
    before = files(folder)
    with siltstone.open(folder, read_only=True) as reader:
        for change in CHANGES:
            with (
                open_collections(reader, settings=AT_ONCE) as seen,
                pytest.raises(ReadOnlyError, match="by the process that owns the store"),
            ):
                change(seen, seen.collection(NAME))
        with open_collections(reader, settings=AT_ONCE) as seen:
            assert seen.collection(NAME).snapshot().to_arrow().num_rows == 2_101
            assert seen.collect(dry_run=True) == 3
            assert {one.severity for one in seen.check()} == {"garbage"}
    assert files(folder) == before


def test_who_reads_begins_no_collections(folder: Path) -> None:
    siltstone.open(folder).close()
    with collections_to_read(folder) as seen, pytest.raises(ReadOnlyError, match="read only"):
        seen.create(NAME, SCHEMA, key=["k"])
    assert files(folder) == {}
