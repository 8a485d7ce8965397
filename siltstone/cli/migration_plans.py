"""Showing what a migration would do."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import print_json, print_table, printable
from siltstone.cli.session import Session

if TYPE_CHECKING:
    from siltstone.container.models.segments import SegmentInfo
    from siltstone.migration.legacy.plan import MigrationPlan, PlannedLegacySegment


def known_segments(session: Session, under: str) -> dict[str, SegmentInfo]:
    """Segments of the store; none when it was never opened."""
    from siltstone.core.errors import StoreNotFoundError

    try:
        with session.open_reader() as store:
            return {info.name: info for info in store.list(under)}
    except StoreNotFoundError as error:
        session.note(f"no segment of the store is known: {error}")
        return {}


def show_plan(plan: MigrationPlan, *, as_json: bool) -> None:
    """Write a plan: a table, or with ``as_json`` a line for each segment."""
    if as_json:
        for planned in plan.segments:
            print_json(_fields(planned))
        return
    rows = [
        (
            planned.action,
            planned.name,
            planned.finding.start,
            planned.finding.length,
            "sealed" if planned.finding.sealed else "open",
            len(planned.finding.pieces),
            planned.message,
        )
        for planned in plan.segments
    ]
    print_table(("action", "segment", "start", "length", "state", "files", "note"), rows)


def _fields(planned: PlannedLegacySegment) -> dict[str, Any]:
    finding = planned.finding
    return {
        "segment": planned.name,
        "action": planned.action,
        "reason": finding.reason,
        "message": planned.message,
        "start": finding.start,
        "length": finding.length,
        "sealed": finding.sealed,
        "rolling_bytes": finding.rolling_bytes,
        "lacking_bytes": planned.lacking_bytes,
        "files": [piece.key for piece in finding.pieces],
        "notes": [{"oddity": note.oddity, "text": note.text} for note in finding.notes],
    }


def note_missing_sealed(session: Session, plan: MigrationPlan) -> None:
    """Say which keys of ``--sealed`` name no file: what they were meant for may stay open."""
    for key in plan.layout.missing_sealed:
        session.note(f"named by --sealed, and no such file: {printable(key)}")


def end_of_plan(session: Session, plan: MigrationPlan) -> None:
    """Say how much of what there is, and end with the exit code that fits."""
    from siltstone.migration.legacy.plan import Action

    counts = Counter(planned.action for planned in plan.segments)
    session.note(", ".join(f"{count:,} {action}" for action, count in sorted(counts.items())))
    for key in plan.layout.strays:
        session.note(f"to be left alone: {printable(key)}")
    note_missing_sealed(session, plan)
    if counts[Action.REFUSED]:
        raise click.exceptions.Exit(ExitCode.DAMAGE)
    if counts[Action.CONFLICT]:
        raise click.exceptions.Exit(ExitCode.CONFLICT)
