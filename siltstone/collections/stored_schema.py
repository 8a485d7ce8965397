"""The schemas of a collection, as its state keeps them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from siltstone.collections.rows.row_schema import RowSchema
from siltstone.collections.state.schemas import newest_schema
from siltstone.core.records.collection_rows import CollectionSchema
from siltstone.core.records.collection_state import CollectionState

SCHEMAS_REMEMBERED: Final = 256
"""Each append looks at one, and to decode it takes as long as to make the rows a table."""


def row_schema_of(state: CollectionState) -> tuple[int, RowSchema]:
    """The newest schema of a collection, and its id. Raises ``CorruptDataError``."""
    schema = newest_schema(state)
    return schema.schema_id, _decoded(state.id, schema)


def schemas_of(state: CollectionState) -> dict[int, RowSchema]:
    """All schemas of a collection, by id. Raises ``CorruptDataError``."""
    return {number: _decoded(state.id, schema) for number, schema in state.schemas.items()}


@lru_cache(maxsize=SCHEMAS_REMEMBERED)
def _decoded(collection_id: bytes, schema: CollectionSchema) -> RowSchema:
    where = f"schema {schema.schema_id} of collection {collection_id.hex()}"
    return RowSchema.from_bytes(schema.arrow, schema.key_columns, where=where)
