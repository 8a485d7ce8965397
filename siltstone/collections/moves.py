"""Collections that leave a place, and go on at another one, under the same ids.

The catalog leaves first, so that no collection is made after the others were looked for, and
arrives last: where it is open, everything is there.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.catalog import CATALOG_ID, CATALOG_NAME, Catalog, begun, catalog_row
from siltstone.collections.consensus.arrival import arrive, first_entry_of
from siltstone.collections.consensus.objects import ObjectConsensus
from siltstone.collections.consensus.plugin import OBJECTS
from siltstone.collections.consensus_choice import make_choice
from siltstone.collections.housekeeping import Housekeeping
from siltstone.collections.place import CollectionPlace, collection_settings
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.diffs import diff_of
from siltstone.collections.state.lives import move_away
from siltstone.collections.state.next_state import next_state
from siltstone.collections.state.restored import arrived_state
from siltstone.collections.state_progress import advanced
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.consensus import Opened
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkUnavailableError,
    CollectionDroppedError,
    LostDataError,
    UpperMismatchError,
)
from siltstone.core.records.collection_entry import Diff, Rollup
from siltstone.core.records.collection_state import CollectionState, Life, encode_state
from siltstone.store.settings.effective import EffectiveSettings
from siltstone.store.store_assembly import open_storage, owner_text

_TRIES: Final = 100
"""Each one after the first means that a collection was made meanwhile."""


def object_place(
    settings: EffectiveSettings, store_id: bytes, environment: Environment
) -> CollectionPlace:
    """Return a place whose consensus is ``objects``, also where a store has no name. Blocking.

    Raises:
        CapabilityError: long-term storage has no whole creates.
        ChunkError: it did not answer.
    """
    storage = open_storage(settings, environment)
    try:
        consensus = ObjectConsensus(storage, environment)
    except BaseException:
        storage.close()
        raise
    return CollectionPlace(
        storage=storage,
        consensus=consensus,
        environment=environment,
        settings=replace(collection_settings(settings), consensus=OBJECTS),
        store_id=store_id,
        who=owner_text(environment),
    )


async def moved_away(place: CollectionPlace) -> list[CollectionState]:
    """Let all collections leave a place; return their last states, that of the catalog last.

    Whatever was acknowledged here is in them, and nothing is after them: who has a collection
    open here gets ``CollectionMovedError``. Dropped ones are as they were. May be repeated.

    Args:
        place: of a store that no process can open any more.

    Raises:
        CorruptDataError: a collection cannot be read; those before it have left.
        ChunkError: long-term storage did not answer.
    """
    catalog = await _catalog_moved(place)
    states: list[CollectionState] = []
    for collection_id in await place.ask(lambda: list(place.consensus.keys())):
        opened = await place.ask(partial(place.consensus.open, collection_id))
        assert opened is not None, "it was listed"
        if collection_id != CATALOG_ID:
            states.append(await _moved(place, opened))
    return [*states, catalog]


async def _catalog_moved(place: CollectionPlace) -> CollectionState:
    """Let the catalog leave when each collection in it has begun, so that none begins later."""
    row = catalog_row()
    opened = await place.ask(partial(begun, place, row, is_leaving=True))
    state, _ = advanced(None, opened)
    if state.life is Life.MOVED:
        return state
    housekeeping = Housekeeping(place, opened)
    try:
        catalog = Catalog(AsyncCollection(CATALOG_NAME, place, housekeeping))
        for _ in range(_TRIES):
            upper = (await housekeeping.shared.refresh()).upper
            for one in (await catalog.rows()).values():
                await place.ask(partial(begun, place, one))
            try:
                await housekeeping.shared.run(partial(_move_at, upper=upper))
            except UpperMismatchError:
                continue
            return housekeeping.shared.state
    finally:
        await housekeeping.close()
    raise ChunkUnavailableError(
        "collections are made faster than they can be moved", chunk="", operation="create"
    )


def _move_at(state: CollectionState, now_ms: int, *, upper: int) -> tuple[CollectionState, None]:
    if state.life is Life.OPEN and state.upper != upper:
        raise UpperMismatchError(collection=CATALOG_NAME, expected=upper, current=state.upper)
    return move_away(state, now_ms)


async def _moved(place: CollectionPlace, opened: Opened) -> CollectionState:
    shared = SharedState(place, opened, lambda before, after: None)
    try:
        with suppress(CollectionDroppedError):
            await shared.run(move_away)
        return shared.state
    finally:
        await shared.close()


async def arrived(old: ChunkStorage, new: CollectionPlace, states: list[CollectionState]) -> None:
    """Let collections go on at a new place, which has the objects of their rows.

    Where it has one that did not leave, that has arrived before, and may have been changed since.
    So this may be repeated.

    Args:
        old: storage of the place that they left.
        new: the place; no collection is there but those that left it once.
        states: as ``moved_away`` returned them.

    Raises:
        CorruptDataError: the first entry of one is damaged or gone.
        ChunkError: long-term storage did not answer.
    """
    await new.ask(partial(make_choice, new.storage, OBJECTS))
    for state in states:
        if not await new.ask(partial(_is_here, new, state.id)):
            await new.ask(partial(_arrive, old, new, state))


def _is_here(place: CollectionPlace, collection_id: bytes) -> bool:
    try:
        opened = place.consensus.open(collection_id)
    except LostDataError:
        return False  # A call that died has deleted its old rollups.
    return opened is not None and advanced(None, opened)[0].life is not Life.MOVED


def _arrive(old: ChunkStorage, new: CollectionPlace, state: CollectionState) -> None:
    def diff_after(seqno: int, rollup: Rollup) -> Diff:
        before = arrived_state(state, seqno)
        after = next_state(before, replace(before, rollups={seqno: rollup}), new.now_ms())
        return diff_of(before, after, actor=new.who)

    was_here = arrive(
        new.storage,
        new.environment,
        first_entry_of(old, state.id),
        state.seqno,
        lambda seqno: encode_state(arrived_state(state, seqno)),
        diff_after,
    )
    if was_here and (opened := new.consensus.open(state.id)) is not None:
        # If this is not done, the next sweep of any process does it.
        new.consensus.sweep(opened.tip, list(advanced(None, opened)[0].rollups.values()))
