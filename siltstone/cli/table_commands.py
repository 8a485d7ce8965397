"""The verb ``table`` with its own verbs. Keys and values are text, or bytes in base64."""

from __future__ import annotations

import sys
from functools import partial
from itertools import islice

import click

from siltstone.cli.byte_text import raw_bytes
from siltstone.cli.dry_runs import tell_key_removal, tell_range_removal
from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.inspect_commands import rows
from siltstone.cli.keyspace_names import check_no_keyspace, force_option, is_forced
from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.name_pattern import NamePattern
from siltstone.cli.output import bytes_fields, flush_bytes, print_json, say, write_bytes
from siltstone.cli.session import (
    Session,
    dry_run_option,
    json_option,
    pass_session,
    recover_option,
    takeover_option,
)
from siltstone.container.models.tables import TTL_S_MAX, KeyChange, RangeRemoval
from siltstone.store.handles.streams import PIECE_BYTES, read_some

base64_option = click.option(
    "--base64", "as_base64", is_flag=True, help="Keys and values on the command line are base64."
)


expect_option = click.option(
    "--expect",
    nargs=2,
    type=(str, click.IntRange(min=-1)),
    multiple=True,
    metavar="KEY VERSION",
    help="Only if KEY has this version now; -1 means only if it is absent.",
)


@click.group(cls=ListedVerbs)
def table() -> None:
    """Read and change tables."""


@table.command("create")
@click.argument("name")
@click.option("--exist-ok", is_flag=True, help="An existing table is fine.")
@takeover_option
@json_option
@pass_session
def create_table(
    session: Session, name: str, *, exist_ok: bool, takeover: bool, as_json: bool
) -> None:
    """Make the table NAME."""
    with session.open_owner(takeover=takeover) as store:
        store.create_table(name, exist_ok=exist_ok)
    if as_json:
        print_json({"table": name})


@table.command("ls")
@click.argument("pattern", metavar="[PREFIX]", default="")
@recover_option
@json_option
@pass_session
def list_tables(session: Session, pattern: str, *, as_json: bool) -> None:
    """List the tables whose names start with PREFIX, or match it as a pattern; see ls."""
    wanted = NamePattern(pattern)
    with session.open_reader() as store:
        for name in store.list_tables(wanted.prefix):
            if not wanted.fits(name):
                continue
            if as_json:
                print_json({"table": name})
            else:
                say(name)


@table.command()
@click.argument("name")
@click.argument("key")
@base64_option
@recover_option
@json_option
@pass_session
def get(session: Session, name: str, key: str, *, as_base64: bool, as_json: bool) -> None:
    """Write the value of KEY in the table NAME. Exits with 3 when it has none."""
    raw = raw_bytes(key, as_base64=as_base64)
    with session.open_reader() as store:
        found = store.table(name).get(raw)
    if found is None:
        say(f"siltstone: no such key table={name} key={key}", err=True)
        raise click.exceptions.Exit(ExitCode.NOT_FOUND)
    if as_json:
        print_json(
            {
                **bytes_fields("key", raw),
                **bytes_fields("value", found.value),
                "version": found.version,
            }
        )
    else:
        write_bytes(found.value)
        flush_bytes()


@table.command()
@click.argument("name")
@click.argument("key")
@click.argument("value")
@click.option(
    "--expect",
    type=click.IntRange(min=-1),
    help="Only if the key has this version now; -1 means only if it is absent.",
)
@base64_option
@takeover_option
@json_option
@pass_session
def put(
    session: Session,
    name: str,
    key: str,
    value: str,
    expect: int | None,
    *,
    as_base64: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Set KEY in the table NAME to VALUE; with - as VALUE, to what standard input holds."""
    raw = raw_bytes(key, as_base64=as_base64)
    data = _standard_input() if value == "-" else raw_bytes(value, as_base64=as_base64)
    expected = None if expect is None else {raw: None if expect < 0 else expect}
    with session.open_owner(takeover=takeover) as store:
        version = store.table(name).update({raw: data}, expected=expected)
    if as_json:
        print_json({"table": name, "version": version})


@table.command("rm")
@click.argument("name")
@click.argument("key")
@force_option
@dry_run_option
@base64_option
@takeover_option
@json_option
@pass_session
def remove_key(
    session: Session,
    name: str,
    key: str,
    *,
    dry_run: bool,
    as_base64: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Remove KEY from the table NAME, if it is there."""
    check_no_keyspace([name])
    raw = raw_bytes(key, as_base64=as_base64)
    with session.open_changing(takeover=takeover, dry_run=dry_run) as store:
        if dry_run:
            tell_key_removal(store.table(name), raw, as_json=as_json)
            return
        version = store.table(name, force=is_forced()).remove(raw)
    if as_json:
        print_json({"table": name, "version": version})


@table.command()
@click.argument("name")
@click.option("--put", "puts", nargs=2, multiple=True, metavar="KEY VALUE", help="Set KEY.")
@click.option("--rm", "removals", multiple=True, metavar="KEY", help="Remove KEY.")
@expect_option
@base64_option
@takeover_option
@json_option
@pass_session
def update(
    session: Session,
    name: str,
    puts: tuple[tuple[str, str], ...],
    removals: tuple[str, ...],
    expect: tuple[tuple[str, int], ...],
    *,
    as_base64: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Change several keys of the table NAME at once, all or none."""
    changes: dict[bytes, bytes | None] = {
        raw_bytes(key, as_base64=as_base64): raw_bytes(value, as_base64=as_base64)
        for key, value in puts
    }
    for key in removals:
        changes[raw_bytes(key, as_base64=as_base64)] = None
    if len(changes) != len(puts) + len(removals):
        raise click.UsageError("a key is named twice")
    if not changes:
        raise click.UsageError("nothing to change: give --put or --rm")
    expected = _expected(expect, as_base64=as_base64)
    with session.open_owner(takeover=takeover) as store:
        version = store.table(name).update(changes, expected=expected)
    if as_json:
        print_json({"table": name, "version": version})


@table.command()
@click.argument("name")
@click.option("--start", help="First key.")
@click.option("--end", help="The key after the last.")
@click.option("--all", "every", is_flag=True, help="Every key.")
@force_option
@dry_run_option
@expect_option
@base64_option
@takeover_option
@json_option
@pass_session
def clear(
    session: Session,
    name: str,
    start: str | None,
    end: str | None,
    expect: tuple[tuple[str, int], ...],
    *,
    every: bool,
    dry_run: bool,
    as_base64: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Remove the keys of the table NAME from --start up to, not with, --end, all at once."""
    if every == (start is not None or end is not None):
        raise click.UsageError("give --start, --end or both, or --all")
    check_no_keyspace([name])
    first = raw_bytes(start or "", as_base64=as_base64)
    after = None if end is None else raw_bytes(end, as_base64=as_base64)
    expected = _expected(expect, as_base64=as_base64)
    with session.open_changing(takeover=takeover, dry_run=dry_run) as store:
        if dry_run:
            tell_range_removal(store.table(name), first, after, expected, as_json=as_json)
            return
        version = store.table(name, force=is_forced()).remove_range(first, after, expected=expected)
    if as_json:
        print_json({"table": name, "version": version})


@table.command()
@click.argument("name")
@click.option(
    "--from",
    "version",
    type=click.IntRange(min=0),
    help="Table version to begin after; the newest one if not given.",
)
@click.option("--limit", type=click.IntRange(min=1), help="End after this many updates.")
@json_option
@pass_session
def follow(
    session: Session, name: str, version: int | None, limit: int | None, *, as_json: bool
) -> None:
    """Write the updates of the table NAME as they are acknowledged: version, what, key, value."""
    with session.open_reader() as store:
        source = store.table(name)
        start = source.version() if version is None else version
        for found in islice(source.follow(start), limit):
            if as_json:
                changes = [_change_fields(change) for change in found.changes]
                print_json({"version": found.version, "changes": changes})
            else:
                for change in found.changes:
                    write_bytes(b"%d\t%b\n" % (found.version, _change_line(change)))
                flush_bytes()


@table.command()
@click.argument("name")
@click.option("--start", default="", help="First key.")
@click.option("--end", help="The key after the last.")
@click.option("--reverse", is_flag=True, help="From the last key to the first.")
@click.option("--limit", type=click.IntRange(min=1), help="Most entries.")
@click.option(
    "--snapshot",
    "ttl_s",
    type=click.FloatRange(min=0, min_open=True, max=TTL_S_MAX),
    metavar="SECONDS",
    help="Show one version; fail if that takes longer.",
)
@base64_option
@recover_option
@json_option
@pass_session
def scan(
    session: Session,
    name: str,
    start: str,
    end: str | None,
    limit: int | None,
    ttl_s: float | None,
    *,
    reverse: bool,
    as_base64: bool,
    as_json: bool,
) -> None:
    """Write the entries of the table NAME in the order of their keys: key, tab, value."""
    first = raw_bytes(start, as_base64=as_base64)
    after = None if end is None else raw_bytes(end, as_base64=as_base64)
    with session.open_reader() as store:
        source = store.table(name)
        shown = source if ttl_s is None else source.snapshot(ttl_s)
        entries = shown.scan(first, after, reverse=reverse)
        for key, found in islice(entries, limit):
            if as_json:
                fields = {**bytes_fields("key", key), **bytes_fields("value", found.value)}
                print_json({**fields, "version": found.version})
            else:
                write_bytes(key + b"\t" + found.value + b"\n")
        flush_bytes()


table.add_command(rows)


def _expected(expect: tuple[tuple[str, int], ...], *, as_base64: bool) -> dict[bytes, int | None]:
    return {
        raw_bytes(key, as_base64=as_base64): None if version < 0 else version
        for key, version in expect
    }


def _change_fields(change: KeyChange | RangeRemoval) -> dict[str, object]:
    if isinstance(change, RangeRemoval):
        end = {"end": None} if change.end is None else bytes_fields("end", change.end)
        return {"removed": "range", **bytes_fields("start", change.start), **end}
    if change.value is None:
        return {"removed": "key", **bytes_fields("key", change.key)}
    return {**bytes_fields("key", change.key), **bytes_fields("value", change.value)}


def _change_line(change: KeyChange | RangeRemoval) -> bytes:
    if isinstance(change, RangeRemoval):
        return b"removed from\t%b\t%b" % (change.start, change.end or b"")
    if change.value is None:
        return b"removed\t%b" % change.key
    return b"set\t%b\t%b" % (change.key, change.value)


def _standard_input() -> bytes:
    # Not by one call: of a pipe that does not block that reads what is there.
    return b"".join(iter(partial(read_some, sys.stdin.buffer, PIECE_BYTES), b""))
