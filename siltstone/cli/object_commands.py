"""The verb ``objects`` with its own verbs: keyspaces, made, listed, used, checked and destroyed."""

from __future__ import annotations

import click

from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.name_pattern import NamePattern
from siltstone.cli.object_backup_commands import (
    backup,
    backups,
    remove_backups,
    restore,
    verify_backups,
)
from siltstone.cli.object_entry_commands import mput, trim
from siltstone.cli.object_exchange_commands import diff, sync
from siltstone.cli.object_list_commands import buckets, index, keys
from siltstone.cli.object_rebuild_commands import doubtful, rebuild, strategies_of
from siltstone.cli.object_upkeep_commands import check, compact, destroy, stat
from siltstone.cli.object_value_commands import get, head, put, remove
from siltstone.cli.output import print_json, say
from siltstone.cli.session import (
    Session,
    json_option,
    pass_session,
    recover_option,
    takeover_option,
)


@click.group(cls=ListedVerbs)
def objects() -> None:
    """Keyspaces: values by bucket and key, with metadata and an index."""


@objects.command("create")
@click.argument("keyspace")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG:STRATEGY",
    help="A kind of objects, and what compaction keeps of replaced ones: o:recovr (nothing; the "
    "only one if none is given) or log:retain (all but the values); may stand several times.",
)
@click.option(
    "--head-only",
    type=click.Choice(["with_lookup", "no_lookup"]),
    help="Entries without values, for mput; with look-up, head and conditions work.",
)
@click.option("--exist-ok", is_flag=True, help="An existing keyspace is fine, as it is.")
@takeover_option
@json_option
@pass_session
def create_keyspace(
    session: Session,
    keyspace: str,
    tags: tuple[str, ...],
    *,
    head_only: str | None,
    exist_ok: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Make the keyspace KEYSPACE."""
    from siltstone.objects import KeyspaceExistsError, create, open

    strategies = strategies_of(tags)
    with session.open_owner(takeover=takeover) as store:
        try:
            made = create(store, keyspace, tags=strategies, head_only=head_only)
        except KeyspaceExistsError:
            if not exist_ok:
                raise
            made = open(store, keyspace)
        found: dict[str, object] = {"tags": dict(made.tags)}
        if made.head_only is not None:
            found["head_only"] = made.head_only
    if as_json:
        print_json({"keyspace": keyspace, **found})


@objects.command("ls")
@click.argument("pattern", metavar="[PREFIX]", default="")
@recover_option
@json_option
@pass_session
def list_keyspaces(session: Session, pattern: str, *, as_json: bool) -> None:
    """List the keyspaces whose names start with PREFIX, or match it as a pattern; see ls."""
    from siltstone.objects import names

    wanted = NamePattern(pattern)
    with session.open_reader() as store:
        for name in names(store):
            if not name.startswith(wanted.prefix) or not wanted.fits(name):
                continue
            if as_json:
                print_json({"keyspace": name})
            else:
                say(name)


for verb in (put, get, head, remove, keys, buckets, index, stat, compact, check, destroy):
    objects.add_command(verb)
for verb in (backup, backups, verify_backups, restore, remove_backups, rebuild, doubtful):
    objects.add_command(verb)
for verb in (mput, trim, diff, sync):
    objects.add_command(verb)
