"""Import sessions that continue where a process died: under a name that says what they bring."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from hashlib import blake2b
from itertools import count
from typing import Final, TypeVar

from siltstone.container.models.imports import ImportedChunk, ImportSessionError, ImportTicket
from siltstone.core.closed_on_exit import Closing
from siltstone.core.errors import ChunkError, ChunkStorageFullError, Outcome, SiltstoneError
from siltstone.core.records.import_row import ImportState
from siltstone.pipelines.import_notes import ImportNotes, read_notes
from siltstone.pipelines.work import PipelineError
from siltstone.store.store_assembly import storage_of

_DIGEST_BYTES: Final = 16

T = TypeVar("T")

Range = tuple[str, int]
"""A range of a segment: its name, and the first offset."""


def session_name(verb: str, facts: Iterable[object]) -> str:
    """A name for a session that only the same work gives.

    Args:
        verb: what is done.
        facts: all that tells what is brought from other bytes, as ``repr`` writes it.
    """
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for fact in facts:
        digest.update(repr(fact).encode("utf-8", "surrogateescape") + b"\0")
    return f"{verb} {digest.hexdigest()}"


def open_session(name: str, opened: Callable[[str], ImportTicket]) -> tuple[ImportTicket, bool]:
    """An open session for some work, and whether an earlier one was committed.

    What was brought, deleted and brought again has several, as a name is known for a day.

    Args:
        name: of the work.
        opened: opens the session of a name, or returns what is known of it.
    """
    committed = False
    for number in count():
        ticket = opened(f"{name} {number}")
        if ticket.state is ImportState.OPEN:
            return ticket, committed
        committed = committed or ticket.state is ImportState.COMMITTED
    raise AssertionError("there is always a next number")


def in_one_of_two(bring: Callable[[], T]) -> T:
    """Bring what a session has; in another one, if the first takes no commit.

    A commit that died may have begun with chunks that no note names, and takes no others.

    Args:
        bring: opens a session, commits it, and aborts it where that fails.
    """
    try:
        return bring()
    except ImportSessionError:
        return bring()


def serves_repeat(error: BaseException) -> bool:
    """Whether a session is left open, so that a repeat continues with what was copied into it.

    Where there is no room, what was copied takes some; what is refused, as a source has changed,
    would be refused again, or is another import.
    """
    match error:
        case ChunkStorageFullError():
            return False
        case OSError() | ChunkError() | PipelineError():
            return True
        case SiltstoneError():
            return error.outcome is not Outcome.NOT_APPLIED
        case _:
            # The user who ends the command may begin it again.
            return not isinstance(error, Exception)


class NotedRanges(Closing):
    """Which ranges an open session has whole, and notes of those that come. Not for threads.

    Args:
        path: the settings file of the store that has the session.
        ticket: of the session.
        ranges: what it brings: name, first offset and length, in an order that the name of the
            session stands for. Each becomes chunks of its own.

    Attributes:
        known: the chunks of each range that an earlier process brought and noted.

    Raises:
        StoreError: another store is there.
        FormatError: a newer version made a note.
        ChunkError: long-term storage did not answer.
    """

    def __init__(
        self, path: str, ticket: ImportTicket, ranges: Iterable[tuple[str, int, int]]
    ) -> None:
        self._notes = ImportNotes(path, ticket)
        self._pieces: dict[Range, tuple[int, tuple[int, ...]]] = {}
        self.known: dict[Range, tuple[ImportedChunk, ...]] = {}
        size = self._notes.chunk_bytes
        number = 0
        for name, start, length in ranges:
            lengths = tuple(min(size, length - begin) for begin in range(0, length, size))
            self._pieces[name, start] = number, lengths
            number += len(lengths)
        try:
            with closing(storage_of(path)) as storage:
                noted = read_notes(storage, ticket, size)
        except BaseException:
            self.close()
            raise
        for key, (first, lengths) in self._pieces.items():
            chunks = [noted.get(first + index) for index in range(len(lengths))]
            found = tuple(chunk for chunk in chunks if chunk is not None)
            if tuple(chunk.length for chunk in found) == lengths:
                self.known[key] = found

    def add(self, key: Range, chunks: Iterable[ImportedChunk]) -> None:
        """Note a range that came, now or soon. Raises ``ChunkError``."""
        made = tuple(chunks)
        first, lengths = self._pieces[key]
        if tuple(chunk.length for chunk in made) != lengths:
            return  # cut by a worker whose settings say otherwise, or not whole
        for number, chunk in enumerate(made, first):
            self._notes.add(number, chunk)

    def close(self) -> None:
        """Free what is held. Idempotent."""
        self._notes.close()
