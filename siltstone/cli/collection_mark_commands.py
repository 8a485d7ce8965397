"""What a collection keeps by name: bookmarks, and the sequences of writers; and its since."""

from __future__ import annotations

import click

from siltstone.cli.collection_changes import changing
from siltstone.cli.collection_times import TIME, time_in
from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.output import print_json, print_table, say
from siltstone.cli.session import Session, dry_run_option, json_option, pass_session
from siltstone.core.errors import BookmarkFencedError


@click.group(cls=ListedVerbs)
def bookmark() -> None:
    """Bookmarks of a collection: history from their times on stays."""


@bookmark.command("ls")
@click.argument("collection")
@json_option
@pass_session
def list_bookmarks(session: Session, collection: str, *, as_json: bool) -> None:
    """Show the bookmarks of COLLECTION, and who set them."""
    with session.open_collections(reads=True) as collections:
        rows = collections.collection(collection).info().bookmarks
    if not as_json:
        print_table(("NAME", "SINCE", "WHO"), ((row.name, row.since, row.who) for row in rows))
        return
    for row in rows:
        print_json({"name": row.name, "since": row.since, "token": row.token.hex(), "who": row.who})


@bookmark.command("set")
@click.argument("collection")
@click.argument("name")
@click.option("--since", type=TIME, help="Its time; that of the collection's since if not given.")
@click.option("--takeover", is_flag=True, help="Take it from the process that moves it.")
@json_option
@pass_session
def set_bookmark(
    session: Session,
    collection: str,
    name: str,
    since: float | None,
    *,
    takeover: bool,
    as_json: bool,
) -> None:
    """Set the bookmark NAME of COLLECTION. One that exists needs --takeover, and moves forward."""
    with changing(session) as collections:
        target = collections.collection(collection)
        info = target.info()
        found = {row.name: row.token for row in info.bookmarks}
        if name in found and not takeover:
            raise BookmarkFencedError(collection=collection, bookmark=name, actual=found[name])
        mark = target.bookmark(name, since=None if since is None else time_in(info, since))
        time = mark.since
    if as_json:
        print_json({"bookmark": name, "since": time})
    else:
        say(f"history from {time} on stays")


@bookmark.command("rm")
@click.argument("collection")
@click.argument("name")
@dry_run_option
@json_option
@pass_session
def remove_bookmark(
    session: Session, collection: str, name: str, *, dry_run: bool, as_json: bool
) -> None:
    """Remove the bookmark NAME of COLLECTION: its history may go. Exits with 3 if there is none."""
    with changing(session, dry_run=dry_run) as collections:
        target = collections.collection(collection)
        found = {row.name: row.since for row in target.info().bookmarks}
        if name in found and not dry_run:
            target.bookmark(name).remove()
    _tell_removal("bookmark", name, there=name in found, dry_run=dry_run, as_json=as_json)


@click.group(cls=ListedVerbs)
def writer() -> None:
    """Writers of a collection, whose appends count once for each sequence."""


@writer.command("ls")
@click.argument("collection")
@json_option
@pass_session
def list_writers(session: Session, collection: str, *, as_json: bool) -> None:
    """Show the writers of COLLECTION, their last sequences, and the upper after those."""
    with session.open_collections(reads=True) as collections:
        rows = collections.collection(collection).info().writers
    if not as_json:
        print_table(
            ("NAME", "SEQUENCE", "UPPER", "KNOWN", "WHO"),
            ((row.name, row.sequence, row.upper, _lease(row.lease_ms), row.who) for row in rows),
        )
        return
    for row in rows:
        print_json(row)


@writer.command("rm")
@click.argument("collection")
@click.argument("name")
@dry_run_option
@json_option
@pass_session
def remove_writer(
    session: Session, collection: str, name: str, *, dry_run: bool, as_json: bool
) -> None:
    """Forget the writer NAME of COLLECTION: a repeat of its last append would append again.

    Exits with 3 if there is none.
    """
    with changing(session, dry_run=dry_run) as collections:
        target = collections.collection(collection)
        if dry_run:
            there = any(row.name == name for row in target.info().writers)
        else:
            there = target.forget_writer(name)
    _tell_removal("writer", name, there=there, dry_run=dry_run, as_json=as_json)


@click.command("advance-since")
@click.argument("collection")
@click.argument("time", type=TIME)
@dry_run_option
@json_option
@pass_session
def advance_since(
    session: Session, collection: str, time: float, *, dry_run: bool, as_json: bool
) -> None:
    """Let the history of COLLECTION below TIME go, for ever."""
    with changing(session, dry_run=dry_run) as collections:
        target = collections.collection(collection)
        info = target.info()
        to = time_in(info, time)
        since = target.advance_since(to, dry_run=dry_run)
    if as_json:
        print_json({"collection": collection, "would_advance" if dry_run else "since": since})
    elif dry_run:
        say(f"would let the since go from {info.since} to {since}")
    else:
        say(f"since {since}")


def _lease(lease_ms: int) -> str:
    return "for ever" if not lease_ms else f"{lease_ms // 1000} s"


def _tell_removal(what: str, name: str, *, there: bool, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({"would_remove" if dry_run else "removed": name if there else None})
    elif dry_run and there:
        say(f"would remove the {what} {name}")
    if not there:
        say(f"siltstone: no such {what} {what}={name}", err=True)
        raise click.exceptions.Exit(ExitCode.NOT_FOUND)
