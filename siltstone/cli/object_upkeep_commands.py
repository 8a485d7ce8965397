"""The verbs of ``objects`` that tidy up, look inside, and destroy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.confirm import ask
from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.findings import tell_finding, tell_found
from siltstone.cli.interrupts import goes_on
from siltstone.cli.moving_options import LOCAL, moving, on_options, open_executor
from siltstone.cli.output import print_json, print_table, printable, say, share_bar
from siltstone.cli.session import (
    Session,
    dry_run_option,
    json_option,
    pass_session,
    recover_option,
    takeover_option,
)
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.container.models.segments import Finding
    from siltstone.migration.backup.create import Progress
    from siltstone.objects import CompactionReport, Keyspace, KeyspaceInfo
    from siltstone.pipelines.work import Executor
    from siltstone.store.store import Store


@click.command()
@click.argument("keyspace")
@recover_option
@json_option
@pass_session
def stat(session: Session, keyspace: str, *, as_json: bool) -> None:
    """Show what KEYSPACE holds: objects, value segments, bytes that are needed and that are not."""
    from siltstone import objects

    with session.open_reader() as store:
        info = objects.open(store, keyspace).stat()
    if as_json:
        sums = {"length": info.length, "live_bytes": info.live_bytes}
        print_json({**asdict(info), **sums, "waste_bytes": info.waste_bytes})
        return
    for label, value in _lines(info):
        say(f"{label + ':':<14} {printable(value)}")
    print_table(
        ("SEGMENT", "STATUS", "RECORDS", "BYTES", "NEEDED"),
        (
            (each.segment, each.status, each.records, each.length, each.live_bytes)
            for each in info.segments
        ),
    )


def _lines(info: KeyspaceInfo) -> Iterator[tuple[str, str]]:
    """What people are told of a keyspace."""
    yield "name", info.name
    yield "tags", ", ".join(f"{tag} ({strategy})" for tag, strategy in sorted(info.tags.items()))
    yield "next SQN", f"{info.next_sqn}"
    yield "objects", f"{info.objects:,}, with {counted(info.value_bytes, 'byte')} of values"
    yield "large values", f"{info.large:,}, with {counted(info.large_bytes, 'byte')}"
    yield "expired", f"{info.expired:,} that wait to be removed"
    yield "index entries", f"{info.index_entries:,}"
    yield "records", f"{counted(info.length, 'byte')}, of which {info.waste_bytes:,} are not needed"
    yield "to be deleted", f"{counted(info.waiting, 'segment')} of {info.waiting_bytes:,} bytes"


@click.command()
@click.argument("keyspace")
@click.option("--once", is_flag=True, help="One run of value segments, and no more.")
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Delete the objects whose values are damaged or gone, and compact the rest.",
)
@takeover_option
@on_options
@json_option
@pass_session
@goes_on()
def compact(
    session: Session,
    /,
    keyspace: str,
    *,
    once: bool,
    accept_loss: bool,
    takeover: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Write once more what is needed of value segments that are worth it, until none is.

    Those of which something needed is damaged or gone stay as they are: exits with 6 then. With
    --threads, --rate or --on spark, what is needed is read and written by several at a time.
    """
    from siltstone import objects

    is_job = choice["on"] != LOCAL or choice["threads"] is not None or rate is not None
    unreadable: set[int] = set()
    with ExitStack() as stack:
        store = stack.enter_context(session.open_owner(takeover=takeover))
        target = objects.open(store, keyspace)
        for segment in target.stat().segments:  # what is only in tier 1 is not compacted
            if segment.status == "sealed":
                store.segment(segment.segment).flush()
        if is_job:
            executor, advance = stack.enter_context(moving(session, keyspace, **choice))
            found = _compactions(
                session, store, keyspace, executor, rate, advance, accept_loss=accept_loss
            )
        else:
            found = _own_compactions(target, accept_loss=accept_loss)
        for report in stack.enter_context(closing(found)):
            unreadable.update(report.unreadable)
            if report.run or report.unreadable or report.dropped:
                _tell_compaction(keyspace, report, as_json=as_json)
            if once:
                break
    for number in sorted(unreadable):
        say(
            f"siltstone: value segment {number} of {keyspace} is damaged, and stays as it is "
            "(objects check --deep tells more; --accept-loss drops what is lost)",
            err=True,
        )
    if unreadable:
        raise click.exceptions.Exit(ExitCode.DAMAGE)
    if not report.run:
        session.note("nothing more is worth it")


def _own_compactions(target: Keyspace, *, accept_loss: bool) -> Generator[CompactionReport]:
    """Compact by this process, until nothing is worth it; the last report has no run."""
    while True:
        report = target.compact(accept_loss=accept_loss)
        yield report
        if not report.run:
            return


def _compactions(
    session: Session,
    store: Store,
    keyspace: str,
    executor: Executor,
    rate: int | None,
    advance: Progress,
    *,
    accept_loss: bool,
) -> Generator[CompactionReport]:
    """The same by several."""
    from siltstone.pipelines.compact_keyspace import compact_keyspace

    yield from compact_keyspace(
        session.store_path(),
        store,
        keyspace,
        executor,
        rate=rate,
        accept_loss=accept_loss,
        progress=advance,
    )


def _tell_compaction(keyspace: str, report: CompactionReport, *, as_json: bool) -> None:
    """Say what a compaction did."""
    if as_json:
        print_json(report)
        return
    if report.run:
        run = counted(len(report.run), "segment")
        freed = counted(report.read_bytes - report.kept_bytes, "byte")
        say(f"{keyspace}: {run} of {report.read_bytes:,} bytes; {freed} less")
    for gone in report.dropped:
        say(f"{keyspace}: dropped bucket={gone.bucket} key={gone.key} sqn={gone.sqn}")


@click.command()
@click.argument("keyspaces", nargs=-1)
@click.option("--deep", is_flag=True, help="Also read every record, and compare it with its head.")
@on_options
@recover_option
@json_option
@pass_session
def check(
    session: Session,
    /,
    keyspaces: tuple[str, ...],
    *,
    deep: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Compare rows and value segments of KEYSPACES, or of all, both ways. Exits with 6 on damage.

    Without --deep only rows, and presence and lengths of segments, are looked at. With --threads,
    --rate or --on spark, segments that are closed and flushed are read by several at a time.
    """
    from siltstone import objects

    is_job = choice["on"] != LOCAL or choice["threads"] is not None or rate is not None
    if is_job and not deep:
        raise click.UsageError("--on, --threads and --rate are for --deep: add it")
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        store = stack.enter_context(session.open_reader())
        executor = stack.enter_context(open_executor(**choice)) if is_job else None
        for name in keyspaces or tuple(objects.names(store)):
            with share_bar(name, shown=not session.quiet) as advance:
                if executor is None:
                    findings = objects.check(store, name, deep=deep, progress=advance)
                else:
                    findings = _job(session, store, name, executor, rate, advance)
                for finding in findings:
                    tell_finding(finding, counts, as_json=as_json)
    tell_found(session, counts, deep=deep, as_json=as_json)


def _job(
    session: Session,
    store: Store,
    name: str,
    executor: Executor,
    rate: int | None,
    advance: Callable[[float], None],
) -> Iterator[Finding]:
    """The findings of a deep check whose records are read elsewhere."""
    from siltstone.pipelines.check_keyspace import check_keyspace

    path, _ = session.for_reading()
    yield from check_keyspace(
        str(path.absolute()), store, name, executor, rate=rate, progress=advance
    )


@click.command()
@click.argument("keyspace")
@click.option("--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@takeover_option
@json_option
@pass_session
def destroy(
    session: Session, keyspace: str, *, yes: bool, dry_run: bool, takeover: bool, as_json: bool
) -> None:
    """Remove KEYSPACE with all of its objects, for ever. Asks first.

    Where that was interrupted, to destroy it again ends it.
    """
    from siltstone import objects

    with session.open_changing(takeover=takeover, dry_run=dry_run) as store:
        size, facts = _what_goes(store, keyspace)
        if dry_run:
            if as_json:
                print_json({"would_destroy": keyspace, **facts})
            else:
                say(f"would destroy {keyspace}: {size}")
            return
        if not yes:
            ask(
                f"destroy {printable(keyspace)}, {size}, for ever?",
                refused="nothing was destroyed",
            )
        removed = objects.destroy(store, keyspace)
    if as_json:
        print_json({"destroyed": keyspace, "segments": removed.segments, "length": removed.length})


def _what_goes(store: Store, keyspace: str) -> tuple[str, dict[str, int | None]]:
    """How much would be destroyed; of objects only where the keyspace can be opened.

    Raises:
        KeyspaceNotFoundError: there is none, and nothing is left of one.
    """
    from siltstone import objects
    from siltstone.core.errors import CorruptDataError
    from siltstone.objects.space_names import space_names

    found = list(store.list(space_names(keyspace).prefix))
    length = sum(info.length - info.start_offset for info in found)
    size = f"{counted(len(found), 'segment')} of {counted(length, 'byte')}"
    facts: dict[str, int | None] = {"segments": len(found), "length": length}
    try:
        count = objects.open(store, keyspace).stat().objects
    except objects.KeyspaceNotFoundError:
        if not found:
            raise
        return f"{size}, of which the rows are gone", {**facts, "objects": 0}
    except CorruptDataError:
        return f"{size}, damaged", {**facts, "objects": None}
    return f"{counted(count, 'object')} in {size}", {**facts, "objects": count}
