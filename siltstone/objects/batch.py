"""A batch: what one commit does to a keyspace, and who waits for it. Nothing here waits itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from siltstone.objects.entries import EntriesChange
from siltstone.objects.evaluation import LedgerRow, ObjectChange
from siltstone.objects.records.space_rows import SpaceState

if TYPE_CHECKING:
    from siltstone.core.errors import SiltstoneError
    from siltstone.objects.changes import NumberRequest, Request, UploadedValue
    from siltstone.objects.entries import EntriesRequest
    from siltstone.objects.records.footer import HeaderNote
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey


class Waiting(NamedTuple):
    """A request, and what its caller waits for."""

    request: Request | EntriesRequest | NumberRequest
    future: asyncio.Future[Any]


class Reply(NamedTuple):
    """What the caller of a request is told once its batch is durable.

    Attributes:
        waiting: the request.
        number: the SQN of its change, or the number that it asked for; ``None`` for nothing.
        found: what the request does, why it does nothing, or ``None`` if there is nothing to do.
    """

    waiting: Waiting
    number: int | None
    found: ObjectChange | EntriesChange | SiltstoneError | None


class ChangeBatch:
    """What one commit does, and who waits for it."""

    def __init__(self, state: SpaceState) -> None:
        self.begin = self.state = state
        self.replies: list[Reply] = []
        self.parts: list[bytes] = []
        self.rows: list[LedgerRow] = []
        self.notes: list[HeaderNote] = []
        self.heads: dict[ObjectKey, Head | None] = {}
        self.uploaded: list[UploadedValue] = []
        self.size = 0

    @property
    def waiting(self) -> list[Waiting]:
        """The requests, in order."""
        return [reply.waiting for reply in self.replies]

    def add(
        self, waiting: Waiting, found: ObjectChange | EntriesChange | SiltstoneError | None
    ) -> None:
        """Take a request and what it does."""
        sqn = None
        if type(found) is ObjectChange:
            state = self.state
            if found.note is not None:
                sqn = state.next_sqn
                self.state = SpaceState(
                    next_sqn=sqn + 1,
                    number=state.number,
                    first_sqn=state.first_sqn,
                    length=state.length + found.note.record_length,
                    records=state.records + 1,
                    next_number=state.next_number,
                )
                self.notes.append(found.note)
            self.parts += found.parts
            self.rows += found.rows
            self.heads[found.key] = found.head
            if found.uploaded is not None:
                self.uploaded.append(found.uploaded)
            self.size += found.size
        elif type(found) is EntriesChange:
            sqn = self.state.next_sqn
            self.state = replace(self.state, next_sqn=sqn + 1)
            self.rows += found.rows
            self.heads |= found.heads
            self.size += found.size
        self.replies.append(Reply(waiting, sqn, found))

    def take_number(self, waiting: Waiting) -> None:
        """Give the number of the next value segment to something else."""
        self.replies.append(Reply(waiting, self.state.next_number, None))
        self.state = replace(self.state, next_number=self.state.next_number + 1)
