"""``migrate legacy --mode code_only``: the store continues in the old layout."""

from __future__ import annotations

from pathlib import Path

from siltstone.cli.bring_migration import end_of_bringing, tell_brought
from siltstone.cli.interrupts import goes_on
from siltstone.cli.migration_plans import end_of_plan, known_segments, show_plan
from siltstone.cli.session import Session


def plan_code_only(
    session: Session, folder: str, under: str, sealed: Path | None, *, as_json: bool
) -> None:
    """Show what ``migrate_code_only`` would do; write nothing."""
    from siltstone.core.errors import StoreNotFoundError
    from siltstone.migration.legacy.code_only import check_held, check_service, plan_writing
    from siltstone.migration.legacy.locate import located
    from siltstone.migration.legacy.plan import Way, plan_migration
    from siltstone.migration.legacy.reconcile import plan_going_on
    from siltstone.pipelines.open_store import OpenStore
    from siltstone.pipelines.store_view import StoreView

    path = session.store_path()
    with located(folder, path, sealed) as place, OpenStore(path) as opened:
        prefix = check_service(place)
        view = StoreView(opened)
        try:
            begun = view.written_adoption() == place.migration
        except StoreNotFoundError:
            begun = False
        if begun:
            plan = plan_going_on(place, view, under)
        else:
            known = known_segments(session, under)
            plan = plan_migration(
                place.examine(),
                known,
                migration=place.migration,
                way=Way.CODE_ONLY,
                under=under,
                goes_on=True,
            )
            check_held(plan.layout, known.values(), place.migration)
        plan = plan_writing(plan, place.place, prefix, under, begun=begun).plan
        show_plan(plan, as_json=as_json)
        end_of_plan(session, plan)


@goes_on()
def migrate_code_only(
    session: Session,
    folder: str,
    under: str,
    sealed: Path | None,
    threads: int | None,
    *,
    takeover: bool,
    rate: int | None,
    as_json: bool,
) -> None:
    """Let old files become chunks, and have the store write on next to them.

    Args:
        session: of the command.
        folder: the layout, as it was named.
        under: what names in the store begin with.
        sealed: see ``located``.
        threads: files at a time.
        takeover: own the store although a live owner exists.
        rate: bytes a second that are read at most; ``None`` means no limit.
        as_json: write each outcome as a line of JSON.
    """
    from siltstone.migration.legacy.code_only import (
        check_alone,
        check_held,
        check_service,
        plan_writing,
    )
    from siltstone.migration.legacy.importer import CONFLICT, bring
    from siltstone.migration.legacy.locate import located
    from siltstone.migration.legacy.plan import Way, plan_migration
    from siltstone.migration.legacy.reconcile import plan_going_on
    from siltstone.migration.legacy.write_through.begin import begin_write_through
    from siltstone.pipelines.local_executor import LocalExecutor
    from siltstone.pipelines.open_store import OpenStore
    from siltstone.pipelines.store_view import StoreView
    from siltstone.pipelines.work import FAILED

    with located(folder, session.store_path(), sealed) as place:
        prefix = check_service(place)
        found = place.in_place()
        with session.open_owner(takeover=takeover) as store:
            begun = check_alone(store, place.migration, under)
            if begun:
                with OpenStore(session.store_path()) as opened:
                    plan = plan_going_on(place, StoreView(opened), under)
            else:
                infos = {info.name: info for info in store.list(under)}
                plan = plan_migration(
                    place.examine(),
                    infos,
                    migration=place.migration,
                    way=Way.CODE_ONLY,
                    under=under,
                )
                check_held(plan.layout, infos.values(), place.migration)
            writing = plan_writing(plan, place.place, prefix, under, begun=begun)
            files = place.for_workers(store.uuid)
            outcomes = bring(writing.plan, files, store, LocalExecutor(threads), found, rate=rate)
            counts = tell_brought(session, writing.plan, outcomes, as_json=as_json)
            if not begun and not counts[FAILED] and not counts[CONFLICT]:
                begin_write_through(store, writing.layout, writing.segments)
    end_of_bringing(session, plan, counts)
