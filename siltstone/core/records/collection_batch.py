"""The batch: all updates of a collection whose times are in one range.

Layout, little-endian::

    lower: u64
    upper: u64
    since: u64
    runs: u32, and for each one
        parts: u32, 1 at least, and each part

Batches have no version: what holds them has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from siltstone.core.constants import Buffer
from siltstone.core.records.collection_frontier import is_frontier
from siltstone.core.records.collection_part import CollectionPart, put_part, take_part
from siltstone.core.records.fields import FieldReader, FieldWriter

_HEAD = struct.Struct("<QQQI")
_U32 = struct.Struct("<I")

CollectionRun = tuple[CollectionPart, ...]
"""Parts in the order of keys: no key of one is above a key of the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionBatch:
    """The updates of ``[lower, upper)``.

    Attributes:
        lower: frontier at which it begins.
        upper: frontier at which it ends, above ``lower``.
        since: times below it were advanced to it, by a compaction; 0 as it is appended. So a time
            of a row is below ``upper``, or is ``since``.
        runs: its rows; none in an empty batch.
        length: bytes of its parts. Each plan of a compaction asks for it.
        is_inline: whether all of them are in the state. It asks for that, too.
    """

    lower: int
    upper: int
    since: int = 0
    runs: tuple[CollectionRun, ...] = ()
    length: int = field(init=False, repr=False, compare=False)
    is_inline: bool = field(init=False, repr=False, compare=False)
    _encoded: bytes | None = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look at all parts."""
        parts = [part for run in self.runs for part in run]
        object.__setattr__(self, "length", sum([part.length for part in parts]))
        object.__setattr__(self, "is_inline", None not in [part.inline for part in parts])

    @property
    def encoded(self) -> bytes:
        """As it lies in entries and states. Each rollup has it again, so it is encoded once."""
        encoded = self._encoded
        if encoded is None:
            encoded = _encoded_batch(self)
            object.__setattr__(self, "_encoded", encoded)
        return encoded

    def parts(self) -> Iterator[CollectionPart]:
        """All its parts."""
        return chain.from_iterable(self.runs)

    @property
    def part_count(self) -> int:
        """How many parts it has."""
        return sum(map(len, self.runs))

    @property
    def rows(self) -> int:
        """Rows of its parts."""
        return sum(part.rows for part in self.parts())

    @property
    def diff_sum(self) -> int:
        """Sum of all its diffs."""
        return sum(part.diff_sum for part in self.parts())

    @property
    def inline_bytes(self) -> int:
        """Bytes of its parts that are in the state."""
        return self.length if self.is_inline else sum(part.inline_bytes for part in self.parts())


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """All batches of a collection. Each begins where the one before ends, the first at 0.

    Attributes:
        items: the batches, in the order of times.
        part_count: how many parts they have.
        inline_bytes: bytes of the parts that are in the state.
    """

    items: tuple[CollectionBatch, ...] = ()
    part_count: int = 0
    inline_bytes: int = 0

    @property
    def upper(self) -> int:
        """The frontier at which the last one ends."""
        return self.items[-1].upper if self.items else 0

    def added(self, batch: CollectionBatch) -> Batches:
        """These and one more, which begins at ``upper``. Raises ``ValueError`` for any other."""
        if batch.lower != self.upper or not is_possible(batch):
            raise _misfit(batch, self.upper)
        return Batches(  # Each append does this: what is there is looked at no more.
            items=(*self.items, batch),
            part_count=self.part_count + batch.part_count,
            inline_bytes=self.inline_bytes + batch.inline_bytes,
        )

    def replaced(self, start: int, stop: int, batches: Sequence[CollectionBatch]) -> Batches:
        """These, with others in the place of those with the indexes ``start`` to ``stop``.

        Raises:
            ValueError: the batches would not lie end to end.
        """
        before, old, after = self.items[:start], self.items[start:stop], self.items[stop:]
        end = before[-1].upper if before else 0
        for batch in (*batches, *after[:1]):
            if batch.lower != end or not is_possible(batch):
                raise _misfit(batch, end)
            end = batch.upper
        return Batches(
            items=(*before, *batches, *after),
            part_count=self.part_count
            + sum(batch.part_count for batch in batches)
            - sum(batch.part_count for batch in old),
            inline_bytes=self.inline_bytes
            + sum(batch.inline_bytes for batch in batches)
            - sum(batch.inline_bytes for batch in old),
        )

    def shared_with(self, earlier: Batches) -> int:
        """How many at the beginning are those of ``earlier``, or equal to them."""
        old, new = earlier.items, self.items
        if old == new[: len(old)]:  # After an append. Tuples pass over what is the same object.
            return len(old)
        count = 0
        for one, other in zip(old, new, strict=False):
            if one is not other:
                break
            count += 1
        return count

    def span(self, lower: int, upper: int) -> tuple[int, int] | None:
        """Indexes of the batches that make ``[lower, upper)`` exactly; ``None`` where none do."""
        start = next((n for n, one in enumerate(self.items) if one.lower == lower), None)
        stop = next((n + 1 for n, one in enumerate(self.items) if one.upper == upper), None)
        if start is None or stop is None or start >= stop:
            return None
        return start, stop


def encode_batch(batch: CollectionBatch) -> bytes:
    """Encode one batch."""
    return batch.encoded


def decode_batch(data: Buffer, *, where: str) -> CollectionBatch:
    """Decode one batch. Raises ``CorruptDataError``; ``where`` is named."""
    fields = FieldReader(data, where=where)
    batch = take_batch(fields)
    fields.finish()
    return batch


def put_batch(fields: FieldWriter, batch: CollectionBatch) -> None:
    """Add a batch."""
    fields.put_bytes(batch.encoded)


def _encoded_batch(batch: CollectionBatch) -> bytes:
    assert is_possible(batch), "a batch has times in its range"
    fields = FieldWriter()
    fields.put(_HEAD, batch.lower, batch.upper, batch.since, len(batch.runs))
    for run in batch.runs:
        fields.put(_U32, len(run))
        for part in run:
            put_part(fields, part)
    return fields.to_bytes()


def take_batch(fields: FieldReader) -> CollectionBatch:
    """Take a batch. Raises ``CorruptDataError``."""
    lower, upper, since, count = fields.take(_HEAD)
    runs = tuple(_take_run(fields) for _ in range(count))
    batch = CollectionBatch(lower=lower, upper=upper, since=since, runs=runs)
    if not is_possible(batch):
        raise fields.damage("batch with impossible times, or an empty run")
    return batch


def is_possible(batch: CollectionBatch) -> bool:
    """Whether a batch can be: it has a range, its rows are in it, and no run is empty."""
    lower, upper, since = batch.lower, batch.upper, batch.since
    if not (is_frontier(lower) and is_frontier(upper) and is_frontier(since) and lower < upper):
        return False
    last = max(upper - 1, since)
    for run in batch.runs:
        if not run:
            return False
        for part in run:
            if part.time_min < lower or part.time_max > last:
                return False
    return True


def _misfit(batch: CollectionBatch, end: int) -> ValueError:
    return ValueError(f"batch of {batch.lower} to {batch.upper} does not fit at {end}")


def _take_run(fields: FieldReader) -> CollectionRun:
    (count,) = fields.take(_U32)
    return tuple(take_part(fields) for _ in range(count))
