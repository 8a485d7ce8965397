"""A copy of an index that its owner has open: whole or not at all, and independent of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from siltstone.core.records.table_record import TableEntry
from siltstone.metadata.checkpoint import link_owned_index, linked_index
from siltstone.metadata.index import Index
from siltstone.metadata.tables import Tables
from tests.support import inside

LINEAGE = bytes(range(16))


def put(index: Index, *keys: bytes) -> None:
    """Put rows and let them get into a file."""
    tables = Tables(index, LINEAGE)
    for key in keys:
        tables.acknowledge([tables.assign([TableEntry(1, key, b"value of " + key)])], 1)
    inside.database(index).flush(wait=True)


def keys_of(index: Index) -> list[bytes]:
    return [key for key, _ in index.scan(1, b"", None)]


@pytest.fixture
def owned(tmp_path: Path) -> Index:
    index = Index.open(tmp_path / "owned")
    put(index, b"a", b"b")
    return index


def test_a_copy_has_what_the_owner_has_in_files(owned: Index, tmp_path: Path) -> None:
    copy = linked_index(owned.folder, tmp_path / "copy", Index.open)
    assert copy is not None
    assert keys_of(copy) == [b"a", b"b"]
    assert copy.position == owned.position


def test_the_copy_and_the_owner_go_their_own_ways(owned: Index, tmp_path: Path) -> None:
    copy = linked_index(owned.folder, tmp_path / "copy", Index.open)
    assert copy is not None
    put(copy, b"of the copy")
    put(owned, b"of the owner")
    inside.database(copy).compact_range(None, None)
    inside.database(owned).compact_range(None, None)
    assert keys_of(copy) == [b"a", b"b", b"of the copy"]
    assert keys_of(owned) == [b"a", b"b", b"of the owner"]
    owned.close()
    assert keys_of(Index.open(tmp_path / "owned")) == [b"a", b"b", b"of the owner"]


def test_what_was_there_goes(owned: Index, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    older = Index.open(folder)
    put(older, b"older")
    older.close()
    copy = linked_index(owned.folder, folder, Index.open)
    assert copy is not None
    assert keys_of(copy) == [b"a", b"b"]


@pytest.mark.parametrize("file", ["CURRENT", "MANIFEST-*", "*.sst"])
@pytest.mark.parametrize("way", ["missing", "cut", "zeros"])
def test_an_index_that_is_not_whole_is_no_index(tmp_path: Path, file: str, way: str) -> None:
    index = Index.open(tmp_path / "owned")
    put(index, b"a", b"b")
    index.close()
    (path,) = (tmp_path / "owned").glob(file)
    data = path.read_bytes()
    path.unlink()
    if way != "missing":
        path.write_bytes(data[: len(data) // 2] if way == "cut" else bytes(len(data)))
    copy = linked_index(tmp_path / "owned", tmp_path / "copy", Index.open)
    # The newest change of a manifest may be cut off: then the copy is older, never wrong.
    assert copy is None or keys_of(copy) in ([], [b"a", b"b"])
    assert copy is None or (file, way) == ("MANIFEST-*", "cut")


def test_no_folder_is_no_index(tmp_path: Path) -> None:
    assert not link_owned_index(tmp_path / "not there", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_files_that_go_while_they_are_linked_are_tried_again(owned: Index, tmp_path: Path) -> None:
    tries = 0

    def open_index(folder: Path) -> Index:
        nonlocal tries
        tries += 1
        if tries == 1:  # as if the owner had merged it away after the manifest was read
            next(folder.glob("*.sst")).unlink()
        return Index.open(folder)

    copy = linked_index(owned.folder, tmp_path / "copy", open_index)
    assert copy is not None
    assert keys_of(copy) == [b"a", b"b"]
    assert tries == 2
