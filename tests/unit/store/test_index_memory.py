"""The memory that the local indexes of a store take together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.core.constants import MIB
from siltstone.metadata import index
from tests.support import inside


@pytest.mark.slow
@pytest.mark.parametrize(("containers", "each"), [(1, 16 * MIB), (2, 16 * MIB), (8, 4 * MIB)])
def test_many_containers_share_what_is_kept_of_unwritten_rows(
    containers: int, each: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    plain = index._open_database

    def watched(folder: Path, cache_bytes: int, write_buffer_bytes: int, *, counted: bool) -> Any:
        asked.append(write_buffer_bytes)
        return plain(folder, cache_bytes, write_buffer_bytes, counted=counted)

    monkeypatch.setattr(index, "_open_database", watched)
    file = siltstone.init(tmp_path / "store", containers=containers)
    with siltstone.open(file, containers=[0]) as store:
        assert len(store.stats()) == 1
    assert set(asked) == {each}


def test_an_index_writes_a_file_when_its_memory_is_full(tmp_path: Path) -> None:
    opened = index.Index.open(tmp_path / "index", write_buffer_bytes=2 * MIB)
    for number in range(200):
        inside.database(opened).put(b"%d" % number, bytes(50_000))
    held = inside.database(opened).property_int_value("rocksdb.cur-size-all-mem-tables")
    opened.close()
    assert held is not None
    assert held <= 4 * 2 * MIB + MIB
