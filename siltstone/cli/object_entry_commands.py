"""The verbs of ``objects`` that only keyspaces of heads have: mput and trim."""

from __future__ import annotations

import click

from siltstone.cli.object_value_commands import INPUT, opened_input
from siltstone.cli.output import print_json, say
from siltstone.cli.session import Session, json_option, pass_session, takeover_option


@click.command()
@click.argument("keyspace")
@click.argument("file", type=INPUT, default="-")
@click.option("--ttl", type=click.IntRange(min=1), help="Seconds until what is added expires.")
@takeover_option
@json_option
@pass_session
def mput(
    session: Session,
    keyspace: str,
    file: str,
    *,
    ttl: int | None,
    takeover: bool,
    as_json: bool,
) -> None:
    """Change entries of KEYSPACE, all or none, by lines of JSON; print the SQN.

    FILE, or standard input, has up to 10,000, such as {"op": "add", "bucket": "b", "key": "k",
    "subkey": "s", "value": "v"}. The op "remove" has no value; "expect" is the SQN that an entry
    must have, -1 if it must be absent, and the op "expect" is about that alone. What is no text is
    base64: "key_base64" and so on.
    """
    from siltstone import objects
    from siltstone.cli.entry_lines import read_entries
    from siltstone.objects.entries import ENTRIES_MAX

    with opened_input(file) as lines:
        given = read_entries(lines, ENTRIES_MAX)
    with session.open_owner(takeover=takeover) as store:
        done = objects.open(store, keyspace).mput(
            given.entries, expected=given.expected or None, ttl_s=ttl
        )
    if as_json:
        print_json({"sqn": done.sqn, "entries": len(given.entries)})
    else:
        say(f"{done.sqn}")


@click.command()
@click.argument("keyspace")
@takeover_option
@json_option
@pass_session
def trim(session: Session, keyspace: str, *, takeover: bool, as_json: bool) -> None:
    """Bring all of KEYSPACE to long-term storage, so that tier 1 lets go of what is older."""
    from siltstone import objects

    with session.open_owner(takeover=takeover) as store:
        objects.open(store, keyspace).trim()
    if as_json:
        print_json({"trimmed": keyspace})
