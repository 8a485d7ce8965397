"""Bringing a legacy layout into the store, wherever its bytes are copied."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.cli.interrupts import goes_on
from siltstone.cli.migration_plans import note_missing_sealed
from siltstone.cli.output import printable
from siltstone.cli.pipeline_options import finish, told_counts
from siltstone.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Generator

    from siltstone.migration.legacy.plan import MigrationPlan
    from siltstone.pipelines.work import Executor, ItemOutcome


@goes_on()
def bring_migration(
    session: Session,
    folder: str,
    sealed: Path | None,
    under: str,
    executor: Executor,
    *,
    in_place: bool,
    takeover: bool,
    rate: int | None,
    as_json: bool,
) -> None:
    """Plan, bring, tell what became of each segment, and end as the worst of it asks."""
    from siltstone.migration.legacy.importer import bring
    from siltstone.migration.legacy.locate import located
    from siltstone.migration.legacy.plan import Way, plan_migration

    with located(folder, session.store_path(), sealed) as place:
        # Refused before anything is looked at, when the files cannot become chunks.
        found = place.in_place() if in_place else None
        layout = place.examine()
        with session.open_owner(takeover=takeover) as store:
            plan = plan_migration(
                layout,
                {info.name: info for info in store.list(under)},
                migration=place.migration,
                way=Way.IN_PLACE if in_place else Way.COPY,
                under=under,
            )
            files = place.for_workers(store.uuid)
            outcomes = bring(plan, files, store, executor, found, rate=rate)
            counts = tell_brought(session, plan, outcomes, as_json=as_json)
            end_of_bringing(session, plan, counts)


def tell_brought(
    session: Session, plan: MigrationPlan, outcomes: Generator[ItemOutcome], *, as_json: bool
) -> Counter[str]:
    """Let a plan be carried out, and tell what becomes of each segment; return how many of each."""
    from siltstone.pipelines.work import OK, SAME

    total = sum(planned.lacking_bytes for planned in plan.segments)
    quiet = frozenset((OK, SAME))
    return told_counts(session, "migrate", outcomes, total, as_json=as_json, quiet=quiet)


def end_of_bringing(session: Session, plan: MigrationPlan, counts: Counter[str]) -> None:
    """Say what was left alone, and end as the worst of all segments asks."""
    from siltstone.migration.legacy.importer import CONFLICT, REFUSED
    from siltstone.pipelines.work import FAILED

    for key in plan.layout.strays:
        session.note(f"left alone: {printable(key)}")
    note_missing_sealed(session, plan)
    finish(session, "migrate", counts, frozenset((REFUSED,)), FAILED, conflict=CONFLICT)
