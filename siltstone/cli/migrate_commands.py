"""The verbs of ``migrate``: data of older layouts in, and back out."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.bring_migration import bring_migration
from siltstone.cli.code_only import migrate_code_only, plan_code_only
from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.interrupts import goes_on
from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.migration_plans import end_of_plan, known_segments, show_plan
from siltstone.cli.moving_options import SPARK, on_options, open_executor
from siltstone.cli.output import say
from siltstone.cli.path_text import PathText
from siltstone.cli.pipeline_options import finish, told_counts
from siltstone.cli.session import (
    Session,
    dry_run_option,
    json_option,
    pass_session,
    takeover_option,
)
from siltstone.cli.verify_migration import verify_migration
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.migration.legacy.locate import Located
    from siltstone.pipelines.work import ItemOutcome
    from siltstone.store.store import Store

MODES = ("no_upgrade", "code_only", "layout_upgrade", "install_new")


@click.group(cls=ListedVerbs)
def migrate() -> None:
    """Data of older layouts: in by copy or in place, compared, and back out again."""


sealed_option = click.option(
    "--sealed",
    type=PathText(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file with the key of each sealed file, a line each, where modes do not tell.",
)


@migrate.command()
@click.argument("folder", metavar="DIR")
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="layout_upgrade",
    show_default=True,
    help="What becomes of the layout.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done; write nothing.")
@click.option("--in-place", is_flag=True, help="Let the old files become chunks; move no byte.")
@click.option("--under", default="", metavar="TEXT", help="Names in the store begin so.")
@sealed_option
@on_options
@takeover_option
@json_option
@pass_session
def legacy(
    session: Session,
    /,
    folder: str,
    mode: str,
    under: str,
    sealed: Path | None,
    *,
    dry_run: bool,
    in_place: bool,
    takeover: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Bring segments of Pravega's RollingStorage, its layout with header files.

    DIR is a folder, or storage:PREFIX on the store's own long-term storage. Nothing in it is
    changed. On Spark every worker needs such a folder under the same path.
    """
    if choice["on"] == SPARK and mode != "layout_upgrade":
        raise click.UsageError(f"--on spark is for --mode layout_upgrade: leave it out with {mode}")
    if mode == "code_only":
        if dry_run:
            plan_code_only(session, folder, under, sealed, as_json=as_json)
        else:
            migrate_code_only(
                session,
                folder,
                under,
                sealed,
                choice["threads"],
                takeover=takeover,
                rate=rate,
                as_json=as_json,
            )
        return
    if mode == "install_new":
        _install_new(session, folder, sealed)
        return
    if not (dry_run or mode == "no_upgrade"):
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
        return
    _plan_only(session, folder, sealed, under, in_place=in_place, as_json=as_json, mode=mode)


def _plan_only(
    session: Session,
    folder: str,
    sealed: Path | None,
    under: str,
    *,
    in_place: bool,
    as_json: bool,
    mode: str,
) -> None:
    """Show what would be done."""
    from siltstone.migration.legacy.locate import located
    from siltstone.migration.legacy.plan import Way, plan_migration

    with located(folder, session.store_path(), sealed) as place:
        if in_place:
            place.in_place()
        plan = plan_migration(
            place.examine(),
            known_segments(session, under),
            migration=place.migration,
            way=Way.IN_PLACE if in_place else Way.COPY,
            under=under,
        )
    show_plan(plan, as_json=as_json)
    if mode == "no_upgrade":
        session.note("no_upgrade: nothing was done; layout_upgrade converts the layout")
        raise click.exceptions.Exit(ExitCode.CONFLICT)
    end_of_plan(session, plan)


def _install_new(session: Session, folder: str, sealed: Path | None) -> None:
    """Succeed only where no old layout would be passed over."""
    from siltstone.migration.legacy.locate import located
    from siltstone.migration.legacy.names import NoLegacyLayoutError

    try:
        with located(folder, session.store_path(), sealed) as place:
            layout = place.examine()
    except NoLegacyLayoutError as error:
        session.note(f"install_new: nothing to bring: {error}")
        return
    count = len(layout.segments)
    say(
        f"siltstone: install_new: {layout.where} holds {counted(count, 'legacy segment')}", err=True
    )
    raise click.exceptions.Exit(ExitCode.CONFLICT)


@migrate.command()
@click.argument("folder", metavar="DIR")
@sealed_option
@click.option("--record-sums", is_flag=True, help="Keep checksums of files that became chunks.")
@takeover_option
@on_options
@json_option
@pass_session
def verify(
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
    """Compare what came from DIR with DIR, every byte. Exits with 6 on a difference.

    On Spark every worker needs DIR, if that is a folder, under the same path.
    """
    with open_executor(**choice) as executor:
        verify_migration(
            session,
            folder,
            sealed,
            executor,
            record_sums=record_sums,
            takeover=takeover,
            rate=rate,
            as_json=as_json,
        )


@migrate.command()
@click.argument("folder", metavar="DIR")
@sealed_option
@dry_run_option
@takeover_option
@json_option
@pass_session
def rollback(
    session: Session,
    /,
    folder: str,
    sealed: Path | None,
    *,
    dry_run: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Go back to DIR: write there what was appended since, then forget what came from it."""
    from siltstone.migration.legacy.rollback import look_at_roll_back, roll_back

    work = look_at_roll_back if dry_run else roll_back
    _end(
        session, "rollback", work, folder, sealed,
        dry_run=dry_run, takeover=takeover, as_json=as_json,
    )  # fmt: skip


@migrate.command()
@click.argument("folder", metavar="DIR")
@sealed_option
@dry_run_option
@takeover_option
@json_option
@pass_session
def finalise(
    session: Session,
    /,
    folder: str,
    sealed: Path | None,
    *,
    dry_run: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """End a migration for good: there is no rollback any more.

    Files that became chunks are ordinary ones then, and headers that nothing needs are deleted.
    """
    from siltstone.migration.legacy.rollback import finalise as run_finalise
    from siltstone.migration.legacy.rollback import look_at_end

    work = look_at_end if dry_run else run_finalise
    _end(
        session, "finalise", work, folder, sealed,
        dry_run=dry_run, takeover=takeover, as_json=as_json,
    )  # fmt: skip


@goes_on()
def _end(
    session: Session,
    verb: str,
    work: Callable[[Located, Store], Generator[ItemOutcome]],
    folder: str,
    sealed: Path | None,
    *,
    dry_run: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """End the migration of a layout, this way or that, or show what that would do."""
    from siltstone.migration.legacy.locate import located
    from siltstone.pipelines.work import FAILED, OK

    with ExitStack() as stack:
        place = stack.enter_context(located(folder, session.store_path(), sealed))
        store = stack.enter_context(session.open_changing(takeover=takeover, dry_run=dry_run))
        outcomes = work(place, store)
        quiet: frozenset[str] = frozenset() if dry_run else frozenset((OK,))
        counts = told_counts(session, verb, outcomes, 0, as_json=as_json, quiet=quiet)
    finish(session, verb, counts, frozenset(), FAILED)


@migrate.command()
@click.argument("folder", type=PathText(file_okay=False, path_type=Path))
@click.argument("segments", nargs=-1)
@click.option("--prefix", default="", help="Export all segments whose names begin so.")
@json_option
@pass_session
@goes_on()
def export(
    session: Session, /, folder: Path, segments: tuple[str, ...], prefix: str, *, as_json: bool
) -> None:
    """Write segments into FOLDER, in the layout with header files. Without SEGMENTS all of them."""
    from siltstone.migration.legacy.export import export as run_export
    from siltstone.migration.legacy.importer import CONFLICT, REFUSED
    from siltstone.pipelines.work import FAILED, OK, SAME

    if segments and prefix:
        raise click.UsageError("name segments, or give --prefix, not both")
    with session.open_reader() as store:
        if segments:
            infos = [store.segment(name).info() for name in segments]
        else:
            infos = list(store.list(prefix))
        total = sum(info.length - info.start_offset for info in infos)
        outcomes = run_export(store, infos, folder)
        quiet = frozenset((OK, SAME))
        counts = told_counts(session, "export", outcomes, total, as_json=as_json, quiet=quiet)
    finish(session, "export", counts, frozenset(), FAILED, conflict=CONFLICT)
    if counts[REFUSED]:
        raise click.exceptions.Exit(ExitCode.USAGE)
