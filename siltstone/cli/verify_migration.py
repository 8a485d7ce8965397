"""Comparing a migration with its layout, and recording sums of what is in place, wherever."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.cli.pipeline_options import finish, told, told_counts
from siltstone.cli.session import Session

if TYPE_CHECKING:
    from siltstone.container.models.segments import SegmentInfo
    from siltstone.pipelines.owned_store import OwnedStore
    from siltstone.pipelines.store_view import StoreView
    from siltstone.pipelines.work import Executor


def verify_migration(
    session: Session,
    folder: str,
    sealed: Path | None,
    executor: Executor,
    *,
    record_sums: bool,
    takeover: bool,
    rate: int | None,
    as_json: bool,
) -> None:
    """Compare, tell what became of each segment, and end as the worst of it asks."""
    from siltstone.migration.legacy.locate import located
    from siltstone.migration.legacy.reconcile import look
    from siltstone.migration.legacy.verify import verify as run_verify
    from siltstone.migration.source.range_compare import DIFFERS, MISSING
    from siltstone.pipelines.owned_store import owned_store
    from siltstone.pipelines.scrub import DAMAGE
    from siltstone.pipelines.store_view import store_view
    from siltstone.pipelines.work import FAILED, OK

    path = session.store_path()
    with ExitStack() as stack:
        place = stack.enter_context(located(folder, path, sealed))
        owned = stack.enter_context(owned_store(path, takeover=takeover)) if record_sums else None
        view = stack.enter_context(store_view(path))
        begin = look(place, view)
        known = begin.known.values()
        total = sum(one.origin.length - one.origin.start for one in known)
        infos = {one.info.name: one.info for one in known}
        outcomes = run_verify(place, view, executor, begin=begin, rate=rate)
        counts: Counter[str] = Counter()
        same = []
        quiet = frozenset((OK,))
        shown = told(session, "verify", outcomes, total, as_json=as_json, quiet=quiet)
        with closing(shown):
            for outcome in shown:
                counts[outcome.status] += 1
                if outcome.status == OK:
                    same.append(infos[outcome.subject])
        if owned is not None:
            recorded = record_sums_of(
                session, view, owned, executor, same, rate=rate, as_json=as_json
            )
            counts.update(status for status in recorded.elements() if status != OK)
    finish(session, "verify", counts, frozenset((DIFFERS, MISSING)) | DAMAGE, FAILED)


def record_sums_of(
    session: Session,
    view: StoreView,
    owned: OwnedStore,
    executor: Executor,
    segments: list[SegmentInfo],
    *,
    rate: int | None,
    as_json: bool,
) -> Counter[str]:
    """Record the sums of what segments have in place; return how many objects had which status."""
    from siltstone.pipelines.record_sums import plan_sums, record_sums
    from siltstone.pipelines.work import OK

    items = plan_sums(view, segments)
    total = sum(item.size for item in items)
    outcomes = record_sums(view, owned, executor, items, rate=rate)
    return told_counts(session, "sums", outcomes, total, as_json=as_json, quiet=frozenset((OK,)))
