"""The verbs of ``objects`` about backups of keyspaces: made, listed, read, restored, removed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from siltstone.cli.backup_place import GENERATION, GENERATIONS, PLACE, TURN
from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.interrupts import goes_on
from siltstone.cli.moving_options import rate_option
from siltstone.cli.object_rebuild_commands import tell_rebuilt
from siltstone.cli.output import print_json, print_table, progress_bar, say
from siltstone.cli.session import (
    Session,
    dry_run_option,
    json_option,
    pass_session,
    takeover_option,
)
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.objects import KeyspaceBackup, KeyspaceBackupReport

F = TypeVar("F", bound=Callable[..., Any])


def _which_options(verb: F) -> F:
    """Of which keyspace, where a place has backups of several."""
    for option in (
        click.option("--of", metavar="UUID", help="Of which store."),
        click.option("--keyspace", metavar="NAME", help="Of which keyspace, by its name then."),
    ):
        verb = option(verb)
    return verb


@click.command()
@click.argument("keyspace")
@PLACE
@rate_option
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Continue when values are damaged or gone; the backup says which bytes it lacks.",
)
@click.option(
    "--takeover-place", is_flag=True, help="Continue although another process works in PLACE."
)
@takeover_option
@json_option
@pass_session
@goes_on()
def backup(
    session: Session,
    keyspace: str,
    place: Path,
    *,
    rate: int | None,
    allow_missing: bool,
    takeover_place: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Make a backup of KEYSPACE in PLACE, a folder or a settings file; copy what PLACE lacks.

    Exits with 6 when values are damaged or gone: without a backup, unless --allow-missing is given.
    """
    from siltstone import objects
    from siltstone.core.errors import StoreInUseError

    with (
        session.open_owner(takeover=takeover) as store,
        progress_bar("backup", None, shown=not session.quiet) as advance,
    ):
        target = objects.open(store, keyspace)
        try:
            report = target.backup(
                place,
                rate=rate,
                allow_missing=allow_missing,
                takeover=takeover_place,
                progress=advance,
            )
        except StoreInUseError as error:
            error.add_note("that is about PLACE: here --takeover-place continues all the same")
            raise
    _tell_backup(report, as_json=as_json)


def _tell_backup(report: KeyspaceBackupReport, *, as_json: bool) -> None:
    """Say what a backup has and what it lacks, and end as that asks."""
    if as_json:
        print_json(report)
    else:
        held = counted(report.segments, "value segment")
        say(
            f"generation {report.generation}: {held} and {counted(report.large, 'large value')} "
            f"up to SQN {report.sqn}, {counted(report.size, 'byte')}; copied {report.copied}, "
            f"{counted(report.copied_bytes, 'byte')}"
        )
        for lack in report.missing:
            say(f"missing: {lack}")
    if report.missing:
        raise click.exceptions.Exit(ExitCode.DAMAGE)


@click.command()
@PLACE
@_which_options
@json_option
@pass_session
def backups(
    session: Session, place: Path, keyspace: str | None, of: str | None, *, as_json: bool
) -> None:
    """List the backups of keyspaces in PLACE, the oldest of each first. Exits with 6 on damage."""
    from siltstone.objects import list_backups

    found = list_backups(place, keyspace, of)
    if as_json:
        for each in found:
            print_json(each)
    else:
        print_table(
            (
                "KEYSPACE",
                "STORE",
                "GENERATION",
                "MADE",
                "SQN",
                "SEGMENTS",
                "LARGE",
                "BYTES",
                "MISSING",
            ),
            map(_row, found),
        )
        for each in found:
            for text in each.damage:
                say(f"generation {each.generation}: {text}")
    if any(each.damage for each in found):
        raise click.exceptions.Exit(ExitCode.DAMAGE)


def _row(found: KeyspaceBackup) -> tuple[object, ...]:
    if found.keyspace is None:
        return ("damaged", "-", found.generation, "-", "-", "-", "-", "-", "-")
    made = datetime.fromtimestamp(found.made, UTC).isoformat(" ", "seconds")
    held = (found.sqn, found.segments, found.large, found.size, found.missing)
    return (found.keyspace, found.store, found.generation, made, *held)


@click.command("verify-backups")
@PLACE
@GENERATIONS
@_which_options
@json_option
@pass_session
def verify_backups(
    session: Session,
    place: Path,
    generations: tuple[int, ...],
    keyspace: str | None,
    of: str | None,
    *,
    as_json: bool,
) -> None:
    """Read every byte of the backups in PLACE, or of GENERATIONS of one keyspace, and compare it.

    Exits with 6 when something is damaged or missing, and names the keyspaces and generations.
    """
    from siltstone import objects

    with progress_bar("verify", None, shown=not session.quiet) as advance:
        report = objects.verify_backups(
            place, generations or None, keyspace=keyspace, store=of, progress=advance
        )
    for each in report.damage:
        if as_json:
            print_json(each)
        else:
            numbers = ", ".join(map(str, each.generations))
            of_what = "unknown" if each.keyspace is None else each.keyspace
            say(f"damage: {of_what}: generation {numbers}: {each.text}")
    if as_json:
        print_json({**asdict(report), "damage": len(report.damage)})
    session.note(
        f"verify: {counted(report.generations, 'generation')}, "
        f"{counted(report.objects, 'object')}, {counted(report.size, 'byte')}, "
        f"{counted(len(report.damage), 'finding')}"
    )
    if report.damage:
        raise click.exceptions.Exit(ExitCode.DAMAGE)


@click.command()
@PLACE
@click.argument("name")
@GENERATION
@_which_options
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Restore what there is of a backup that lacks bytes; the values of these are lost then.",
)
@takeover_option
@json_option
@pass_session
@goes_on()
def restore(
    session: Session,
    place: Path,
    name: str,
    *,
    generation: int | None,
    keyspace: str | None,
    of: str | None,
    allow_missing: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Make the keyspace NAME of a backup in PLACE. Exits with 6 when objects are doubtful.

    Run it again when it was interrupted: it continues. Meanwhile no verb can use the keyspace.
    """
    from siltstone import objects

    with (
        session.open_owner(takeover=takeover) as store,
        progress_bar("restore", None, shown=not session.quiet) as advance,
    ):
        report = objects.restore(
            store,
            name,
            place,
            keyspace=keyspace,
            of=of,
            generation=generation,
            allow_missing=allow_missing,
            progress=advance,
        )
    tell_rebuilt(name, report, as_json=as_json, restored=True)


@click.command("remove-backups")
@PLACE
@GENERATIONS
@_which_options
@dry_run_option
@TURN
@json_option
@pass_session
@goes_on()
def remove_backups(
    session: Session,
    place: Path,
    generations: tuple[int, ...],
    *,
    keyspace: str | None,
    of: str | None,
    dry_run: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Remove GENERATIONS of a keyspace, and what no other one of it needs.

    Without any, only what backups that were killed have left is deleted.
    """
    from siltstone import objects

    if takeover and dry_run:
        raise click.UsageError("--takeover and --dry-run exclude each other")
    gone = objects.remove_backups(
        place, generations, keyspace=keyspace, store=of, takeover=takeover, dry_run=dry_run
    )
    if as_json:
        print_json({**asdict(gone), "removed": not dry_run})
        return
    numbers = ", ".join(map(str, gone.generations)) or "none"
    say(
        f"{'would remove' if dry_run else 'removed'} generations: {numbers}; "
        f"{counted(gone.objects, 'object')}, {counted(gone.size, 'byte')}"
    )
