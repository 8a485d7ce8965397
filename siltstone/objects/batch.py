"""A batch: what one commit does to a keyspace, and who waits for it. Nothing here waits itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from siltstone.objects.entries import EntriesChange
from siltstone.objects.evaluation import LedgerRow, ObjectChange

if TYPE_CHECKING:
    from siltstone.core.errors import SiltstoneError
    from siltstone.objects.changes import NumberRequest, Request, UploadedValue
    from siltstone.objects.entries import EntriesRequest
    from siltstone.objects.records.footer import HeaderNote
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.records.space_rows import SpaceState


class Waiting(NamedTuple):
    """A request, what its caller waits for, and about how many bytes of memory it holds."""

    request: Request | EntriesRequest | NumberRequest
    future: asyncio.Future[Any]
    size: int


class ChangeBatch:
    """What one commit does, and who waits for it.

    Its columns have no object of their own for each request: Python would look at all of them
    whenever it looks for garbage.

    Attributes:
        begin: the state that it begins with.
        waiting: the requests, in order.
        numbers: of each the SQN of its change, or the number that it asked for; ``None`` for
            nothing.
        found: of each why it does nothing, or the SQN of what it replaces; ``None`` for nothing.
        parts: bytes of the records, to be joined.
        rows: of the ledger, in order.
        notes: what the footer takes of each record.
        heads: of the objects that change, as they are afterwards.
        uploaded: large values that it makes whole.
        size: about how many bytes it takes of a frame.
        next_sqn: of the next change.
        length: bytes of the value segment with its records.
        records: how many the segment has then.
    """

    def __init__(self, state: SpaceState) -> None:
        self.begin = state
        self.waiting: list[Waiting] = []
        self.numbers: list[int | None] = []
        self.found: list[SiltstoneError | int | None] = []
        self.parts: list[bytes] = []
        self.rows: list[LedgerRow] = []
        self.notes: list[HeaderNote] = []
        self.heads: dict[ObjectKey, Head | None] = {}
        self.uploaded: list[UploadedValue] = []
        self.size = 0
        self.next_sqn = state.next_sqn
        self.length = state.length
        self.records = state.records
        self._next_number = state.next_number

    @property
    def state(self) -> SpaceState:
        """The state that it ends with."""
        return replace(
            self.begin,
            next_sqn=self.next_sqn,
            length=self.length,
            records=self.records,
            next_number=self._next_number,
        )

    def add(
        self, waiting: Waiting, found: ObjectChange | EntriesChange | SiltstoneError | None
    ) -> None:
        """Take a request and what it does."""
        sqn = None
        if type(found) is ObjectChange:
            note = found.note
            if note is not None:
                sqn = self.next_sqn
                self.next_sqn = sqn + 1
                self.length += note.record_length
                self.records += 1
                self.notes.append(note)
                self.parts += found.parts
            self.rows += found.rows
            self.heads[found.key] = found.head
            if found.uploaded is not None:
                self.uploaded.append(found.uploaded)
            self.size += found.size
            self.found.append(found.replaced)
        elif type(found) is EntriesChange:
            sqn = self.next_sqn
            self.next_sqn = sqn + 1
            self.rows += found.rows
            self.heads |= found.heads
            self.size += found.size
            self.found.append(None)
        else:
            self.found.append(found)  # type: ignore[arg-type]
        self.waiting.append(waiting)
        self.numbers.append(sqn)

    def take_number(self, waiting: Waiting) -> None:
        """Give the number of the next value segment to something else."""
        self.waiting.append(waiting)
        self.numbers.append(self._next_number)
        self.found.append(None)
        self._next_number += 1
