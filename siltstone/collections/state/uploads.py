"""Whether parts may enter a state: each once, of a known writer, and where there is room."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from siltstone.collections.state.limits import INLINE_MAX, PARTS_MAX
from siltstone.collections.state.part_names import PartName, name_of_part
from siltstone.collections.state.refusals import name_of
from siltstone.core.errors import (
    BackPressureError,
    BatchExpiredError,
    CollectionSchemaError,
    InlineLimitError,
)
from siltstone.core.records.collection_batch import Batches
from siltstone.core.records.collection_part import CollectionPart
from siltstone.core.records.collection_rows import CollectionWriter
from siltstone.core.records.collection_state import CollectionState


def check_parts(
    state: CollectionState, parts: Sequence[CollectionPart], *, known: Collection[PartName] = ()
) -> None:
    """Check that parts may be appended, but for those whose names are ``known`` already.

    Raises:
        CollectionSchemaError: a part has a schema that the state has not.
        BatchExpiredError: a part is there twice, its writer is not there, it is born below the hold
            of its writer, which means that it was appended or given up, or it is born later than
            this state.
    """
    seen: set[PartName] = set()
    ids: dict[int, CollectionWriter] = {}
    if any(part.inline is None for part in parts):
        ids = {row.id: row for row in state.writers.values() if row.hold}
    for part in parts:
        if part.schema_id not in state.schemas:
            raise CollectionSchemaError(
                "part of an unknown schema", collection=name_of(state), schema_id=part.schema_id
            )
        if part.inline is not None:
            continue
        name = name_of_part(part)
        if name in seen:
            raise _expired(state, part, "part is there twice")
        seen.add(name)
        if name in known:
            continue
        row = ids.get(part.writer)
        if row is None:
            raise _expired(state, part, "writer of a part was forgotten")
        if part.born < row.hold:
            raise _expired(state, part, "part was appended or given up before")
        if part.born > state.seqno:
            raise _expired(state, part, "part of a later state")


def holds_moved(
    writers: Mapping[str, CollectionWriter], parts: Sequence[CollectionPart]
) -> Mapping[str, CollectionWriter]:
    """Return the rows of writers, of which none can append any of these parts again."""
    beyond: dict[int, int] = {}
    for part in parts:
        if part.inline is None:
            beyond[part.writer] = max(beyond.get(part.writer, 0), part.born + 1)
    if not beyond:
        return writers
    return {
        name: replace(row, hold=max(row.hold, beyond[row.id]))
        if row.hold and row.id in beyond
        else row
        for name, row in writers.items()
    }


def check_batches(state: CollectionState, batches: Batches) -> None:
    """Check that there is room for all parts of these batches.

    Raises:
        BackPressureError: too many parts.
        InlineLimitError: too many bytes of rows in the state.
    """
    if batches.part_count > PARTS_MAX:
        raise BackPressureError("too many parts", collection=name_of(state), limit=PARTS_MAX)
    if batches.inline_bytes > INLINE_MAX:
        raise InlineLimitError(
            "too many rows in the state", collection=name_of(state), limit=INLINE_MAX
        )


def _expired(state: CollectionState, part: CollectionPart, message: str) -> BatchExpiredError:
    return BatchExpiredError(
        message, collection=name_of(state), writer=f"{part.writer:016x}", born=part.born
    )
