"""The verb ``table`` with its own verbs. Keys and values are text, or bytes in base64."""

from __future__ import annotations

import base64
import binascii
import sys
from itertools import islice

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import bytes_fields, flush_bytes, print_json, write_bytes
from siltstone.cli.session import Session, json_option, pass_session, takeover_option

base64_option = click.option(
    "--base64", "as_base64", is_flag=True, help="Keys and values on the command line are base64."
)


@click.group()
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
@click.argument("prefix", default="")
@json_option
@pass_session
def list_tables(session: Session, prefix: str, *, as_json: bool) -> None:
    """List the tables whose names start with PREFIX."""
    with session.open_reader() as store:
        for name in store.list_tables(prefix):
            if as_json:
                print_json({"table": name})
            else:
                click.echo(name)


@table.command()
@click.argument("name")
@click.argument("key")
@base64_option
@json_option
@pass_session
def get(session: Session, name: str, key: str, *, as_base64: bool, as_json: bool) -> None:
    """Write the value of KEY in the table NAME. Exits with 3 when it has none."""
    raw = _raw(key, as_base64=as_base64)
    with session.open_reader() as store:
        found = store.table(name).get(raw)
    if found is None:
        click.echo(f"siltstone: no such key table={name}", err=True)
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
    raw = _raw(key, as_base64=as_base64)
    data = sys.stdin.buffer.read() if value == "-" else _raw(value, as_base64=as_base64)
    expected = None if expect is None else {raw: None if expect < 0 else expect}
    with session.open_owner(takeover=takeover) as store:
        version = store.table(name).update({raw: data}, expected=expected)
    if as_json:
        print_json({"table": name, "version": version})


@table.command("rm")
@click.argument("name")
@click.argument("key")
@base64_option
@takeover_option
@json_option
@pass_session
def remove_key(
    session: Session, name: str, key: str, *, as_base64: bool, takeover: bool, as_json: bool
) -> None:
    """Remove KEY from the table NAME, if it is there."""
    raw = _raw(key, as_base64=as_base64)
    with session.open_owner(takeover=takeover) as store:
        version = store.table(name).remove(raw)
    if as_json:
        print_json({"table": name, "version": version})


@table.command()
@click.argument("name")
@click.option("--start", default="", help="First key.")
@click.option("--end", help="The key behind the last.")
@click.option("--reverse", is_flag=True, help="From the last key to the first.")
@click.option("--limit", type=click.IntRange(min=1), help="Most entries.")
@base64_option
@json_option
@pass_session
def scan(
    session: Session,
    name: str,
    start: str,
    end: str | None,
    limit: int | None,
    *,
    reverse: bool,
    as_base64: bool,
    as_json: bool,
) -> None:
    """Write the entries of the table NAME in the order of their keys: key, tab, value."""
    first = _raw(start, as_base64=as_base64)
    behind = None if end is None else _raw(end, as_base64=as_base64)
    with session.open_reader() as store:
        entries = store.table(name).scan(first, behind, reverse=reverse)
        for key, found in islice(entries, limit):
            if as_json:
                fields = {**bytes_fields("key", key), **bytes_fields("value", found.value)}
                print_json({**fields, "version": found.version})
            else:
                write_bytes(key + b"\t" + found.value + b"\n")
        flush_bytes()


def _raw(text: str, *, as_base64: bool) -> bytes:
    if not as_base64:
        return text.encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise click.UsageError(f"not base64: {text!r}") from error
