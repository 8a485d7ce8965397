"""Verbs that look into the log, the journal and the rows. They work while an owner runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.output import print_json, say
from siltstone.cli.session import (
    Session,
    json_option,
    pass_session,
    recover_option,
    takeover_option,
)
from siltstone.core.records.keys import RowKind
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.container.models.log_views import FrameView
    from siltstone.journal.journal_views import JournalFileView
    from siltstone.store.admin.inspection import Inspection

container_option = click.option(
    "--container", type=click.IntRange(min=0), help="This container only."
)


@click.group(cls=ListedVerbs)
def log() -> None:
    """The tier-1 log. These verbs claim nothing."""


@log.command("show")
@container_option
@click.option("--from", "start", type=click.IntRange(min=0), help="Index of the first frame.")
@click.option("--limit", type=click.IntRange(min=0), help="Most frames of each container.")
@click.option("--rows", is_flag=True, help="Show the rows that table updates write, decoded.")
@json_option
@pass_session
def show_log(
    session: Session,
    container: int | None,
    start: int | None,
    limit: int | None,
    *,
    rows: bool,
    as_json: bool,
) -> None:
    """Show frames: index, epoch, time, and what they hold. --limit 0 shows the heads only."""
    with _inspection(session) as inspection:
        for index in _chosen(inspection, container):
            head = inspection.log_head(index)
            if as_json:
                print_json(head)
            else:
                held = "held" if head.alive else "not held"
                say(
                    f"container {index}: epoch {head.epoch}, frames {head.first} to {head.end}, "
                    f"lineage {head.lineage or '-'}, {held}: {head.owner}"
                )
                if head.dropped_tail:
                    say(f"  ends in {counted(head.dropped_tail, 'byte')} of a torn frame")
            if limit == 0:
                continue
            for frame in islice(inspection.frames(index, start, rows=rows), limit):
                if as_json:
                    print_json(frame)
                else:
                    _tell_frame(frame)


@click.group(cls=ListedVerbs)
def journal() -> None:
    """The system journal on long-term storage: where a boot starts."""


@journal.command("show")
@container_option
@json_option
@pass_session
def show_journal(session: Session, container: int | None, *, as_json: bool) -> None:
    """Show every journal file: checkpoints, batches, and what is not whole."""
    with _inspection(session) as inspection:
        for index in _chosen(inspection, container):
            for file in inspection.journal_files(index):
                if as_json:
                    print_json(file)
                else:
                    _tell_file(file)


@journal.command()
@container_option
@json_option
@pass_session
def verify(session: Session, container: int | None, *, as_json: bool) -> None:
    """Read the whole journal as a boot would. Exits with 6 when a boot could not do with it."""
    damaged = found = False
    with _inspection(session) as inspection:
        for index in _chosen(inspection, container):
            for finding in inspection.verify_journal(index):
                found = True
                damaged = damaged or finding.severity == "damage"
                if as_json:
                    print_json(finding)
                else:
                    say(f"{finding.severity}: {finding.where}: {finding.message}")
    if not found:
        session.note("a boot finds all that it needs")
    if damaged:
        raise click.exceptions.Exit(ExitCode.DAMAGE)


@journal.command()
@json_option
@takeover_option
@pass_session
def checkpoint(session: Session, *, as_json: bool, takeover: bool) -> None:
    """Write a checkpoint of every container now."""
    with session.open_owner(takeover=takeover) as store:
        versions = store.checkpoint()
    for index, version in enumerate(versions):
        if as_json:
            print_json({"container": index, "version": version})
        else:
            say(f"container {index}: checkpoint at table version {version}")


@click.command("rows")
@click.option("--kind", type=click.Choice([kind.name.lower() for kind in RowKind]))
@click.option("--segment", help="Rows of this segment only.")
@click.option("--limit", type=click.IntRange(min=1), help="Most rows.")
@recover_option
@json_option
@pass_session
def rows(
    session: Session, kind: str | None, segment: str | None, limit: int | None, *, as_json: bool
) -> None:
    """Show the rows of the store's own metadata, decoded, in the order of their keys."""
    wanted = None if kind is None else RowKind[kind.upper()]
    with session.open_reader() as store:
        for row in islice(store.rows(kind=wanted, segment=segment), limit):
            if as_json:
                print_json(row)
            else:
                say(f"{row.container} {row.version} {row.kind}: {_words(row.fields)}")


@contextmanager
def _inspection(session: Session) -> Iterator[Inspection]:
    # Imported here, so that help and completion do not wait for what only a store needs.
    from siltstone.store.admin.inspection import open_inspection

    with open_inspection(session.store_path()) as inspection:
        yield inspection


def _chosen(inspection: Inspection, container: int | None) -> Iterable[int]:
    if container is None:
        return inspection.containers
    if container not in inspection.containers:
        raise click.UsageError(f"there is no container {container}")
    return (container,)


def _tell_frame(frame: FrameView) -> None:
    made = "-"
    if frame.made_ms is not None:
        made = datetime.fromtimestamp(frame.made_ms / 1000, UTC).isoformat(" ", "milliseconds")
    say(f"{frame.index} epoch {frame.epoch} {made} {frame.kind}, {counted(frame.size, 'byte')}")
    for piece in frame.pieces:
        shown = dict(piece)
        decoded = shown.pop("rows", ())
        say(f"  {shown.pop('piece')}: {_words(shown)}")
        assert isinstance(decoded, list | tuple), "rows are a sequence"
        for row in decoded:
            fields = dict(row)
            say(f"    {fields.pop('change')} {fields.pop('row')}: {_words(fields)}")


def _tell_file(file: JournalFileView) -> None:
    say(
        f"container {file.container} epoch {file.epoch} file {file.number}: "
        f"{file.kind}, {counted(file.length, 'byte')}"
    )
    if file.checkpoint is not None:
        found = file.checkpoint
        say(
            f"  index version {found.index_version}, {counted(len(found.index_files), 'file')} of "
            f"{counted(found.index_bytes, 'byte')}; table log to {found.table_log_end}; safe index "
            f"{found.safe_index}, replay from {found.replay_index}, newest {found.newest_index}"
        )
    for batch in file.batches:
        say(
            f"  batch {batch.sequence}: table log to {batch.table_log_end}, safe index "
            f"{batch.safe_index}, newest {batch.newest_index}"
        )
    if file.damage:
        say(f"  {file.damage}")


def _words(fields: object) -> str:
    assert isinstance(fields, dict), "fields are a mapping"
    return " ".join(f"{name}={value}" for name, value in fields.items())
