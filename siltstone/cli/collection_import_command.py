"""The verb ``collection import``: a table elsewhere, in one append."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.collection_changes import changing
from siltstone.cli.collection_times import TIME, time_in
from siltstone.cli.interrupts import goes_on
from siltstone.cli.output import counting_bar, print_json, say
from siltstone.cli.session import Session, dry_run_option, json_option, pass_session
from siltstone.core.errors import CollectionExistsError, CollectionNotFoundError
from siltstone.core.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.collections.blocking import Collections
    from siltstone.collections.row_imports import CollectionImport
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

    All of them come at one time, or none. A repeat of the same command appends nothing, and prints
    the same time. SOURCE is a path, or a URL such as s3://bucket/folder.
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
        run = _Import(collections, name, source, given)
        if dry_run:
            _tell_plan(name, source, run.made(dry_run=True), made=run.makes, as_json=as_json)
            return
        with counting_bar(name, source.size_bytes, shown=not session.quiet) as read:
            try:
                told = run.made(progress=read)
            except CollectionExistsError:  # Another process made it meanwhile.
                told = _Import(collections, name, source, given).made(progress=read)
        if as_json:
            fields = {"rows": told.rows, "files": told.files, "taken": told.taken}
            ends = {"time": told.time, "upper": told.upper, "repeated": told.repeated}
            print_json({"collection": name, **ends, **fields})
        else:
            say(f"{told.time} {'-' if told.repeated else told.rows}")


class _Import:
    """An import into a collection, which is made where it is not there and a key is given.

    Args:
        collections: of the store.
        name: of the collection.
        source: what is imported.
        given: the options of the verb.

    Raises:
        CollectionNotFoundError: it is not there, and no key is given.
        click.UsageError: it has another key.
    """

    def __init__(
        self, collections: Collections, name: str, source: TableSource, given: dict[str, Any]
    ) -> None:
        key, time = given["key"], given["time"]
        try:
            target = collections.collection(name)
        except CollectionNotFoundError:
            if not key:
                raise
            self.makes = True
            self._run: Callable[..., CollectionImport]
            self._run = partial(collections.import_new, name, source, key=key)
            if isinstance(time, float):
                time = int(time * 1000)  # A new collection has milliseconds.
        else:
            self.makes = False
            self._run = partial(target.import_rows, source)
            info = target.info()
            if key and list(key) != list(info.key):
                raise click.UsageError(
                    f"{name} is there, and its key is {', '.join(info.key)}: leave --key out"
                )
            time = None if time is None else time_in(info, time)
        self._options = {"time": time, "writer": given["writer"], "sequence": given["sequence"]}

    def made(self, **options: Any) -> CollectionImport:
        """Import, or with ``dry_run`` only look. See ``Collection.import_rows``."""
        return self._run(**self._options, **options)


def _tell_plan(
    name: str, source: TableSource, plan: CollectionImport, *, made: bool, as_json: bool
) -> None:
    if plan.repeated:
        if as_json:
            print_json({"would_import": None, "collection": name, "time": plan.time})
        else:
            say(f"imported already, at the time {plan.time}: would import nothing")
        return
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
