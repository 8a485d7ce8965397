"""The verbs of ``storage``: another long-term storage for a store, by copy and switch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from siltstone.cli.interrupts import goes_on
from siltstone.cli.left_out import tell_left_out
from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.moving_options import LOCAL, moving, rate_option, threads_option
from siltstone.cli.output import print_json, say
from siltstone.cli.path_text import PathText
from siltstone.cli.session import Session, json_option, pass_session
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.migration.relocate.copied_objects import MoveReport

NEW = click.argument("new", type=PathText(exists=True, dir_okay=False, path_type=Path))


@click.group(cls=ListedVerbs)
def storage() -> None:
    """Another long-term storage for the store; NEW is a settings file next to the store's own."""


@storage.command()
@NEW
@rate_option
@threads_option
@json_option
@pass_session
@goes_on()
def copy(
    session: Session, new: Path, rate: int | None, threads: int | None, *, as_json: bool
) -> None:
    """Copy the chunks to the long-term storage of NEW, while the owner runs; repeatable."""
    from siltstone.migration.relocate.switch import copy_storage

    with moving(session, "copy", on=LOCAL, threads=threads) as (executor, progress):
        report = copy_storage(
            session.store_path(), new, executor=executor, rate=rate, progress=progress
        )
    _tell(report, as_json=as_json)


@storage.command()
@NEW
@threads_option
@json_option
@pass_session
@goes_on()
def switch(session: Session, new: Path, threads: int | None, *, as_json: bool) -> None:
    """Copy the rest to the long-term storage of NEW and continue there; the store is closed."""
    from siltstone.migration.relocate.switch import switch_storage

    with moving(session, "switch", on=LOCAL, threads=threads) as (executor, progress):
        report = switch_storage(session.store_path(), new, executor=executor, progress=progress)
    _tell(report, as_json=as_json)


def _tell(report: MoveReport, *, as_json: bool) -> None:
    if report.has_left_collections:
        tell_left_out("copy")
    if as_json:
        print_json(
            {
                "objects": report.objects,
                "bytes": report.size,
                "copied": report.copied,
                "copied_bytes": report.copied_bytes,
                "removed": report.removed,
                "left_out": ["collections"] if report.has_left_collections else [],
                "settings": None if report.settings is None else str(report.settings),
            }
        )
        return
    say(
        f"copied {report.copied:,} of {counted(report.objects, 'object')}, "
        f"{report.copied_bytes:,} of {counted(report.size, 'byte')}; removed {report.removed:,}"
    )
    if report.settings is not None:
        say(f"switched: {report.settings}")
