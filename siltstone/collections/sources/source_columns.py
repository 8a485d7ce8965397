"""Columns of a table elsewhere, in the types that a collection has for them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow

from siltstone.collections.rows.row_schema import stored_type
from siltstone.core.errors import CollectionSchemaError, CollectionSourceError


def stored_columns(schema: pyarrow.Schema) -> pyarrow.Schema:
    """Return columns in the types of ``stored_type``, without metadata."""
    return pyarrow.schema(
        [field.with_type(stored_type(field.type)).remove_metadata() for field in schema]
    )


class JoinedColumns:
    """The columns of several files: those of the first one, and what others have besides."""

    def __init__(self) -> None:
        self._fields: dict[str, pyarrow.Field] = {}
        self._first: dict[str, str] = {}
        self._seen: set[pyarrow.Schema] = set()
        self.mixed: dict[str, CollectionSchemaError] = {}
        """By column, why it is one of no new collection."""

    def add(self, schema: pyarrow.Schema, file: str) -> None:
        """Take the columns of a file. A column that some files lack allows nulls.

        Raises:
            CollectionSchemaError: two columns of the file have one name.
        """
        plain = stored_columns(schema)
        for name in plain.names:
            if plain.names.count(name) > 1:
                raise CollectionSchemaError(
                    "two columns have one name; rename one", column=repr(name), file=file
                )
        if plain in self._seen:
            return
        for field in plain:
            known = self._fields.get(field.name)
            if known is None:
                self._fields[field.name] = field.with_nullable(field.nullable or bool(self._seen))
                self._first[field.name] = file
            elif known.type != field.type:
                self.mixed.setdefault(field.name, self._other_type(field, known, file))
            elif field.nullable:
                self._fields[field.name] = known.with_nullable(True)
        for name in self._fields.keys() - set(plain.names):
            self._fields[name] = self._fields[name].with_nullable(True)
        self._seen.add(plain)

    @property
    def schema(self) -> pyarrow.Schema:
        """All columns."""
        return pyarrow.schema(list(self._fields.values()))

    def _other_type(
        self, field: pyarrow.Field, known: pyarrow.Field, file: str
    ) -> CollectionSchemaError:
        return CollectionSchemaError(
            "files have one column in different types; make the collection first, with a type "
            "that holds the values of all, and import into it",
            column=repr(field.name),
            type=known.type,
            file=self._first[field.name],
            other_type=field.type,
            other_file=file,
        )


def chosen(schema: pyarrow.Schema, columns: Sequence[str] | None, where: str) -> pyarrow.Schema:
    """Return the columns of these names, in their order; all for ``None``.

    Raises:
        CollectionSourceError: the source has no such column, or one is named twice.
    """
    if columns is None:
        return schema
    for name in columns:
        if list(columns).count(name) > 1:
            raise CollectionSourceError(
                "a column is chosen twice; name it once", column=repr(name), source=where
            )
        if name not in schema.names:
            raise CollectionSourceError(
                "the source has no such column",
                column=repr(name),
                columns=", ".join(schema.names),
                source=where,
            )
    return pyarrow.schema([schema.field(name) for name in columns])
