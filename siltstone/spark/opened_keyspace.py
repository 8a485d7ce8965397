"""A keyspace of a store that is opened for reading: only the container that has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from siltstone.core.constants import container_of
from siltstone.objects.open_spaces import open_space
from siltstone.store.store import open_store, parts_of
from siltstone.store.store_assembly import container_count

if TYPE_CHECKING:
    from siltstone.objects.space_names import SpaceNames
    from siltstone.objects.space_parts import SpaceParts
    from siltstone.store.blocking.background_loop import BackgroundLoop


@contextmanager
def opened_keyspace(path: str, names: SpaceNames) -> Iterator[tuple[BackgroundLoop, SpaceParts]]:
    """Yield the loop of an open store and the parts of one of its keyspaces.

    Raises:
        KeyspaceNotFoundError: there is no such keyspace.
        RebuildingError: its ledger is being rebuilt.
        SiltstoneError: whatever opening a store read-only raises.
    """
    only = [container_of(names.ledger, container_count(path))]
    with open_store(path, read_only=True, containers=only) as store:
        loop, opened = parts_of(store)
        yield loop, loop.run(open_space(opened, names)).parts
