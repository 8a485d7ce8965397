"""The schemas of a collection, as its state keeps them."""

from __future__ import annotations

from siltstone.collections.rows.row_schema import RowSchema
from siltstone.collections.state.schemas import newest_schema
from siltstone.core.records.collection_rows import CollectionSchema
from siltstone.core.records.collection_state import CollectionState


def row_schema_of(state: CollectionState) -> tuple[int, RowSchema]:
    """The newest schema of a collection, and its id. Raises ``CorruptDataError``."""
    schema = newest_schema(state)
    return schema.schema_id, _decoded(state, schema)


def schemas_of(state: CollectionState) -> dict[int, RowSchema]:
    """All schemas of a collection, by id. Raises ``CorruptDataError``."""
    return {number: _decoded(state, schema) for number, schema in state.schemas.items()}


def _decoded(state: CollectionState, schema: CollectionSchema) -> RowSchema:
    where = f"schema {schema.schema_id} of collection {state.id.hex()}"
    return RowSchema.from_bytes(schema.arrow, schema.key_columns, where=where)
