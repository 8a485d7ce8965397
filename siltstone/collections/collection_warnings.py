"""Looks at the newest state of each collection, for what people should know. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from itertools import islice

from siltstone.collections.place import REQUEST_THREADS, CollectionPlace
from siltstone.collections.state.replay import replayed
from siltstone.collections.state.state_warnings import (
    CollectionWarning,
    WarningKind,
    warnings_of,
)
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.collection_state import decode_state


async def warnings_of_each(
    place: CollectionPlace, names: Mapping[bytes, str]
) -> list[CollectionWarning]:
    """Return what is to be looked at in collections, as many at a time as there are threads.

    Costs the opening of each, 3 requests. Raises ``ChunkError``.
    """
    found: list[CollectionWarning] = []
    left = iter(names.items())
    while some := list(islice(left, REQUEST_THREADS)):
        looks = [place.ask(partial(_looked, place, one, name)) for one, name in some]
        for of_one in await asyncio.gather(*looks):
            found += of_one
    return found


def _looked(place: CollectionPlace, collection_id: bytes, name: str) -> list[CollectionWarning]:
    """Open one, and look. Blocking."""
    try:
        opened = place.consensus.open(collection_id)
        if opened is None:
            return []
        where = f"rollup {opened.rollup.seqno} of collection {name}"
        state = replayed(decode_state(opened.state, where=where), opened.diffs)[-1]
    except (CorruptDataError, FormatError) as error:
        kind = WarningKind.UNREADABLE
        return [CollectionWarning(collection=name, kind=kind, message=str(error))]
    return list(warnings_of(name, state))
