"""Collections for blocking callers, on any thread."""

from __future__ import annotations

from siltstone.collections.blocking.collection import Collection as Collection
from siltstone.collections.blocking.collection import CollectionBookmark as CollectionBookmark
from siltstone.collections.blocking.collection import CollectionSnapshot as CollectionSnapshot
from siltstone.collections.blocking.collection import CollectionWriter as CollectionWriter
from siltstone.collections.blocking.collection import Subscription as Subscription
from siltstone.collections.blocking.collections import Collections as Collections
from siltstone.collections.blocking.collections import open_collections as open_collections

__all__ = [
    "Collection",
    "CollectionBookmark",
    "CollectionSnapshot",
    "CollectionWriter",
    "Collections",
    "Subscription",
    "open_collections",
]
