"""The verbs of ``objects`` that go through a keyspace: keys, buckets and index."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from siltstone.cli.byte_text import raw_bytes
from siltstone.cli.object_names import (
    base64_option,
    given_bytes,
    head_fields,
    raw_or_none,
    tag_option,
)
from siltstone.cli.output import bytes_fields, flush_bytes, print_json, write_bytes
from siltstone.cli.session import Session, json_option, pass_session, recover_option

limit_option = click.option("--limit", type=click.IntRange(min=1), help="End after this many.")


@click.command()
@click.argument("keyspace")
@click.argument("bucket")
@click.option("--start", help="First key.")
@click.option("--end", help="The key after the last.")
@limit_option
@tag_option
@base64_option
@recover_option
@json_option
@pass_session
def keys(
    session: Session,
    keyspace: str,
    bucket: str,
    start: str | None,
    end: str | None,
    limit: int | None,
    tag: str,
    *,
    as_base64: bool,
    as_json: bool,
) -> None:
    """Write the keys of BUCKET in the order of their bytes, one a line; with --json their heads."""
    from siltstone import objects

    raw_bucket = raw_bytes(bucket, as_base64=as_base64)
    first, after = raw_or_none(start, as_base64=as_base64), raw_or_none(end, as_base64=as_base64)
    with session.open_reader() as store:
        found = objects.open(store, keyspace).heads(raw_bucket, tag=tag, start=first, end=after)
        for head in islice(found, limit):
            if as_json:
                print_json(head_fields(head))
            else:
                write_bytes(given_bytes(head.key) + b"\n")
        flush_bytes()


@click.command()
@click.argument("keyspace")
@limit_option
@tag_option
@recover_option
@json_option
@pass_session
def buckets(session: Session, keyspace: str, limit: int | None, tag: str, *, as_json: bool) -> None:
    """Write the buckets of KEYSPACE that have objects, in the order of their bytes, one a line."""
    from siltstone import objects

    with session.open_reader() as store:
        for bucket in islice(objects.open(store, keyspace).buckets(tag=tag), limit):
            if as_json:
                print_json(bytes_fields("bucket", given_bytes(bucket)))
            else:
                write_bytes(given_bytes(bucket) + b"\n")
        flush_bytes()


@click.command()
@click.argument("keyspace")
@click.argument("bucket")
@click.argument("field")
@click.option("--start", help="First term.")
@click.option("--end", help="The term after the last.")
@click.option("--pattern", metavar="REGEX", help="What some part of a term matches.")
@limit_option
@tag_option
@base64_option
@recover_option
@json_option
@pass_session
def index(
    session: Session,
    /,
    keyspace: str,
    bucket: str,
    field: str,
    *,
    limit: int | None,
    as_base64: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Write the terms of FIELD in BUCKET and the keys that they find, in order: term, tab, key."""
    from siltstone import objects

    names = [raw_bytes(name, as_base64=as_base64) for name in (bucket, field)]
    ends = [raw_or_none(given[end], as_base64=as_base64) for end in ("start", "end")]
    with session.open_reader() as store:
        found: Iterator[tuple[str, str]] = objects.open(store, keyspace).index(
            *names, *ends, pattern=given["pattern"], tag=given["tag"]
        )
        for term, key in islice(found, limit):
            raw_term, raw_key = given_bytes(term), given_bytes(key)
            if as_json:
                print_json({**bytes_fields("term", raw_term), **bytes_fields("key", raw_key)})
            else:
                write_bytes(raw_term + b"\t" + raw_key + b"\n")
        flush_bytes()
