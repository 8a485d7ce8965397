"""What holds promise, seen from outside at one moment, whatever processes know of it."""

from __future__ import annotations

from siltstone.collections.place import CollectionPlace
from siltstone.collections.state.part_names import names_in, part_key
from siltstone.collections.state.replay import replayed
from siltstone.collections.state.rollups import floor_rollup
from siltstone.collections.state_progress import advanced
from siltstone.core.records.collection_state import CollectionState, decode_state
from tests.simulation.facts import ViolationError


def check_held(place: CollectionPlace) -> None:
    """Check each collection: entries are whole, and parts that a row holds are there.

    Args:
        place: whose requests never fail and take no time.

    Raises:
        ViolationError: a part is gone that a reader or a writer holds, or the since has passed one.
    """
    for collection_id in list(place.consensus.keys()):
        opened = place.consensus.open(collection_id)
        assert opened is not None, "it has an entry"
        newest, tip = advanced(None, opened)
        since_floor = place.consensus.replay(tip, floor_rollup(newest))
        if since_floor is None:
            raise ViolationError(f"entries above the floor {newest.floor} are gone")
        states = replayed(decode_state(since_floor.state, where="floor"), since_floor.diffs)
        _check_parts(place, newest, states)
        sinces = [row.since for row in newest.readers.values()]
        sinces += [row.since for row in newest.bookmarks.values()]
        if sinces and min(sinces) < newest.since:
            raise ViolationError(f"the since {newest.since} passed {min(sinces)}, which is held")


def _check_parts(
    place: CollectionPlace, newest: CollectionState, states: list[CollectionState]
) -> None:
    holds = [row.hold for row in newest.readers.values()]
    holds += [row.hold for row in newest.writers.values() if row.hold]
    held = min([newest.seqno, *holds])
    batches = {id(one): one for s in states if s.seqno >= held for one in s.batches.items}
    there = {stat.name for stat in place.storage.list(f"collections/{newest.id.hex()}/parts/")}
    for batch in batches.values():
        for name in names_in(batch):
            if part_key(newest.id, name) not in there:
                raise ViolationError(f"{name} is gone, and is held from {held} on")
