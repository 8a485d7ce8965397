"""What an import would do, by the state alone: the same answer for it and for its dry run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from siltstone.collections.read_times import checked_time
from siltstone.collections.sources.table_source import TableSource
from siltstone.collections.state.appends import Appended, CollectionAppend, compare_and_append
from siltstone.collections.state.refusals import check_open
from siltstone.collections.stored_schema import row_schema_of
from siltstone.core.errors import BackPressureError, CollectionSourceError, UpdateTimeError
from siltstone.core.records.collection_frontier import DONE, TIME_MAX
from siltstone.core.records.collection_state import CollectionState

SEQUENCE: Final = 0
"""Of each import: a content has a writer of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportWish:
    """An import, but for its rows.

    Attributes:
        writer: its name.
        is_named: whether the caller gave the name; else the source did.
        sequence: of the writer.
        time: of the rows; ``None``: that of the commit.
    """

    writer: str
    is_named: bool
    sequence: int
    time: int | None

    @property
    def new_upper(self) -> int | None:
        """The upper after the import; ``None``: that after the time of the commit."""
        if self.time is None:
            return None
        return DONE if self.time == TIME_MAX else self.time + 1


def import_wish(
    source: TableSource, *, time: int | None, writer: str | None, sequence: int | None
) -> ImportWish:
    """Return what a caller wants. See ``AsyncCollection.import_rows``.

    Raises:
        TypeError: the time is no whole number.
        ValueError: it is no time; or a writer has no sequence, or a sequence no writer.
    """
    if (writer is None) != (sequence is None):
        raise ValueError("a writer and a sequence go together")
    return ImportWish(
        writer=source.writer() if writer is None else writer,
        is_named=writer is not None,
        sequence=SEQUENCE if sequence is None else sequence,
        time=None if time is None else checked_time(time),
    )


def planned_import(
    state: CollectionState, now_ms: int, source: TableSource, wish: ImportWish, *, who: str = ""
) -> Appended:
    """Say what an import of ``source`` would come to now, but for mistakes in its rows.

    Args:
        state: of the collection.
        now_ms: milliseconds since 1970.
        source: what is imported.
        wish: how.
        who: describes the writer, for people.

    Returns:
        What an earlier import of the same came to, or what this one would.

    Raises:
        CollectionSourceError: other content of the source was imported before.
        CollectionSchemaError: its columns do not fit.
        CollectionSequenceError: the writer has appended with a higher sequence.
        UpdateTimeError: the time is below the upper, or the collection is finished.
        CollectionLimitError: there are too many writers.
        CollectionDroppedError: the collection was dropped.
        CollectionMovedError: the store was switched to another place.
        ValueError: the name of the writer, or its sequence, can be none.
    """
    append = CollectionAppend(
        writer=wish.writer,
        sequence=wish.sequence,
        expected=None if wish.time is None else state.upper,
        new=wish.new_upper,
        lease_ms=0,
        who=who,
    )
    last = state.writers.get(wish.writer)
    if last is None or last.sequence < wish.sequence:
        check_open(state)
        if not wish.is_named:
            _check_first(state, source)
        if state.upper == DONE:
            raise UpdateTimeError("collection is finished")
        if wish.time is not None and wish.time < state.upper:
            raise UpdateTimeError(
                "rows can come at a time from the upper on only", time=wish.time, upper=state.upper
            )
        source.check(row_schema_of(state)[1])
    try:
        return compare_and_append(state, now_ms, append=append)[1]
    except BackPressureError:  # An append waits until a compaction made room.
        upper = state.upper if wish.new_upper is None else wish.new_upper
        return Appended(upper=upper, repeated=False)


def _check_first(state: CollectionState, source: TableSource) -> None:
    """Raise ``CollectionSourceError`` where other rows of the source were imported before."""
    prefix = source.writer_prefix()
    before = next((name for name in state.writers if name.startswith(prefix)), None)
    if before is not None:
        raise CollectionSourceError(
            "other content of this source was imported before, and its rows would come twice; "
            "import into a collection of its own, or give a writer and a sequence of your own",
            source=source.where,
            writer=before,
        )
