"""The verb ``copy``: segments of one store in another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.interrupts import goes_on
from siltstone.cli.left_out import tell_left_out
from siltstone.cli.moving_options import on_options, open_executor
from siltstone.cli.path_text import PathText
from siltstone.cli.pipeline_options import finish, joined, told_counts
from siltstone.cli.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from siltstone.container.models.segments import SegmentInfo
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
    """Copy segments of the store SOURCE into the store TARGET: what is new and no more.

    Each store is a settings file or its folder, of any binding. SOURCE may be in use, TARGET not.
    Without SEGMENTS and --prefix all of them, but no collections. On Spark every worker needs both
    settings files.
    """
    check_choice(segments, prefix)
    with open_executor(**choice) as executor:
        chosen = _copy(
            session, source, target, segments, prefix, executor, rate=rate, as_json=as_json
        )
        if verify:
            _verify(session, source, target, chosen, executor, rate=rate, as_json=as_json)


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
) -> list[SegmentInfo]:
    """Copy, and return the segments as they were when that began."""
    from siltstone.collections.any_collection import store_has_collections
    from siltstone.pipelines.copy_plan import CONFLICT, UNREADABLE
    from siltstone.pipelines.copy_segments import copy as run_copy
    from siltstone.pipelines.copy_segments import lacking_bytes
    from siltstone.pipelines.owned_store import owned_store
    from siltstone.pipelines.store_view import store_view
    from siltstone.pipelines.work import FAILED, OK, SAME

    with store_view(source) as view, owned_store(target) as owned:
        chosen = view.segments(segments, prefix)
        total = lacking_bytes(view, owned, chosen)
        outcomes = run_copy(view, owned, executor, chosen, rate=rate)
        quiet = frozenset((OK, SAME))
        counts = told_counts(session, "copy", outcomes, total, as_json=as_json, quiet=quiet)
        if not segments and not prefix and store_has_collections(view.path, view.uuid):
            tell_left_out("copy")
    finish(session, "copy", counts, frozenset((UNREADABLE,)), FAILED, conflict=CONFLICT)
    return chosen


def _verify(
    session: Session,
    source: Path,
    target: Path,
    chosen: list[SegmentInfo],
    executor: Executor,
    *,
    rate: int | None,
    as_json: bool,
) -> None:
    from siltstone.pipelines.export import UNREADABLE
    from siltstone.pipelines.store_view import store_view
    from siltstone.pipelines.verify_copy import plan_verify_copy, verify_copy
    from siltstone.pipelines.verify_export import DIFFERS, MISSING
    from siltstone.pipelines.work import FAILED, OK

    with store_view(source) as view, store_view(target) as copied:
        # What was made since was not to be copied, nor what has the name of one that is gone.
        pairs, known = plan_verify_copy(view, copied, view.still_there(chosen))
        total = sum(pair.size for pair in pairs)
        outcomes = joined(known, verify_copy(view, copied, executor, pairs, rate=rate))
        quiet = frozenset((OK,))
        counts = told_counts(session, "verify", outcomes, total, as_json=as_json, quiet=quiet)
    finish(session, "verify", counts, frozenset((DIFFERS, MISSING, UNREADABLE)), FAILED)


def check_choice(segments: tuple[str, ...], prefix: str) -> None:
    """Refuse names and a prefix together."""
    if segments and prefix:
        raise click.UsageError("name segments, or give --prefix, not both")
