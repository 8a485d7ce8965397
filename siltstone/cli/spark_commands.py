"""The verbs of ``spark``: jobs over many chunks, in tasks of Spark or on threads of our own."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import click

from siltstone.cli.collection_changes import check_not_owned
from siltstone.cli.copy_command import check_choice
from siltstone.cli.interrupts import goes_on
from siltstone.cli.moving_options import executor_options, open_executor
from siltstone.cli.old_spark_verbs import SparkVerbs
from siltstone.cli.path_text import PathText
from siltstone.cli.pipeline_options import (
    FolderOrAddress,
    finish,
    joined,
    one_by_one,
    told,
    told_counts,
)
from siltstone.cli.session import Session, json_option, pass_session, takeover_option
from siltstone.cli.verify_migration import record_sums_of
from siltstone.store.settings.file import FILE_NAME


@click.group(cls=SparkVerbs)
def spark() -> None:
    """Jobs over many chunks, in tasks of Spark or on threads of our own.

    Backups, copies, imports and migrations are verbs of their own, and take --on spark.
    """


@spark.command()
@click.option(
    "--resume",
    type=PathText(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep in FILE which chunks are done, and pass them over; the end removes it.",
)
@executor_options
@json_option
@pass_session
def scrub(
    session: Session,
    /,
    resume: Path | None,
    *,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Read every chunk, and all of collections, and compare with sums. Exits with 6 on damage."""
    from siltstone.pipelines.kept_outcomes import KeptOutcomes
    from siltstone.pipelines.scrub import DAMAGE, GONE, plan_scrub
    from siltstone.pipelines.scrub import scrub as run_scrub
    from siltstone.pipelines.scrub_collections import scrub_collections
    from siltstone.pipelines.store_view import store_view
    from siltstone.pipelines.work import FAILED, OK

    with store_view(session.store_path()) as view:
        head = {"job": "scrub", "store": view.uuid}
        with (
            goes_on(when=resume is not None),
            KeptOutcomes(resume, head) as kept,
            open_executor(**choice) as executor,
        ):
            items = plan_scrub(view.chunk_rows())
            # A chunk that grew since is read again.
            left = [item for item in items if kept.done.get(item.name) != item.length]
            total = sum(item.length for item in left)
            chunks = run_scrub(view, executor, left, rate=rate)
            outcomes = one_by_one(chunks, scrub_collections(view, executor, kept.done, rate=rate))
            quiet = frozenset((OK, GONE))
            shown = told(session, "scrub", outcomes, total, as_json=as_json, quiet=quiet)
            with closing(shown):
                for outcome in shown:
                    if outcome.status != FAILED:
                        kept.keep(outcome)
                    else:
                        kept.counts[FAILED] += 1
            if not kept.counts[FAILED]:
                kept.end()
    finish(session, "scrub", kept.counts, DAMAGE, FAILED)


@spark.command()
@click.argument("folder", type=FolderOrAddress(file_okay=False))
@click.argument("segments", nargs=-1)
@click.option("--prefix", default="", help="Export all segments whose names begin so.")
@click.option(
    "--form",
    type=click.Choice(["parquet", "files"]),
    default="parquet",
    show_default=True,
    help="Tables of Parquet, or the bytes as they are.",
)
@click.option(
    "--records",
    type=click.Choice(["lines", "events", "bytes"]),
    help="What a row is; lines by default, and bytes for files.",
)
@click.option(
    "--file-size", metavar="SIZE", default="64MiB", show_default=True, help="Of a segment a file."
)
@executor_options
@json_option
@pass_session
@goes_on()
def export(
    session: Session,
    /,
    folder: str,
    segments: tuple[str, ...],
    prefix: str,
    form: str,
    records: str | None,
    file_size: str,
    *,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Write segments into files of FOLDER, a folder for each; later runs write what is missing.

    FOLDER may be s3://BUCKET/PREFIX; credentials come from the environment, here and of workers.
    Without SEGMENTS and --prefix all of them.
    """
    from siltstone.pipelines.export import UNREADABLE, plan_export
    from siltstone.pipelines.export import export as run_export
    from siltstone.pipelines.export_layout import Form, Records
    from siltstone.pipelines.store_view import store_view
    from siltstone.pipelines.work import FAILED, OK, SAME
    from siltstone.store.settings.units import parse_size

    check_choice(segments, prefix)
    kind = Records(records or ("bytes" if form == "files" else "lines"))
    size = parse_size(file_size)
    if size < 1:
        raise click.BadParameter("at least one byte", param_hint="--file-size")
    with store_view(session.store_path()) as view:
        chosen = view.segments(segments, prefix)
        items = plan_export(view, chosen, folder, Form(form), kind, size)
        total = sum(item.size for item in items)
        with open_executor(**choice) as executor:
            outcomes = run_export(view, executor, items, rate=rate)
            quiet = frozenset((OK, SAME))
            counts = told_counts(session, "export", outcomes, total, as_json=as_json, quiet=quiet)
    finish(session, "export", counts, frozenset((UNREADABLE,)), FAILED)


@spark.command()
@click.argument("target", type=FolderOrAddress(exists=True))
@click.argument("segments", nargs=-1)
@click.option("--prefix", default="", help="Of a copy, all segments whose names begin so.")
@executor_options
@json_option
@pass_session
def verify(
    session: Session,
    /,
    target: str,
    segments: tuple[str, ...],
    prefix: str,
    *,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Compare TARGET, the place of an export or another store, with the store, byte for byte.

    Exits with 6 on a difference.
    """
    from siltstone.pipelines.export import UNREADABLE
    from siltstone.pipelines.store_view import store_view
    from siltstone.pipelines.verify_copy import plan_verify_copy, verify_copy
    from siltstone.pipelines.verify_export import (
        DIFFERS,
        MISSING,
        plan_verify_export,
        verify_export,
    )
    from siltstone.pipelines.work import FAILED, OK

    check_choice(segments, prefix)
    is_store = Path(target).is_file() or Path(target, FILE_NAME).exists()
    if prefix and not is_store:
        raise click.UsageError("--prefix is for copies; name the segments of an export")
    with ExitStack() as stack:
        view = stack.enter_context(store_view(session.store_path()))
        executor = stack.enter_context(open_executor(**choice))
        if is_store:
            copied = stack.enter_context(store_view(target))
            pairs, known = plan_verify_copy(view, copied, view.segments(segments, prefix))
            total = sum(pair.size for pair in pairs)
            found = verify_copy(view, copied, executor, pairs, rate=rate)
        else:
            items, known = plan_verify_export(view, target, segments)
            total = sum(item.size for item in items)
            found = verify_export(view, executor, items, rate=rate)
        quiet = frozenset((OK,))
        outcomes = joined(known, found)
        counts = told_counts(session, "verify", outcomes, total, as_json=as_json, quiet=quiet)
    finish(session, "verify", counts, frozenset((DIFFERS, MISSING, UNREADABLE)), FAILED)


@spark.command()
@click.option(
    "--small", metavar="SIZE", default="16MiB", show_default=True, help="Most of a small chunk."
)
@click.option(
    "--chunk-size", metavar="SIZE", default="64MiB", show_default=True, help="Most of a new chunk."
)
@click.option(
    "--min",
    "count_min",
    type=click.IntRange(2),
    metavar="N",
    default=4,
    show_default=True,
    help="Leave fewer small chunks alone.",
)
@click.option("--share/--no-share", default=True, help="Put segments of one small chunk together.")
@executor_options
@json_option
@pass_session
@goes_on()
def compact(
    session: Session,
    /,
    small: str,
    chunk_size: str,
    count_min: int,
    *,
    share: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Merge small chunks into fewer ones. The store must have no other owner meanwhile."""
    from siltstone.pipelines.compact import CHANGED, DAMAGED, chosen_rules, planned_bytes
    from siltstone.pipelines.compact import compact as run_compact
    from siltstone.pipelines.owned_store import owned_store
    from siltstone.pipelines.work import FAILED, OK
    from siltstone.store.settings.units import parse_size

    with owned_store(session.store_path()) as store:
        rules = chosen_rules(
            small_bytes=parse_size(small),
            chunk_bytes=parse_size(chunk_size),
            count_min=count_min,
            share=share,
        )
        with open_executor(**choice) as executor:
            total = planned_bytes(store, rules)
            outcomes = run_compact(store, executor, rules, rate=rate)
            quiet = frozenset((OK, CHANGED))
            counts = told_counts(session, "compact", outcomes, total, as_json=as_json, quiet=quiet)
    finish(session, "compact", counts, frozenset((DAMAGED,)), FAILED)


@spark.command()
@click.argument("collections", nargs=-1, required=True)
@executor_options
@json_option
@pass_session
def compact_collection(
    session: Session,
    /,
    collections: tuple[str, ...],
    *,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Merge all batches of COLLECTIONS into one each, by ranges of keys. Claims nothing."""
    check_not_owned(session)
    from siltstone.collections.blocking import open_collections
    from siltstone.pipelines.compact_collection import CHANGED, DAMAGED
    from siltstone.pipelines.compact_collection import compact_collection as run_compact
    from siltstone.pipelines.work import FAILED, OK, SAME

    path = session.store_path()
    with open_collections(path) as opened:
        lengths = {name: opened.collection(name).info().length for name in collections}
    counts: Counter[str] = Counter()
    quiet = frozenset((OK, SAME))
    with open_executor(**choice) as executor:
        for name, length in lengths.items():
            outcomes = run_compact(path, name, executor, rate=rate)
            counts += told_counts(session, name, outcomes, length, as_json=as_json, quiet=quiet)
    finish(
        session,
        "compact-collection",
        counts,
        frozenset((DAMAGED,)),
        FAILED,
        conflict=CHANGED,
    )


@spark.command()
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


@spark.command()
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
