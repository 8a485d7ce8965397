"""An empty index and tables over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.metadata.index import Index
from siltstone.metadata.rows import Rows
from siltstone.metadata.tables import Tables

LINEAGE = b"lineage-of-tests"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index.open(tmp_path / "index", cache_bytes=1 << 20)
    yield index
    index.close()


@pytest.fixture
def tables(index: Index) -> Tables:
    return Tables(index, LINEAGE)


@pytest.fixture
def rows(tables: Tables) -> Rows:
    return Rows(tables)
