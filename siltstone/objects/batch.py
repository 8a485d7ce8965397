"""A batch: what one commit does to a keyspace, and who waits for it. Nothing here waits itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from siltstone.objects.evaluation import LedgerRow, ObjectChange
from siltstone.objects.records.space_rows import SpaceState

if TYPE_CHECKING:
    from siltstone.core.errors import SiltstoneError
    from siltstone.objects.changes import NumberRequest, Request
    from siltstone.objects.records.footer import HeaderNote
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey


class Waiting(NamedTuple):
    """A request, and what its caller waits for."""

    request: Request | NumberRequest
    future: asyncio.Future[Any]


class ChangeBatch:
    """What one commit does, and who waits for it."""

    def __init__(self, state: SpaceState) -> None:
        self.begin = self.state = state
        self.waiting: list[Waiting] = []
        self.parts: list[bytes] = []
        self.rows: list[LedgerRow] = []
        self.notes: list[HeaderNote] = []
        self.heads: dict[ObjectKey, Head | None] = {}
        self.told: list[ObjectChange | SiltstoneError | None] = []
        self.numbers: list[int | None] = []
        self.size = 0

    def add(self, waiting: Waiting, found: ObjectChange | SiltstoneError | None) -> None:
        """Take a request and what it does."""
        self.waiting.append(waiting)
        self.told.append(found)
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
            self.size += found.size
        self.numbers.append(sqn)

    def take_number(self, waiting: Waiting) -> None:
        """Give the number of the next value segment to something else."""
        self.waiting.append(waiting)
        self.told.append(None)
        self.numbers.append(self.state.next_number)
        self.state = replace(self.state, next_number=self.state.next_number + 1)
