"""A collection of gusts in a store in memory, for tests of the classes that Spark calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from siltstone.collections.blocking import Collection, Collections
from tests.support.collections.store_fixtures import SETTINGS, collections, folder
from tests.support.spark.collection_world import GUSTS, NAME, multiset

__all__ = ["SETTINGS", "collections", "folder", "gusts", "parts", "shown"]


@pytest.fixture
def gusts(collections: Collections) -> Collection:
    """A collection without rows."""
    return collections.create(NAME, GUSTS, key=["station"], times="count")


def shown(gusts: Collection) -> object:
    """Its newest rows as a multiset."""
    return multiset(gusts.snapshot().to_arrow())


def parts(folder: Path) -> int:
    """How many objects of rows there are."""
    return len(list(folder.rglob("*.parquet")))
