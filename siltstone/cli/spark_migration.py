"""The verbs of ``spark`` about data that came from elsewhere: compared, and given sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from siltstone.cli.copy_command import check_choice
from siltstone.cli.migrate_commands import record_option, sealed_option
from siltstone.cli.pipeline_options import executor_options, finish, open_executor
from siltstone.cli.session import Session, json_option, pass_session, takeover_option
from siltstone.cli.verify_migration import record_sums_of
from siltstone.cli.verify_migration import verify_migration as run_verify_migration


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
            as_json=as_json,
        )


@click.command()
@click.argument("segments", nargs=-1)
@click.option("--prefix", default="", help="All segments whose names begin so.")
@takeover_option
@executor_options
@json_option
@pass_session
def sums(
    session: Session,
    /,
    segments: tuple[str, ...],
    prefix: str,
    *,
    takeover: bool,
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
        counts = record_sums_of(session, view, owned, executor, chosen, as_json=as_json)
    finish(session, "sums", counts, DAMAGE, FAILED)
