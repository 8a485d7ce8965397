"""The verbs of ``collection`` that move rows: append, read and follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.collection_changes import changing, check_not_owned
from siltstone.cli.collection_times import FOLLOW_START, START, TIME, time_in
from siltstone.cli.interrupts import Interrupted, Terminated, goes_on
from siltstone.cli.output import counting_bar, flush_bytes, print_json, say
from siltstone.cli.path_text import PathText
from siltstone.cli.session import Session, json_option, pass_session

if TYPE_CHECKING:
    import pyarrow

    from siltstone.collections.async_writer import AppendResult
    from siltstone.collections.blocking import Collection, CollectionSnapshot, Subscription

FORMATS = ("json", "csv", "parquet")


@click.command()
@click.argument("collection")
@click.argument("file", type=PathText(exists=True, dir_okay=False, allow_dash=True), default="-")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="What FILE holds; by its name if not given, and JSON lines if that does not tell.",
)
@click.option(
    "--remove",
    type=PathText(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Rows to take away at the same time, in the same format.",
)
@click.option("--expect", type=TIME, metavar="UPPER", help="Append only if the upper is still so.")
@click.option("--writer", metavar="NAME", help="Append once under this name; needs --sequence.")
@click.option("--sequence", type=click.IntRange(min=0), help="Number of this append; it grows.")
@json_option
@pass_session
def append(
    session: Session,
    collection: str,
    file: str,
    form: str | None,
    remove: str | None,
    expect: float | None,
    writer: str | None,
    sequence: int | None,
    *,
    as_json: bool,
) -> None:
    """Append the rows of FILE, or of standard input, to COLLECTION, all of them at one time.

    Prints that time, and how many rows there are. Nothing is appended before the last row was read.
    With --writer a repeat of the same command appends nothing, and prints the same time.
    """
    if (writer is None) != (sequence is None):
        raise click.UsageError("--writer and --sequence go together")
    if file == "-" == remove:
        raise click.UsageError("standard input is FILE or --remove, not both")
    repeatable = writer is not None and file != "-" and remove != "-"
    with goes_on(when=repeatable), changing(session) as collections:
        target = collections.collection(collection)
        info = target.info()
        upper = None if expect is None else time_in(info, expect)
        last = {row.name: row.sequence for row in info.writers}.get(writer or "", -1)
        if writer is not None and sequence is not None and sequence <= last:
            # The row tells, so that nothing has to be read and uploaded again.
            told, rows = target.writer(writer).append_batches([], sequence=sequence), None
        else:
            counts = _Counts()
            with counting_bar(collection, _size(file, remove), shown=not session.quiet) as read:
                added = _tables(file, form, info.schema, read, counts)
                gone = iter(()) if remove is None else _tables(
                    remove, form, info.schema, read, counts
                )  # fmt: skip
                told = _Append(target, writer, sequence, upper).of(added, gone)
            rows = counts.rows
        _tell(collection, told, rows, as_json=as_json)


class _Counts:
    """How many rows an input had."""

    def __init__(self) -> None:
        self.rows = 0


class _Append:
    """One append, however large."""

    def __init__(
        self, target: Collection, writer: str | None, sequence: int | None, expected: int | None
    ) -> None:
        self._target = target
        self._options: dict[str, Any] = {"expected_upper": expected}
        self._by: Any = target
        if writer is not None:
            self._by = target.writer(writer)
            self._options["sequence"] = sequence

    def of(self, added: Iterator[pyarrow.Table], gone: Iterator[pyarrow.Table]) -> AppendResult:
        """Append tables; several are uploaded one by one, so that one is in memory at a time."""
        few = [next(added, None), next(gone, None)]
        more = [next(added, None), next(gone, None)]
        result: AppendResult
        if more == [None, None]:
            rows = () if few[0] is None else few[0]
            result = self._by.append(rows, remove=few[1], **self._options)
            return result
        batches = [
            self._target.batch(table)
            for table in chain(_there(few[0], more[0]), added)
        ] + [
            self._target.batch((), remove=table)
            for table in chain(_there(few[1], more[1]), gone)
        ]  # fmt: skip
        result = self._by.append_batches(batches, **self._options)
        return result


def _there(*tables: pyarrow.Table | None) -> list[pyarrow.Table]:
    return [table for table in tables if table is not None]


def _tables(
    file: str,
    form: str | None,
    schema: pyarrow.Schema,
    read: Callable[[int], None],
    counts: _Counts,
) -> Iterator[pyarrow.Table]:
    # Imported here, so that help and completion do not wait for Arrow.
    from siltstone.cli.row_input import form_of, opened, tables_of

    with opened(file, read) as source:
        for table in tables_of(source, form or form_of(file), schema):
            counts.rows += len(table)
            yield table


def _size(*files: str | None) -> int | None:
    """Bytes that are to come; ``None`` where a pipe does not tell."""
    import os

    if "-" in files:
        return None
    return sum(os.stat(file).st_size for file in files if file is not None)


def _tell(collection: str, told: AppendResult, rows: int | None, *, as_json: bool) -> None:
    if as_json:
        fields = {"time": told.time, "upper": told.upper, "rows": rows, "repeated": told.repeated}
        print_json({"collection": collection, **fields})
    else:
        say(f"{told.time} {'-' if rows is None else rows}")


@click.command()
@click.argument("collection")
@click.option("--as-of", type=TIME, metavar="TIME", help="The time; the newest one if not given.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="JSON lines if not given.")
@click.option("--columns", metavar="NAMES", help="Columns to show, separated by commas.")
@click.option("--diffs", is_flag=True, help="Show counts, as _diff; they add up for equal rows.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to wait until the time is complete; for ever if not given.",
)
@json_option
@pass_session
def read(
    session: Session,
    collection: str,
    as_of: float | None,
    form: str | None,
    columns: str | None,
    timeout: float | None,
    *,
    diffs: bool,
    as_json: bool,
) -> None:
    """Write the rows of COLLECTION at one time to standard output, in constant memory.

    Bytes are base64, under a name that ends in _base64; Parquet has them as they are.
    """
    from siltstone.cli.row_output import ROW_WRITERS

    if as_json and form not in (None, "json"):
        raise click.UsageError("--json and --format exclude each other")
    with session.open_collections(reads=True) as collections:
        target = collections.collection(collection)
        info = target.info()
        time = None if as_of is None else time_in(info, as_of)
        chosen = None if columns is None else columns.split(",")
        try:
            snapshot = target.snapshot(time, columns=chosen, diffs=diffs, timeout_s=timeout)
        except TimeoutError as error:
            raise TimeoutError(
                f"time {time} of {collection} is not complete yet: its upper is {info.upper}"
            ) from error
        rows = ROW_WRITERS[form or "json"](snapshot.schema)
        with snapshot, counting_bar(collection, info.length, shown=not session.quiet) as advance:
            for batch in _batches(snapshot, info.length, info.rows, advance):
                rows.write(batch)
        rows.close()
        flush_bytes()


def _batches(
    snapshot: CollectionSnapshot, length: int, rows: int, advance: Callable[[int], None]
) -> Iterator[pyarrow.RecordBatch]:
    for batch in snapshot.batches():
        yield batch
        advance(batch.num_rows * length // max(1, rows))


@click.command()
@click.argument("collection")
@click.option(
    "--from",
    "start",
    type=FOLLOW_START,
    metavar="TIME",
    help="Time to begin at, or start: all rows first. What is new if not given.",
)
@click.option("--until", type=TIME, metavar="UPPER", help="End when times below it are complete.")
@click.option("--limit", type=click.IntRange(min=1), help="End after this many updates.")
@click.option(
    "--no-lease",
    is_flag=True,
    help="Hold nothing, which needs no right to write; a slow reader may find history gone.",
)
@json_option
@pass_session
def follow(
    session: Session,
    collection: str,
    start: float | str | None,
    until: float | None,
    limit: int | None,
    *,
    no_lease: bool,
    as_json: bool,
) -> None:
    """Write what changes in COLLECTION as it happens: JSON lines with _time and _diff.

    Ends with --until, with --limit, or when the collection is finished.
    """
    del as_json  # It is JSON in any case.
    if no_lease and start == START:
        raise click.UsageError("--from start and --no-lease exclude each other")
    if not no_lease:
        read_first = "collection read shows all rows, and then " if start == START else ""
        check_not_owned(session, instead=f"{read_first}follow --no-lease shows what changes")
    with session.open_collections(reads=no_lease) as collections:
        target = collections.collection(collection)
        info = target.info()
        end = None if until is None else time_in(info, until)
        if isinstance(start, str):
            subscription = target.subscribe(until=end)
        else:
            begin = None if start is None else time_in(info, start)
            subscription = target.listen(begin, until=end, lease=not no_lease)
        with subscription:
            _write_changes(subscription, limit)


def _write_changes(subscription: Subscription, limit: int | None) -> None:
    from siltstone.cli.row_output import JsonRows

    left = limit
    complete = subscription.frontier
    try:
        for changes in subscription:
            rows = JsonRows(changes.updates.schema, first=("_time", "_diff"))
            updates = changes.updates if left is None else changes.updates.slice(0, left)
            for batch in updates.to_batches():
                rows.write(batch)
            flush_bytes()
            if left is not None:
                left -= len(updates)
                if not left:
                    return
            complete = changes.upper
    except (KeyboardInterrupt, Interrupted, Terminated) as stop:
        stop.add_note(f"all below {complete} is written; --from {complete} continues")
        raise
