"""A batch: what one commit does to a keyspace, and who waits for it. Nothing here waits itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from siltstone.core.errors import SiltstoneError
from siltstone.objects.changes import PutRequest
from siltstone.objects.entries import EntriesChange, EntriesRequest, EntriesResult
from siltstone.objects.evaluation import LedgerRow, ObjectChange
from siltstone.objects.records.head import Head, decode_head

if TYPE_CHECKING:
    from siltstone.objects.changes import NumberRequest, Request, UploadedValue
    from siltstone.objects.records.footer import PlainNote
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.records.space_rows import SpaceState

_new_tuple = tuple.__new__
"""Of a named tuple: a third of what its own name takes."""


class Waiting(NamedTuple):
    """A request, what its caller waits for, and about how many bytes of memory it holds."""

    request: Request | EntriesRequest | NumberRequest
    future: asyncio.Future[Any]
    size: int


class PutResult(NamedTuple):
    """What a put did.

    Attributes:
        sqn: number of the change.
        replaced: SQN of what was there before; ``None`` for nothing.
        pause: whether the caller should slow down: tier 1, or what waits for it, holds three
            quarters of what it may. The change is durable all the same.
    """

    sqn: int
    replaced: int | None
    pause: bool


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
        keys: of the rows of the ledger that change, in order.
        values: of each its new value; ``None`` when it is removed.
        notes: what the footer takes of each record.
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
        self.keys: list[bytes] = []
        self.values: list[bytes | None] = []
        self.notes: list[PlainNote] = []
        self._heads: dict[ObjectKey, Head | bytes | None] = {}
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

    def head_of(self, key: ObjectKey) -> tuple[Head | None] | None:
        """The head of an object that it changes, as it is afterwards; ``None`` for any other."""
        if key not in self._heads:
            return None
        found = self._heads[key]
        return (decode_head(found, where="a batch") if isinstance(found, bytes) else found,)

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
                self.notes.append(note[:])
                self.parts += found.parts
            self._change(found.rows)
            self._heads[found.key] = found.encoded
            if found.uploaded is not None:
                self.uploaded.append(found.uploaded)
            self.size += found.size
            self.found.append(found.replaced)
        elif type(found) is EntriesChange:
            sqn = self.next_sqn
            self.next_sqn = sqn + 1
            self._change(found.rows)
            self._heads |= found.heads
            self.size += found.size
            self.found.append(None)
        else:
            self.found.append(found)  # type: ignore[arg-type]
        self.waiting.append(waiting)
        self.numbers.append(sqn)

    def _change(self, rows: list[LedgerRow]) -> None:
        for key, value in rows:
            self.keys.append(key)
            self.values.append(value)

    def take_number(self, waiting: Waiting) -> None:
        """Give the number of the next value segment to something else."""
        self.waiting.append(waiting)
        self.numbers.append(self._next_number)
        self.found.append(None)
        self._next_number += 1


def tell(
    waiting: Waiting, number: int | None, found: SiltstoneError | int | None, *, pause: bool
) -> None:
    """Give a caller what came of its request, as the columns of ``ChangeBatch`` say it."""
    request, future, _ = waiting
    if isinstance(found, SiltstoneError):
        raise_in(future, found)
    elif future.done():
        pass
    elif type(request) is PutRequest:
        assert number is not None, "a put is a change with a number"
        future.set_result(_new_tuple(PutResult, (number, found, pause)))
    elif type(request) is EntriesRequest:
        assert number is not None, "entries are a change with a number"
        future.set_result(EntriesResult(number, pause))
    else:
        future.set_result(number)


def raise_in(future: asyncio.Future[Any], error: SiltstoneError) -> None:
    """Give a caller an error, unless it went away."""
    if not future.done():
        future.set_exception(error)
        future.exception()  # a caller that went away has heard it
