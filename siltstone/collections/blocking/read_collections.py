"""The collections of a store for verbs that change nothing, wherever their entries are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from siltstone.collections.blocking.collections import Collections, open_collections
from siltstone.collections.consensus.table_keys import TABLE_NAME
from siltstone.collections.consensus.table_plugin import TABLE
from siltstone.collections.consensus_choice import chosen_consensus
from siltstone.collections.place import collection_settings
from siltstone.core.constants import container_of
from siltstone.store.opening import Recover
from siltstone.store.settings.effective import load_settings
from siltstone.store.store import open_store
from siltstone.store.store_assembly import container_count, storage_of


@contextmanager
def collections_to_read(path: Path | str, recover: Recover | None = None) -> Iterator[Collections]:
    """Open the collections of a store until the end of the block; nothing is claimed.

    Those in a table are read by a reader of the store, next to its owner or without one, and
    whatever would change something is a ``ReadOnlyError``.

    Args:
        path: a settings file, or the folder that holds ``siltstone.yaml``.
        recover: ``"read-only"`` shows what long-term storage alone has of a table.

    Raises:
        SiltstoneError: whatever opening the store, or collections by a path, raises.
    """
    if not are_in_table(path, recover):
        with open_collections(path) as opened:
            yield opened
        return
    chosen = collection_settings(load_settings(path))
    # Recovery with a lost manifest knows no count.
    only = None if recover else [container_of(TABLE_NAME, container_count(path))]
    with (
        open_store(path, read_only=True, recover=recover, containers=only) as store,
        open_collections(store, settings=replace(chosen, consensus=TABLE)) as opened,
    ):
        yield opened


def are_in_table(path: Path | str, recover: Recover | None = None) -> bool:
    """Whether the collections of a store are in a table of it: then its owner alone changes them.

    Args:
        path: a settings file, or the folder that holds ``siltstone.yaml``.
        recover: not ``None`` where settings were made for one look at long-term storage, which do
            not say it; then the store is asked.

    Raises:
        SettingsError: the settings file is wrong.
        ChunkError: long-term storage did not answer.
    """
    if collection_settings(load_settings(path)).consensus == TABLE:
        return True
    if recover is None:
        return False
    with closing(storage_of(path)) as storage:
        return chosen_consensus(storage) == TABLE
