"""The write of one part under a name that was never used, by any client of long-term storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from siltstone.collections.place import random_u64
from siltstone.collections.state.part_names import name_of_part, part_key
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import Buffer
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkError, ChunkExistsError, Outcome
from siltstone.core.records.collection_part import CollectionPart

TRIES: Final = 3
"""Of one part, each under a name of its own; what a try left, the sweep deletes."""


def put_part(
    storage: ChunkStorage,
    collection_id: bytes,
    part: CollectionPart,
    buffers: Sequence[Buffer],
    environment: Environment,
) -> CollectionPart:
    """Write the object of a part, and return its row. Blocking.

    Args:
        storage: long-term storage.
        collection_id: 16 bytes.
        part: complete but for its nonce.
        buffers: bytes of the object, in order.
        environment: gives randomness.

    Raises:
        ChunkError: it could not be written. What was written, the sweep deletes.
    """
    for attempt in range(1, TRIES + 1):
        named = replace(part, nonce=random_u64(environment))
        try:
            storage.create(part_key(collection_id, name_of_part(named)), tuple(buffers))
        except ChunkExistsError:
            continue
        except ChunkError as error:
            if error.outcome is not Outcome.UNKNOWN or attempt == TRIES:
                raise
        else:
            return named
    raise AssertionError("a random name is taken each time")
