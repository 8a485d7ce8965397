"""The verb ``append``."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.append_records import Anyone, Once, Recorded, append_records
from siltstone.cli.interrupts import GOES_ON, Interrupted, Terminated
from siltstone.cli.output import print_json, progress_bar, say
from siltstone.cli.path_text import PathText
from siltstone.cli.read_commands import OFFSET
from siltstone.cli.record_cuts import Lines, Pieces, Prefixed, RecordCutter, record_groups
from siltstone.cli.session import Session, json_option, pass_session, takeover_option
from siltstone.store.handles.streams import PIECE_BYTES, PartialAppendError, StreamProgress

if TYPE_CHECKING:
    from siltstone.store.blocking.segment import Segment


@click.command()
@click.argument("segment")
@click.argument("file", type=PathText(exists=True, dir_okay=False, allow_dash=True), default="-")
@click.option("--create", is_flag=True, help="Make the segment if there is none.")
@click.option("--lines", "form", flag_value="lines", help="Append whole lines only.")
@click.option(
    "--length-prefixed",
    "form",
    flag_value="prefixed",
    help="Append whole records only, each after its length of 4 bytes, big-endian.",
)
@click.option("--writer", metavar="NAME", help="Append once under this name; needs --sequence.")
@click.option("--sequence", type=OFFSET, help="Number of the first record; grows by one for each.")
@takeover_option
@json_option
@pass_session
def append(
    session: Session,
    segment: str,
    file: str,
    form: str | None,
    writer: str | None,
    sequence: int | None,
    *,
    create: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Append FILE, or standard input, to SEGMENT, in constant memory.

    What arrives on a pipe is durable soon after it arrives. Prints where the bytes begin and how
    many there are. With --writer a repeat of the same command appends what lacks and no more: each
    line or record has a number, or else each 4 MiB; the number that comes next is printed too.
    """
    if (writer is None) != (sequence is None):
        raise click.UsageError("--writer and --sequence go together")
    told = _Told(segment, writer, sequence, repeatable=writer is not None and file != "-")
    with (
        told.ending(as_json=as_json),
        session.open_owner(takeover=takeover) as store,
        _input(file) as stream,
    ):
        target = store.create(segment, exist_ok=True) if create else store.segment(segment)
        length = target.info().length
        with progress_bar(segment, _size(stream), shown=not session.quiet) as advance:

            def tell(made: Recorded) -> None:
                told.made = made
                advance(made.progress.length)

            _append(target, stream, form, writer, sequence, tell)
        if not told.made.progress.length:
            told.made = Recorded(progress=StreamProgress(offset=length, end=length))
    told.tell(as_json=as_json)


def _append(
    target: Segment,
    stream: io.FileIO,
    form: str | None,
    writer: str | None,
    sequence: int | None,
    tell: Callable[[Recorded], None],
) -> None:
    if form is None and writer is None:
        target.append_from(stream, progress=lambda made: tell(Recorded(progress=made)))
        return
    size_max = target.append_bytes_max
    size = min(PIECE_BYTES, size_max)
    cutters: dict[str | None, Callable[[], RecordCutter]] = {
        None: lambda: Pieces(size),
        "lines": lambda: Lines(size_max),
        "prefixed": lambda: Prefixed(size_max),
    }
    way = Anyone(target) if writer is None else Once(target, writer, sequence or 0)
    append_records(target, way, record_groups(stream, cutters[form](), size), tell)


class _Told:
    """What is told of an append, however it ends.

    Attributes:
        made: how far it came.
    """

    def __init__(
        self, segment: str, writer: str | None, sequence: int | None, *, repeatable: bool
    ) -> None:
        self._segment = segment
        self._writer = writer
        self._sequence = sequence or 0
        self._repeatable = repeatable
        self.made = Recorded()

    @contextmanager
    def ending(self, *, as_json: bool) -> Iterator[None]:
        """Let a failure and a signal tell what is durable."""
        try:
            yield
        except (KeyboardInterrupt, Interrupted, Terminated) as stop:
            stop.add_note(_durable(self.made.progress))
            if self._repeatable:
                stop.add_note(GOES_ON)
            if as_json:
                print_json({**self._facts(), "complete": False})
            raise
        except PartialAppendError:
            if as_json:
                print_json({**self._facts(), "complete": False})
            raise

    def tell(self, *, as_json: bool) -> None:
        """Tell that all was appended."""
        facts = self._facts()
        if as_json:
            print_json(facts)
            return
        offset = "-" if facts["offset"] is None else facts["offset"]
        following = [str(facts["next_sequence"])] if self._writer is not None else []
        say(" ".join([str(offset), str(facts["length"]), *following]))

    def _facts(self) -> dict[str, Any]:
        progress = self.made.progress
        facts: dict[str, Any] = {
            "segment": self._segment,
            "offset": progress.offset,
            "length": progress.length,
        }
        if self._writer is None:
            return facts
        return {
            **facts,
            "end": progress.end,
            "writer": self._writer,
            "next_sequence": self._sequence + self.made.records,
            "repeated": self.made.repeated,
        }


def _durable(progress: StreamProgress) -> str:
    if not progress.length or progress.end is None:
        return "nothing was appended"
    where = "" if progress.offset is None else f"from offset {progress.offset} "
    return f"the first {progress.length} bytes are durable, {where}up to {progress.end}"


def _input(file: str) -> io.FileIO:
    """Open the input without a buffer, so that what arrives can be appended at once."""
    if file == "-":
        return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
    return open(file, "rb", buffering=0)


def _size(stream: io.FileIO) -> int | None:
    """Return how much is to come; ``None`` for what is not a regular file."""
    return os.fstat(stream.fileno()).st_size or None
