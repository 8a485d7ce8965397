"""The verb ``collection`` with its own verbs: collections, made, shown, changed and dropped."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.collection_changes import changing
from siltstone.cli.collection_copy_command import copy_collection
from siltstone.cli.collection_import_command import import_
from siltstone.cli.collection_mark_commands import advance_since, bookmark, writer
from siltstone.cli.collection_row_commands import append, follow, read
from siltstone.cli.collection_upkeep_commands import (
    check,
    compact,
    entries,
    gc,
    space,
    sweep,
    upgrade,
)
from siltstone.cli.confirm import ask
from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.name_pattern import NamePattern
from siltstone.cli.output import print_json, printable, say
from siltstone.cli.path_text import PathText
from siltstone.cli.session import Session, dry_run_option, json_option, pass_session
from siltstone.core.errors import CollectionDroppedError, CollectionExistsError
from siltstone.core.text import counted

if TYPE_CHECKING:
    import pyarrow

    from siltstone.collections.blocking import Collection
    from siltstone.collections.collection_info import CollectionInfo

column_option = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME:TYPE",
    help="A column, such as gust:double or 'day:date32 not null'; may stand several times.",
)


@click.group(cls=ListedVerbs)
def collection() -> None:
    """Tables that change over time, on long-term storage alone; nothing is claimed."""


@collection.command("create")
@click.argument("collection")
@column_option
@click.option(
    "--columns-of",
    "like",
    type=PathText(exists=True, dir_okay=False),
    metavar="FILE",
    help="The columns of a file of Parquet.",
)
@click.option(
    "--key",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Column that rows are sorted by; may stand several times.",
)
@click.option(
    "--history",
    default="all",
    show_default=True,
    help="How far back it can be read: 7d, 12h, 30min, a count of times, or all.",
)
@click.option(
    "--times",
    type=click.Choice(["ms", "count"]),
    default="ms",
    show_default=True,
    help="Times of appends: milliseconds since 1970, or their number.",
)
@click.option("--exist-ok", is_flag=True, help="An existing collection is fine, as it is.")
@json_option
@pass_session
def create_collection(
    session: Session,
    collection: str,
    columns: tuple[str, ...],
    like: str | None,
    key: tuple[str, ...],
    history: str,
    times: str,
    *,
    exist_ok: bool,
    as_json: bool,
) -> None:
    """Make COLLECTION, with the columns of --column, --columns-of, or both."""
    if not columns and like is None:
        raise click.UsageError("give --column or --columns-of")
    with changing(session) as collections:
        schema = _schema(columns, like)
        past: str | int = int(history) if history.isdecimal() else history
        try:
            made = collections.create(collection, schema, key=key, history=past, times=times)
        except CollectionExistsError:
            if not exist_ok:
                raise
            made = collections.collection(collection)
        info = made.info()
    if as_json:
        print_json(info_fields(info))


@collection.command("ls")
@click.argument("pattern", metavar="[PREFIX]", default="")
@json_option
@pass_session
def list_collections(session: Session, pattern: str, *, as_json: bool) -> None:
    """List the collections whose names start with PREFIX, or match it as a pattern; see ls."""
    wanted = NamePattern(pattern)
    with session.open_collections(reads=True) as collections:
        names = collections.list()
    for name in names:
        if not name.startswith(wanted.prefix) or not wanted.fits(name):
            continue
        if as_json:
            print_json({"collection": name})
        else:
            say(name)


@collection.command("stat")
@click.argument("collection")
@json_option
@pass_session
def stat_collection(session: Session, collection: str, *, as_json: bool) -> None:
    """Show COLLECTION: its columns, since and upper, what it holds, and who uses it."""
    with session.open_collections(reads=True) as collections:
        info = collections.collection(collection).info()
    if as_json:
        print_json(info_fields(info))
        return
    for label, value in _lines(info):
        say(f"{label + ':':<16} {printable(str(value))}")


@collection.command("evolve")
@click.argument("collection")
@column_option
@json_option
@pass_session
def evolve_collection(
    session: Session, collection: str, columns: tuple[str, ...], *, as_json: bool
) -> None:
    """Add nullable columns to COLLECTION; rows from before show nulls in them."""
    if not columns:
        raise click.UsageError("give --column")
    with changing(session) as collections:
        target = collections.collection(collection)
        schema = target.info().schema
        for field in _schema(columns, None):
            schema = schema.append(field)
        target.evolve(schema)
        info = target.info()
    if as_json:
        print_json(info_fields(info))


@collection.command("rename")
@click.argument("collection")
@click.argument("new_name")
@json_option
@pass_session
def rename_collection(session: Session, collection: str, new_name: str, *, as_json: bool) -> None:
    """Give COLLECTION the name NEW_NAME. Processes that have it open go on."""
    with changing(session) as collections:
        collections.rename(collection, new_name)
    if as_json:
        print_json({"collection": new_name})


@collection.command("finish")
@click.argument("collection")
@json_option
@pass_session
def finish_collection(session: Session, collection: str, *, as_json: bool) -> None:
    """Say that no more rows come to COLLECTION, for ever. Its followers end."""
    with changing(session) as collections:
        target = collections.collection(collection)
        target.finish()
        info = target.info()
    if as_json:
        print_json(info_fields(info))


@collection.command("drop")
@click.argument("collection")
@click.option("--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@json_option
@pass_session
def drop_collection(
    session: Session, collection: str, *, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Drop COLLECTION and all of its rows, for ever. Asks first.

    Its objects are deleted at once. Where that was interrupted, the name is left, and to drop it
    again ends it.
    """
    with changing(session, dry_run=dry_run) as collections:
        rows, length = _rows_and_length(collections.collection(collection))
        size = f"{counted(rows, 'row')} of {counted(length, 'byte')}"
        if dry_run:
            if as_json:
                print_json({"would_drop": collection, "rows": rows, "length": length})
            else:
                say(f"would drop {collection}: {size}")
            return
        if not yes:
            ask(f"drop {printable(collection)}, {size}, for ever?", refused="nothing was dropped")
        collections.drop(collection)
    if as_json:
        print_json({"dropped": collection})


for verb in (append, import_, read, follow, copy_collection, bookmark, writer, advance_since):
    collection.add_command(verb)
for verb in (compact, gc, sweep, space, entries, check, upgrade):
    collection.add_command(verb)


def info_fields(info: CollectionInfo) -> dict[str, Any]:
    """What is known of a collection, for JSON."""
    from dataclasses import asdict

    from siltstone.cli.collection_schema_text import column_rows

    fields = asdict(info)
    del fields["schema"], fields["key"]
    for row in fields["bookmarks"]:
        row["token"] = row["token"].hex()
    for row in fields["readers"]:
        row["id"] = f"{row['id']:016x}"
    return {**fields, "columns": column_rows(info.schema, info.key)}


def _schema(columns: tuple[str, ...], like: str | None) -> pyarrow.Schema:
    from siltstone.cli.collection_schema_text import columns_of, schema_of_file

    schema = columns_of(columns)
    for field in () if like is None else schema_of_file(like):
        schema = schema.append(field)
    return schema


def _rows_and_length(collection: Collection) -> tuple[int, int]:
    """How many rows and bytes a drop takes away; none where an earlier one was interrupted."""
    try:
        info = collection.info()
    except CollectionDroppedError:
        return 0, 0
    return info.rows, info.length


def _lines(info: CollectionInfo) -> Iterator[tuple[str, object]]:
    """What people are told of a collection."""
    yield "name", info.name
    yield "id", info.id
    for field in info.schema:
        key = ", key" if field.name in info.key else ""
        null = "" if field.nullable else " not null"
        yield "column", f"{field.name} {field.type}{null}{key}"
    yield "format", info.format
    yield "times", _times_text(info)
    yield "since", _time_text(info, info.since)
    yield "upper", "done" if info.upper is None else _time_text(info, info.upper)
    yield "rows", f"{info.rows:,}, those that cancel each other included"
    yield "length", counted(info.length, "byte")
    batches = f"{info.batches:,} {'batch' if info.batches == 1 else 'batches'}"
    yield "parts", f"{counted(info.parts, 'part')} in {batches}"
    yield "entries", info.seqno
    for reader in info.readers:
        yield "reader", f"{reader.id:016x} since={reader.since} hold={reader.hold} {reader.who}"
    for row in info.writers:
        yield "writer", f"{row.name} sequence={row.sequence} upper={row.upper}"
    for mark in info.bookmarks:
        yield "bookmark", f"{mark.name} since={mark.since}"


def _times_text(info: CollectionInfo) -> str:
    what = "milliseconds since 1970" if info.times == "ms" else "counts"
    return f"{what}; history {'all' if info.history is None else info.history}"


def _time_text(info: CollectionInfo, time: int) -> str:
    """A time, and the date that it is where it can be one."""
    if info.times == "ms" and 0 < time < 253_402_300_800_000:  # the year 10000
        moment = datetime.fromtimestamp(time / 1000, UTC).isoformat(" ", "milliseconds")
        return f"{time} ({moment})"
    return str(time)
