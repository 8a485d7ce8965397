"""The verbs of ``spark`` that do what those of ``backup`` do, where jobs are done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from siltstone.cli.backup_commands import (
    ALLOW_MISSING,
    FOLDER,
    GENERATION,
    GENERATIONS,
    MISSING,
    OF,
    ONLY,
    PLACE,
    TURN,
    new_store_options,
    site_from,
    tell_backup,
    tell_restored,
    tell_verified,
)
from siltstone.cli.interrupts import goes_on
from siltstone.cli.moving_options import progress_of
from siltstone.cli.pipeline_options import executor_options, open_executor
from siltstone.cli.session import Session, json_option, pass_session


@click.command()
@PLACE
@ONLY
@MISSING
@TURN
@executor_options
@json_option
@pass_session
@goes_on()
def backup(
    session: Session,
    /,
    place: Path,
    containers: tuple[int, ...],
    *,
    allow_missing: bool,
    takeover: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Make a backup in PLACE, as 'backup create' does; workers copy the chunks."""
    from siltstone.migration.backup.create import create_backup

    with open_executor(**choice) as executor, progress_of(session, "backup") as progress:
        report = create_backup(
            session.store_path(),
            place,
            containers=containers or None,
            executor=executor,
            rate=rate,
            allow_missing=allow_missing,
            takeover=takeover,
            progress=progress,
        )
    tell_backup(report, as_json=as_json)


@click.command()
@PLACE
@GENERATIONS
@OF
@executor_options
@json_option
@pass_session
def verify_backup(
    session: Session,
    /,
    place: Path,
    generations: tuple[int, ...],
    of: str | None,
    *,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Read every byte of GENERATIONS, or of all, as 'backup verify' does. Exits with 6 on damage.

    Without --of, PLACE has backups of one store.
    """
    from siltstone.migration.backup.verify import verify_backups

    with open_executor(**choice) as executor, progress_of(session, "verify") as progress:
        report = verify_backups(
            place, generations or None, of, executor=executor, rate=rate, progress=progress
        )
    tell_verified(session, report, as_json=as_json)


@click.command()
@PLACE
@FOLDER
@GENERATION
@OF
@new_store_options
@ALLOW_MISSING
@executor_options
@json_option
@pass_session
@goes_on()
def restore(
    session: Session,
    /,
    place: Path,
    folder: Path,
    generation: int | None,
    of: str | None,
    *,
    allow_missing: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Make a new store in FOLDER from a backup, as 'backup restore' does; workers bring the chunks.

    Every worker needs FOLDER under the same path, for the settings file that is made in it.
    """
    from siltstone.migration.backup.restore import restore_backup

    site = site_from(folder, choice)
    with open_executor(**choice) as executor, progress_of(session, "restore") as progress:
        report = restore_backup(
            place,
            site,
            generation,
            of,
            executor=executor,
            rate=rate,
            allow_missing=allow_missing,
            progress=progress,
        )
    tell_restored(report, as_json=as_json)
