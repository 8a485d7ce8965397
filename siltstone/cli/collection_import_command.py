"""The verb ``collection import``: a table elsewhere, in one append."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.collection_changes import changing
from siltstone.cli.collection_times import TIME, time_in
from siltstone.cli.interrupts import goes_on
from siltstone.cli.output import counting_bar, print_json, say
from siltstone.cli.session import Session, dry_run_option, json_option, pass_session
from siltstone.core.errors import CollectionNotFoundError
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.collections.blocking import Collection, Collections
    from siltstone.collections.sources.table_source import TableSource

SOURCE_FORMATS = ("parquet", "delta")


@click.command("import")
@click.argument("collection")
@click.argument("source")
@click.option(
    "--format",
    "form",
    type=click.Choice(SOURCE_FORMATS),
    help="What SOURCE is; what is there tells if not given.",
)
@click.option(
    "--version",
    type=click.IntRange(min=0),
    metavar="N",
    help="Version of a table of Delta; the newest if not given.",
)
@click.option("--columns", metavar="NAMES", help="Columns to import, separated by commas.")
@click.option(
    "--key",
    multiple=True,
    metavar="NAME",
    help="Column that rows are sorted by, where COLLECTION is not there and is made; may stand "
    "several times.",
)
@click.option(
    "--time",
    type=TIME,
    metavar="TIME",
    help="Time of the rows, from the upper on; the present one if not given.",
)
@click.option("--writer", metavar="NAME", help="Import once under this name; needs --sequence.")
@click.option("--sequence", type=click.IntRange(min=0), help="Number of this import; it grows.")
@dry_run_option
@json_option
@pass_session
def import_(session: Session, /, *, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Append the rows of SOURCE, a folder of Parquet or a table of Delta, to COLLECTION.

    All of them come at one time, or none; a collection that --key made stays, without rows. A
    repeat of the same command appends nothing, and prints the same time. SOURCE is a path, or a URL
    such as s3://bucket/folder.
    """
    name, columns = given["collection"], given["columns"]
    if (given["writer"] is None) != (given["sequence"] is None):
        raise click.UsageError("--writer and --sequence go together")
    if given["version"] is not None and given["form"] == "parquet":
        raise click.UsageError("--version is for a table of Delta")
    with goes_on(), changing(session, dry_run=dry_run) as collections:
        # Imported here, so that help does not wait for Arrow, and a lack of it is told.
        from siltstone.collections.sources.any_source import table_source

        source = table_source(
            given["source"],
            format=given["form"],
            version=given["version"],
            columns=None if columns is None else columns.split(","),
        )
        target = _target(collections, name, source, given["key"], dry_run=dry_run)
        if dry_run:
            _tell_plan(name, source, made=target is None, as_json=as_json)
            return
        assert target is not None, "it is made where it is not there"
        time = None if given["time"] is None else time_in(target.info(), given["time"])
        with counting_bar(name, source.size_bytes, shown=not session.quiet) as read:
            told = target.import_rows(
                source,
                time=time,
                writer=given["writer"],
                sequence=given["sequence"],
                progress=read,
            )
        if as_json:
            fields = {"rows": told.rows, "files": told.files, "taken": told.taken}
            ends = {"time": told.time, "upper": told.upper, "repeated": told.repeated}
            print_json({"collection": name, **ends, **fields})
        else:
            say(f"{told.time} {'-' if told.repeated else told.rows}")


def _target(
    collections: Collections,
    name: str,
    source: TableSource,
    key: tuple[str, ...],
    *,
    dry_run: bool,
) -> Collection | None:
    """The collection, made where it is not there and a key is given; ``None`` in a dry run."""
    from siltstone.collections.rows.row_schema import RowSchema, row_schema

    try:
        found = collections.collection(name)
    except CollectionNotFoundError:
        if not key:
            raise
        schema = row_schema(source.schema, key)  # With its errors, in a dry run too.
        return None if dry_run else collections.create(name, schema.arrow, key=key)
    info = found.info()
    if key and list(key) != list(info.key):
        raise click.UsageError(
            f"{name} is there, and its key is {', '.join(info.key)}: leave --key out"
        )
    source.check(RowSchema(info.schema, len(info.key)))
    return found


def _tell_plan(name: str, source: TableSource, *, made: bool, as_json: bool) -> None:
    if as_json:
        facts = {"files": source.files, "length": source.size_bytes, "rows": source.rows}
        columns = [{"name": field.name, "type": str(field.type)} for field in source.schema]
        print_json({"would_import": name, "would_create": made, **facts, "columns": columns})
        return
    files = f"{counted(source.files, 'file')} of {counted(source.size_bytes, 'byte')}"
    rows = "" if source.rows is None else f", {counted(source.rows, 'row')}"
    say(f"would import {files}{rows}")
    if made:
        say(f"would create {name}: {', '.join(f'{f.name} {f.type}' for f in source.schema)}")
