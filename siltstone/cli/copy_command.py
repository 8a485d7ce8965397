"""The verb ``copy``: segments and collections of one store in another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.collection_copy_command import copied
from siltstone.cli.interrupts import goes_on
from siltstone.cli.left_out import tell_left_out
from siltstone.cli.moving_options import on_options, open_executor
from siltstone.cli.path_text import PathText
from siltstone.cli.pipeline_options import finish, joined, one_by_one, told_counts
from siltstone.cli.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from collections import Counter

    from siltstone.container.models.segments import SegmentInfo
    from siltstone.pipelines.store_view import StoreView
    from siltstone.pipelines.work import Executor

STORE = PathText(exists=True, path_type=Path)


@click.command()
@click.argument("source", type=STORE)
@click.argument("target", type=STORE)
@click.argument("segments", nargs=-1)
@click.option("--prefix", default="", help="Copy all segments whose names begin so.")
@click.option("--verify", is_flag=True, help="Compare the copy with its source afterwards.")
@on_options
@json_option
@pass_session
def copy(
    session: Session,
    /,
    source: Path,
    target: Path,
    segments: tuple[str, ...],
    prefix: str,
    *,
    verify: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Copy segments and collections of the store SOURCE into TARGET: what is new and no more.

    Each store is a settings file or its folder, of any binding. SOURCE may be in use, TARGET not.
    Without SEGMENTS and --prefix all segments, and all collections that TARGET does not have. On
    Spark every worker needs both settings files.
    """
    check_choice(segments, prefix)
    with open_executor(**choice) as executor:
        chosen, collections = _copy(
            session, source, target, segments, prefix, executor, rate=rate, as_json=as_json
        )
        if verify:
            _verify(
                session,
                source,
                target,
                chosen,
                collections,
                executor,
                rate=rate,
                as_json=as_json,
            )


@goes_on()
def _copy(
    session: Session,
    source: Path,
    target: Path,
    segments: tuple[str, ...],
    prefix: str,
    executor: Executor,
    *,
    rate: int | None,
    as_json: bool,
) -> tuple[list[SegmentInfo], list[str]]:
    """Copy, and return the segments as they were when that began, and names of collections."""
    from siltstone.pipelines.copy_plan import CONFLICT, UNREADABLE
    from siltstone.pipelines.copy_segments import copy as run_copy
    from siltstone.pipelines.copy_segments import lacking_bytes
    from siltstone.pipelines.owned_store import owned_store
    from siltstone.pipelines.scrub import DAMAGE
    from siltstone.pipelines.store_view import store_view
    from siltstone.pipelines.work import FAILED, OK, SAME

    collections: list[str] = []
    with store_view(source) as view:
        with owned_store(target) as owned:
            chosen = view.segments(segments, prefix)
            total = lacking_bytes(view, owned, chosen)
            outcomes = run_copy(view, owned, executor, chosen, rate=rate)
            quiet = frozenset((OK, SAME))
            counts = told_counts(session, "copy", outcomes, total, as_json=as_json, quiet=quiet)
        if not segments and not prefix:
            collections = _copy_collections(
                session, view, target, executor, counts, rate=rate, as_json=as_json
            )
    damage = DAMAGE | {UNREADABLE}
    finish(session, "copy", counts, damage, FAILED, conflict=CONFLICT)
    return chosen, collections


def _copy_collections(
    session: Session,
    view: StoreView,
    target: Path,
    executor: Executor,
    counts: Counter[str],
    *,
    rate: int | None,
    as_json: bool,
) -> list[str]:
    """Copy all collections, count what became of them, and return the names of the copies."""
    from siltstone.collections.any_collection import (
        collections_are_installed,
        store_has_collections,
    )
    from siltstone.migration.relocate.collection_copy import CollectionCopies

    if not store_has_collections(view.path, view.uuid):
        return []
    if not collections_are_installed():
        tell_left_out("copy")
        return []
    every = CollectionCopies(is_pinned=True, rate=rate)
    made: list[str] = []
    counts.update(
        copied(session, Path(view.path), target, executor, every, made=made, as_json=as_json)
    )
    return made


def _verify(
    session: Session,
    source: Path,
    target: Path,
    chosen: list[SegmentInfo],
    collections: list[str],
    executor: Executor,
    *,
    rate: int | None,
    as_json: bool,
) -> None:
    from siltstone.migration.relocate.collection_copy import verify_collections
    from siltstone.pipelines.export import UNREADABLE
    from siltstone.pipelines.scrub import DAMAGE
    from siltstone.pipelines.store_view import store_view
    from siltstone.pipelines.verify_copy import plan_verify_copy, verify_copy
    from siltstone.pipelines.verify_export import DIFFERS, MISSING
    from siltstone.pipelines.work import FAILED, OK

    with store_view(source) as view, store_view(target) as copy:
        # What was made since was not to be copied, nor what has the name of one that is gone.
        pairs, known = plan_verify_copy(view, copy, view.still_there(chosen))
        total = sum(pair.size for pair in pairs)
        outcomes = one_by_one(
            joined(known, verify_copy(view, copy, executor, pairs, rate=rate)),
            verify_collections(target, collections, executor, rate=rate),
        )
        quiet = frozenset((OK,))
        counts = told_counts(session, "verify", outcomes, total, as_json=as_json, quiet=quiet)
    finish(session, "verify", counts, DAMAGE | {DIFFERS, MISSING, UNREADABLE}, FAILED)


def check_choice(segments: tuple[str, ...], prefix: str) -> None:
    """Refuse names and a prefix together."""
    if segments and prefix:
        raise click.UsageError("name segments, or give --prefix, not both")
