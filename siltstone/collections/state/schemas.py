"""The command that gives a collection a wider schema. Schemas that parts have stay."""

from __future__ import annotations

from dataclasses import replace

from siltstone.collections.state.limits import SCHEMAS_BYTES_MAX, SCHEMAS_MAX
from siltstone.collections.state.refusals import check_open, check_room, name_of
from siltstone.core.errors import CollectionSchemaError
from siltstone.core.records.collection_rows import SCHEMA_BYTES_MAX, CollectionSchema
from siltstone.core.records.collection_state import CollectionState


def newest_schema(state: CollectionState) -> CollectionSchema:
    """The schema that rows are shown in."""
    return state.schemas[max(state.schemas)]


def evolve(
    state: CollectionState, now_ms: int, *, expected: int, arrow: bytes
) -> tuple[CollectionState, CollectionSchema]:
    """Add a schema, which becomes the newest. May be repeated.

    Args:
        state: the state.
        now_ms: not looked at.
        expected: id of the newest schema; parts of it can be shown in the new one, which the
            caller has checked.
        arrow: the new one, as Arrow serializes it, 64 KiB at most.

    Returns:
        The new state and the newest schema: the one that was there, if it is the same.

    Raises:
        CollectionSchemaError: another schema came meanwhile, or the new one is too long.
        CollectionLimitError: there are 256 schemas, or 4 MiB of them.
        CollectionDroppedError: it was dropped.
        CollectionMovedError: it continues elsewhere.
    """
    del now_ms
    check_open(state)
    newest = newest_schema(state)
    if newest.arrow == arrow:
        return state, newest
    if newest.schema_id != expected:
        raise CollectionSchemaError(
            "another schema came meanwhile",
            collection=name_of(state),
            expected=expected,
            current=newest.schema_id,
        )
    if len(arrow) > SCHEMA_BYTES_MAX:
        raise CollectionSchemaError(
            "schema is too long", collection=name_of(state), limit=SCHEMA_BYTES_MAX
        )
    check_room(state, "schemas", len(state.schemas), SCHEMAS_MAX)
    size = sum(len(schema.arrow) for schema in state.schemas.values()) + len(arrow)
    check_room(state, "bytes of schemas", size - 1, SCHEMAS_BYTES_MAX)
    made = CollectionSchema(
        schema_id=newest.schema_id + 1, key_columns=newest.key_columns, arrow=arrow
    )
    return replace(state, schemas={**state.schemas, made.schema_id: made}), made
