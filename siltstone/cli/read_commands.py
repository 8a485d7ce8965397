"""Verbs that read. They open the store read-only, so they work while an owner runs."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Final

import click

from siltstone.cli.each_container import UnopenedContainer, each_container, worst_code
from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import (
    flush_bytes,
    print_json,
    print_table,
    printable,
    progress_bar,
    say,
    write_bytes,
)
from siltstone.cli.session import Session, json_option, pass_session, recover_option
from siltstone.cli.times import SINCE
from siltstone.container.reads.same_segment import same_segment
from siltstone.core.errors import OffsetError
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.container.models.segments import ContainerStats, SegmentInfo, WriterInfo
    from siltstone.store.blocking.segment import Segment
    from siltstone.store.store import Store

PIECE_BYTES: Final = 2**20
SCAN_BYTES: Final = 64 * 1024
OFFSET: Final = click.IntRange(min=0)


@click.command()
@click.argument("segment")
@click.option("--offset", type=OFFSET, help="First byte; the first readable one if not given.")
@click.option("--length", type=OFFSET, help="Bytes; to the acknowledged end if not given.")
@click.option("--since", type=SINCE, help="Begin with what was appended then: 15min, 2026-01-31.")
@recover_option
@json_option
@pass_session
def cat(
    session: Session,
    segment: str,
    offset: int | None,
    length: int | None,
    since: float | None,
    *,
    as_json: bool,
) -> None:
    """Write the bytes of SEGMENT to standard output."""
    if offset is not None and since is not None:
        raise click.UsageError("--offset and --since exclude each other")
    with session.open_reader() as store:
        source = store.segment(segment)
        info = source.info()
        start = info.start_offset if offset is None else offset
        if since is not None:
            start = source.offset_at(since)
            info = same_segment(info.segment_id, source.info())
        if not info.start_offset <= start <= info.length:
            source.read(start, 1)  # raises the error that says which
        end = info.length if length is None else min(info.length, start + length)
        with progress_bar(segment, end - start, shown=not session.quiet) as advance:
            for position, data in _pieces(source, info.segment_id, start, end):
                _write(position, data, as_json=as_json)
                advance(position + len(data) - start)
        flush_bytes()


def write_range(session: Session, segment: str, start: int | None, end: int | None) -> None:
    """Write bytes of a segment to standard output.

    Args:
        session: says which store.
        segment: its name.
        start: first offset; ``None``: the first readable one.
        end: offset after the last byte; ``None``: the acknowledged end.

    Raises:
        OffsetError: the range does not lie in the segment.
    """
    with session.open_reader() as store:
        source = store.segment(segment)
        info = source.info()
        begin = info.start_offset if start is None else start
        stop = info.length if end is None else end
        if not info.start_offset <= begin <= stop <= info.length:
            raise OffsetError(
                "the range does not lie in what is readable",
                segment=segment,
                expected=info.length,
                actual=stop if begin >= info.start_offset else begin,
            )
        for position, data in _pieces(source, info.segment_id, begin, stop):
            _write(position, data, as_json=False)
        flush_bytes()


@click.command()
@click.argument("segment")
@click.option("-f", "--follow", is_flag=True, help="Continue until the segment is sealed.")
@click.option("-n", "--lines", type=OFFSET, default=None, help="Last lines to begin with; 10.")
@click.option("--bytes", "count", type=OFFSET, help="Last bytes to begin with, instead of lines.")
@click.option("--since", type=SINCE, help="Begin with what was appended then: 15min, 2026-01-31.")
@recover_option
@json_option
@pass_session
def tail(
    session: Session,
    segment: str,
    lines: int | None,
    count: int | None,
    since: float | None,
    *,
    follow: bool,
    as_json: bool,
) -> None:
    """Write the last lines or bytes of SEGMENT, and with -f what follows them."""
    if sum(begin is not None for begin in (lines, count, since)) > 1:
        raise click.UsageError("--lines, --bytes and --since exclude each other")
    if follow and session.recover is not None:
        raise click.UsageError("with --recover nothing is ever appended that -f could wait for")
    with session.open_reader() as store:
        source = store.segment(segment)
        info = source.info()
        if since is not None:
            start = source.offset_at(since)
            info = same_segment(info.segment_id, source.info())
        elif count is not None:
            start = max(info.start_offset, info.length - count)
        else:
            wanted = 10 if lines is None else lines
            start = _line_start(source, info.start_offset, info.length, wanted)
        for position, data in _pieces(source, info.segment_id, start, info.length):
            _write(position, data, as_json=as_json)
        flush_bytes()
        if not follow:
            return
        position = info.length
        for data in source.follow(position):
            same_segment(info.segment_id, source.info())
            _write(position, data, as_json=as_json)
            flush_bytes()
            position += len(data)


def _lines(info: SegmentInfo) -> Iterator[tuple[str, object]]:
    """What people are told of a segment."""
    yield "name", info.name
    yield "id", info.segment_id
    yield "start offset", info.start_offset
    yield "length", info.length
    yield "flushed length", info.flushed_length
    yield "state", "sealed" if info.sealed else "open"
    created = datetime.fromtimestamp(info.created_ms / 1000, UTC)
    yield "created", created.isoformat(" ", "seconds")
    if info.retention is not None:
        from siltstone.cli.retention_commands import rule_text

        yield "retention", rule_text(info.retention)
    for key, value in sorted(info.attributes.items()):
        yield "attribute", f"{key}={value}"


def _writer_lines(writers: Sequence[WriterInfo]) -> Iterator[tuple[str, object]]:
    """What people are told of the exactly-once writers of a segment."""
    for writer in writers:
        last = "nothing appended"
        if writer.sequence >= 0:
            last = f"sequence={writer.sequence} offset={writer.offset} length={writer.length}"
        yield "writer", f"{writer.name} {last}"


@click.command()
@click.argument("segment", required=False)
@click.option(
    "--writers", is_flag=True, help="Show its exactly-once writers and their last sequences."
)
@recover_option
@json_option
@pass_session
def stat(session: Session, segment: str | None, *, writers: bool, as_json: bool) -> int:
    """Show SEGMENT, or the store: its containers, and what would be lost with tier 1 gone.

    Of a container that cannot be opened it shows why, and exits as that error does.
    """
    if segment is None:
        if writers:
            raise click.UsageError("--writers needs a SEGMENT")
        return _stat_store(session, as_json=as_json)
    with session.open_reader() as store:
        info = store.segment(segment).info()
        known = store.segment(segment).writers() if writers else []
        if as_json:
            more = {"writers": [asdict(writer) for writer in known]} if writers else {}
            print_json({**asdict(info), **more})
            return ExitCode.DONE
        for label, value in chain(_lines(info), _writer_lines(known)):
            say(f"{label + ':':<16} {printable(str(value))}")
    return ExitCode.DONE


def _stat_store(session: Session, *, as_json: bool) -> int:
    uuids: list[str] = []

    def look(store: Store) -> Sequence[ContainerStats]:
        uuids.append(store.uuid)
        return store.stats()

    found = each_container(session, look)
    stats = [one for one in found if not isinstance(one, UnopenedContainer)]
    if as_json:
        rows = [one.row() if isinstance(one, UnopenedContainer) else one for one in found]
        print_json({"uuid": uuids[0] if uuids else None, "containers": rows})
        return worst_code(found, ExitCode.DONE)
    if uuids:
        say(f"store {uuids[0]}")
    print_table(
        ("CONTAINER", "EPOCH", "UNFLUSHED", "AGE (s)", "TABLE LOG", "LOG FIRST", "LOG END"),
        (_cells(one) for one in found),
    )
    lost = sum(one.exposed_bytes for one in stats)
    age = max((one.exposed_age_s for one in stats), default=0.0)
    bytes_lost = counted(lost, "byte")
    if stats:
        say(f"with tier 1 gone, {bytes_lost} of the last {age:.0f} s would be lost at most")
    for one in found:
        for warning in _warnings(one):
            say(f"container {one.container}: {warning}")
    return worst_code(found, ExitCode.DONE)


def _cells(one: ContainerStats | UnopenedContainer) -> tuple[object, ...]:
    if isinstance(one, UnopenedContainer):
        return (one.container, "failed", "-", "-", "-", "-", "-")
    return (
        one.container,
        one.epoch,
        one.unflushed_bytes,
        round(one.exposed_age_s),
        one.unflushed_table_bytes,
        one.log_first,
        one.log_end,
    )


def _warnings(one: ContainerStats | UnopenedContainer) -> tuple[str, ...]:
    if isinstance(one, UnopenedContainer):
        return (str(one.failure),)
    return (*one.warnings, *([one.last_error] if one.last_error else []))


def _pieces(source: Segment, segment_id: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    while start < end:
        data = source.read(start, min(PIECE_BYTES, end - start))
        same_segment(segment_id, source.info())
        yield start, data
        start += len(data)


def _write(position: int, data: bytes, *, as_json: bool) -> None:
    if as_json:
        text = base64.b64encode(data).decode("ascii")
        print_json({"offset": position, "length": len(data), "data_base64": text})
    else:
        write_bytes(data)


def _line_start(source: Segment, start: int, end: int, lines: int) -> int:
    """Return where the last ``lines`` lines begin, reading backwards in constant memory."""
    if not lines:
        return end
    position = end
    seen = 0
    while position > start:
        begin = max(start, position - SCAN_BYTES)
        data = source.read(begin, position - begin)
        index = len(data)
        while (index := data.rfind(b"\n", 0, index)) >= 0:
            if begin + index + 1 < end:
                seen += 1
                if seen == lines:
                    return begin + index + 1
        position = begin
    return start
