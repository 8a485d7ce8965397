"""How the collections of a store are reached: the steps from its settings file to a place."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

from siltstone.collections.consensus_choice import check_choice
from siltstone.collections.place import CollectionPlace, CollectionSettings, collection_settings
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.consensus import Consensus
from siltstone.core.environment import Environment
from siltstone.core.hooks import load_consensus
from siltstone.store.settings.plugin_options import with_place
from siltstone.store.store_assembly import Assembly, assembled

COLLECTIONS: Final = "collections"
"""In place of a container, in metrics."""


def opened_place(
    path: Path | str, environment: Environment, chosen: CollectionSettings | None
) -> CollectionPlace:
    """Return a place with clients of its own, which reach the collections of a store. Blocking.

    Args:
        path: a settings file, or the folder that holds ``siltstone.yaml``.
        environment: gives time and randomness.
        chosen: how this process uses collections; ``None`` means as the settings file says.

    Raises:
        StoreNotFoundError: there is no settings file, or no store on long-term storage.
        SettingsError: the settings file is wrong, or no such consensus is installed.
        CapabilityError: long-term storage lacks what the consensus needs.
        CollectionError: the store's collections use another consensus.
        ChunkError: long-term storage did not answer.
    """
    with closing(assembled(path, environment)) as assembly:
        return place_of(assembly, environment, chosen)


def place_of(
    assembly: Assembly, environment: Environment, chosen: CollectionSettings | None
) -> CollectionPlace:
    """See ``opened_place``, for a store whose settings and name are known."""
    settings = chosen or collection_settings(assembly.settings)
    storage = storage_for(assembly, settings)
    try:
        consensus = with_place(
            assembly.settings.text,
            "collections",
            settings.consensus,
            settings.consensus_options,
            lambda: load_consensus(
                settings.consensus, settings.consensus_options, storage, environment
            ),
        )
    except BaseException:
        storage.close()
        raise
    return place_with(assembly, settings, storage, consensus, environment)


def storage_for(assembly: Assembly, settings: CollectionSettings) -> ChunkStorage:
    """A client of long-term storage, where collections use the consensus of ``settings``. Blocking.

    Raises:
        CollectionError: they use another consensus.
        ChunkError: long-term storage did not answer.
    """
    storage = assembly.new_storage()
    try:
        check_choice(storage, settings.consensus)
    except BaseException:
        storage.close()
        raise
    return storage


def place_with(
    assembly: Assembly,
    settings: CollectionSettings,
    storage: ChunkStorage,
    consensus: Consensus,
    environment: Environment,
) -> CollectionPlace:
    """Return the place of these; it closes storage and consensus."""
    return CollectionPlace(
        storage=storage,
        consensus=consensus,
        environment=environment,
        settings=settings,
        store_id=assembly.manifest.store_id,
        who=assembly.owner,
        metrics=assembly.new_metrics(COLLECTIONS),
    )
