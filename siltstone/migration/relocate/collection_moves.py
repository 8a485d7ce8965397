"""The collections of a store that moves to another long-term storage.

Those in a table of the owner move with the chunks of that table, and only their objects of rows are
copied. Others have no owner whose log could be held: processes append to them until the old place
says, in the last entry of each collection, that it moved. That is after the place lost its name, so
who opens them again finds no store. All objects of rows but those of the last moments are copied
before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final

from siltstone.collections.any_collection import collections_are_installed, has_collections
from siltstone.collections.consensus.object_names import COLLECTIONS_PREFIX
from siltstone.collections.consensus.plugin import OBJECTS
from siltstone.collections.consensus.table_plugin import TABLE
from siltstone.collections.state.part_names import object_parts
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import CapabilityError, CorruptDataError, SettingsError
from siltstone.core.packages import install_hint
from siltstone.core.records.collection_state import CollectionState
from siltstone.core.storage.optional_verbs import delete_many
from siltstone.core.text import uuid_text
from siltstone.migration.relocate.copied_objects import Move, MoveReport, copied_objects
from siltstone.migration.relocate.rows import Content
from siltstone.migration.source.held_collections import held_collections
from siltstone.store.manifest import MOVED_NAME

PARTS: Final = "/parts/"
"""In the name of each object of rows, and of no other object of collections."""


def consensus_to_move(source: ChunkStorage, target: ChunkStorage, move: Move) -> str | None:
    """Return what orders the collections of a store that is to move; ``None`` if it has none.

    Raises:
        CapabilityError: they cannot move: their package is not installed, another consensus keeps
            their order elsewhere, or the new place has no whole creates.
        SettingsError: the new settings name another consensus.
    """
    if not has_collections(source):
        return None
    if not collections_are_installed():
        hint = install_hint("collections")
        raise CapabilityError(
            f"the store has collections, which need a package to move; try: {hint}"
        )
    from siltstone.collections.consensus_choice import chosen_consensus

    chosen = chosen_consensus(source)
    if chosen not in (OBJECTS, TABLE):
        raise CapabilityError(
            "collections whose order is kept by a package cannot move: drop them, or copy them to "
            "another store by collection copy",
            consensus=chosen,
        )
    if move.new.collections.consensus != chosen:
        raise SettingsError(
            f"{move.new.file}: collections.consensus has to be that of the store, {chosen}"
        )
    if not target.capabilities.whole:
        raise CapabilityError(
            "collections need long-term storage that creates an object whole or not at all"
        )
    return chosen


@contextmanager
def held_contents(path: str) -> Iterator[dict[str, Content]]:
    """What is to be at the new place of collections, by name; it is kept until the block ends.

    Args:
        path: settings file of the store, which is pinned, or which no process can own.

    Raises:
        CorruptDataError: a collection cannot be read; it is named.
        LeaseExpiredError: objects may have been deleted meanwhile; instead of an error that says
            that they are lost.
    """
    with held_collections(path, is_pinned=True) as hold:
        if hold is None:
            yield {}
            return
        for subject, reason in hold.damaged.items():
            raise CorruptDataError(f"{subject} cannot be read: {reason}", where=COLLECTIONS_PREFIX)
        try:
            yield _contents(one.state for one in hold.found)
        except CorruptDataError:
            hold.check()
            raise


def _contents(states: Iterable[CollectionState]) -> dict[str, Content]:
    return {
        name: Content(part.length, crc=part.crc)
        for state in states
        for name, part in object_parts(state).items()
    }


def listed_contents(source: ChunkStorage) -> dict[str, Content]:
    """All that is below ``collections/``, where no process can change it. Raises ``ChunkError``."""
    return {stat.name: Content(stat.length) for stat in source.list(COLLECTIONS_PREFIX)}


def move_collections(
    move: Move, store_id: bytes, source: ChunkStorage, target: ChunkStorage
) -> MoveReport:
    """Let all collections continue at the new place. May be repeated until that has a name.

    Args:
        move: from where to where.
        store_id: of the store, 16 bytes. The old place has lost its name, the new one has none yet.
        source: storage of the old place.
        target: that of the new one.

    Raises:
        CorruptDataError, PipelineError, ChunkError: see ``copied_objects``. The store has no place
            until this was repeated.
        CapabilityError, SettingsError: see ``consensus_to_move``; the same.
    """
    if consensus_to_move(source, target, move) != OBJECTS:
        return MoveReport()
    from siltstone.collections.moves import arrived, moved_away, object_place

    with (
        closing(SystemEnvironment()) as environment,
        closing(object_place(move.old, store_id, environment)) as old,
        closing(object_place(move.new, store_id, environment)) as new,
    ):
        states = asyncio.run(moved_away(old))
        wanted = _contents(states)
        found = {stat.name: stat.length for stat in target.list(COLLECTIONS_PREFIX)}
        uuid = uuid_text(store_id)
        report = copied_objects(move, uuid, wanted, found, (), named=MOVED_NAME)
        asyncio.run(arrived(source, new, states))
        _delete_parts(target, found, wanted)
        return report


def _delete_parts(
    target: ChunkStorage, found: Mapping[str, int], wanted: Mapping[str, Content]
) -> None:
    """Delete objects of rows that no state needs: they were copied, or left there, long ago."""
    extra = [name for name in found if PARTS in name and name not in wanted]
    for error in delete_many(target, extra).values():
        raise error
