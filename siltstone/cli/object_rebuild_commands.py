"""The verbs of ``objects`` for a ledger that was damaged or lost: rebuild and doubtful."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.interrupts import goes_on
from siltstone.cli.object_names import given_bytes, name_fields
from siltstone.cli.output import bytes_fields, print_json, say, share_bar
from siltstone.cli.session import (
    Session,
    json_option,
    pass_session,
    recover_option,
    takeover_option,
)
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.objects import DoubtfulObject, RebuildReport


def strategies_of(tags: tuple[str, ...]) -> dict[str, str] | None:
    """Return what ``--tag`` says, by tag; ``None`` when it is not given.

    Raises:
        click.BadParameter: one is not TAG:STRATEGY, or a tag is given twice.
    """
    strategies: dict[str, str] = {}
    for text in tags:
        tag, sign, strategy = text.rpartition(":")
        if not sign or tag in strategies:
            raise click.BadParameter("write TAG:STRATEGY, each tag once", param_hint="--tag")
        strategies[tag] = strategy
    return strategies or None


@click.command()
@click.argument("keyspace")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG:STRATEGY",
    help="As for create, where the ledger is lost with them; may stand several times.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Take older objects where damage hides which ones were changed, and name the segments.",
)
@takeover_option
@json_option
@pass_session
@goes_on()
def rebuild(
    session: Session,
    keyspace: str,
    tags: tuple[str, ...],
    *,
    accept_loss: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Make heads and index of KEYSPACE again from its values, for a ledger that is damaged or lost.

    Run it again when it was interrupted: it continues. Meanwhile no verb can use the keyspace.
    Exits with 6 when objects are doubtful: their newest change may be lost, so they are absent.
    """
    from siltstone import objects
    from siltstone.core.errors import LostDataError

    strategies = strategies_of(tags)
    with (
        session.open_owner(takeover=takeover) as store,
        share_bar("rebuild", shown=not session.quiet) as advance,
    ):
        try:
            report = objects.rebuild(
                store, keyspace, tags=strategies, accept_loss=accept_loss, progress=advance
            )
        except LostDataError as error:
            error.add_note("--tag TAG:STRATEGY gives lost tags, --accept-loss takes older objects")
            raise
    tell_rebuilt(keyspace, report, as_json=as_json)


def tell_rebuilt(
    keyspace: str, report: RebuildReport, *, as_json: bool, restored: bool = False
) -> None:
    """Say what a rebuild, or a restore, did, and end with 6 when it could not know all."""
    for each in report.doubtful:
        _tell_doubtful(each, as_json=as_json)
    if as_json:
        print_json(
            {
                "keyspace": keyspace,
                "records": report.records,
                "doubtful": len(report.doubtful),
                "unnamed": report.unnamed,
                "unknown": report.unknown,
                **({"missing": report.missing} if restored else {}),
            }
        )
    else:
        say(f"{keyspace}: rebuilt from {counted(report.records, 'record')}")
        if report.unnamed:
            say(f"lost: {counted(report.unnamed, 'change')} of objects of which nothing is known")
        for name in report.unknown:
            say(f"lost: what {name} changed; objects may be as they were before that")
        for lack in report.missing:
            say(f"missing: {lack}")
    if report.doubtful or report.unnamed or report.unknown or report.missing:
        raise click.exceptions.Exit(ExitCode.DAMAGE)


@click.command()
@click.argument("keyspace")
@recover_option
@json_option
@pass_session
def doubtful(session: Session, keyspace: str, *, as_json: bool) -> None:
    """List the objects whose newest change the last rebuild could not know. Exits with 6 if any."""
    from siltstone import objects

    count = 0
    with session.open_reader() as store:
        for each in objects.open(store, keyspace).doubtful():
            _tell_doubtful(each, as_json=as_json)
            count += 1
    if count:
        raise click.exceptions.Exit(ExitCode.DAMAGE)


def _tell_doubtful(found: DoubtfulObject, *, as_json: bool) -> None:
    if as_json:
        tag = bytes_fields("tag", given_bytes(found.tag))
        names = name_fields(found.bucket, found.key)
        print_json({"doubtful": {**names, **tag, "segment": found.number}})
    else:
        names_of = f"bucket={found.bucket} key={found.key} tag={found.tag}"
        say(f"doubtful: {names_of}: value segment {found.number} is damaged")
