"""The verbs of ``spark`` about data from elsewhere: brought, compared, and given sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from siltstone.cli.bring_files import plan_option, seal_option, show_plan, told_imports
from siltstone.cli.bring_migration import bring_migration
from siltstone.cli.copy_command import check_choice
from siltstone.cli.interrupts import goes_on
from siltstone.cli.migrate_commands import (
    in_place_option,
    record_option,
    sealed_option,
    under_option,
)
from siltstone.cli.pipeline_options import executor_options, finish, open_executor, told_counts
from siltstone.cli.session import Session, json_option, pass_session, takeover_option
from siltstone.cli.verify_migration import record_sums_of
from siltstone.cli.verify_migration import verify_migration as run_verify_migration


@click.command()
@click.argument("folder", metavar="DIR")
@in_place_option
@under_option
@sealed_option
@takeover_option
@executor_options
@json_option
@pass_session
def migrate_legacy(
    session: Session,
    /,
    folder: str,
    under: str,
    sealed: Path | None,
    *,
    in_place: bool,
    takeover: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Bring segments of Pravega's RollingStorage, as 'migrate legacy' does; workers copy the bytes.

    Every worker needs DIR, if that is a folder, under the same path. Claims the store.
    """
    with open_executor(**choice) as executor:
        bring_migration(
            session,
            folder,
            sealed,
            under,
            executor,
            in_place=in_place,
            takeover=takeover,
            rate=rate,
            as_json=as_json,
        )


@click.command()
@click.argument("folder", metavar="DIR")
@sealed_option
@record_option
@takeover_option
@executor_options
@json_option
@pass_session
def verify_migration(
    session: Session,
    /,
    folder: str,
    sealed: Path | None,
    *,
    record_sums: bool,
    takeover: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Compare what came from DIR with DIR, as 'migrate verify' does. Exits with 6 on a difference.

    Every worker needs DIR, if that is a folder, under the same path.
    """
    with open_executor(**choice) as executor:
        run_verify_migration(
            session,
            folder,
            sealed,
            executor,
            record_sums=record_sums,
            takeover=takeover,
            rate=rate,
            as_json=as_json,
        )


@click.command()
@click.argument("segments", nargs=-1)
@click.option("--prefix", default="", help="All segments whose names begin so.")
@takeover_option
@executor_options
@json_option
@pass_session
@goes_on()
def sums(
    session: Session,
    /,
    segments: tuple[str, ...],
    prefix: str,
    *,
    takeover: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Read what segments have in place without checksums, and record these.

    Without SEGMENTS and --prefix all of them. Claims the store.
    """
    from siltstone.pipelines.owned_store import owned_store
    from siltstone.pipelines.scrub import DAMAGE
    from siltstone.pipelines.store_view import store_view
    from siltstone.pipelines.work import FAILED

    check_choice(segments, prefix)
    path = session.store_path()
    with (
        owned_store(path, takeover=takeover) as owned,
        store_view(path) as view,
        open_executor(**choice) as executor,
    ):
        chosen = view.segments(segments, prefix)
        counts = record_sums_of(session, view, owned, executor, chosen, rate=rate, as_json=as_json)
    finish(session, "sums", counts, DAMAGE, FAILED)


@click.command("import")
@click.argument("segment")
@click.argument("sources", nargs=-1, required=True)
@seal_option
@plan_option
@takeover_option
@executor_options
@json_option
@pass_session
def import_(
    session: Session,
    /,
    segment: str,
    sources: tuple[str, ...],
    *,
    seal: bool,
    dry_run: bool,
    takeover: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Make SEGMENT of files, as 'import SEGMENT SOURCES' does; workers copy the bytes.

    Every worker needs the files under the same paths. Claims the store. The same command again, or
    'import', goes on where it was ended.
    """
    from siltstone.migration.files.import_files import ImportChoices
    from siltstone.migration.files.import_plan import plan_files

    planned = plan_files(segment, sources)
    if dry_run:
        show_plan(planned, as_json=as_json)
        return
    with session.open_owner(takeover=takeover) as store, open_executor(**choice) as executor:
        choices = ImportChoices(seal=seal)
        told_imports(session, store, planned, choices, executor, rate=rate, as_json=as_json)


@click.command()
@click.argument("segment")
@click.argument("sources", nargs=-1, required=True)
@executor_options
@json_option
@pass_session
def verify_import(
    session: Session,
    /,
    segment: str,
    sources: tuple[str, ...],
    *,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Compare segments with the files that 'import SEGMENT SOURCES' made them of, byte for byte.

    What was appended since is passed over. Every worker needs the files under the same paths.
    Exits with 6 on a difference.
    """
    from siltstone.migration.files.import_plan import plan_files
    from siltstone.migration.files.verify_files import verify_files
    from siltstone.migration.source.range_compare import DIFFERS, MISSING
    from siltstone.pipelines.store_view import store_view
    from siltstone.pipelines.work import FAILED, OK

    planned = plan_files(segment, sources)
    total = sum(each.length for each in planned)
    with store_view(session.store_path()) as view, open_executor(**choice) as executor:
        outcomes = verify_files(view, planned, executor, rate=rate)
        quiet = frozenset((OK,))
        counts = told_counts(session, "verify", outcomes, total, as_json=as_json, quiet=quiet)
    finish(session, "verify", counts, frozenset((DIFFERS, MISSING)), FAILED)
