"""Two keyspaces are made equal: what is done about each object that differs, and doing it."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, Literal, NamedTuple, cast

from siltstone.core.constants import MIB
from siltstone.core.errors import ReadOnlyError
from siltstone.objects.changes import name_text
from siltstone.objects.comparison import (
    Comparison,
    CountedSide,
    DifferentRows,
    LostValue,
    Share,
    no_share,
)
from siltstone.objects.errors import ObjectLimitError
from siltstone.objects.records.head import Head, compared_bytes, decode_head
from siltstone.objects.records.keys import decode_head_key
from siltstone.objects.tree import Range
from siltstone.objects.tree_side import CopiedObject, Side

Preference = Literal["left", "right", "newest"]

FLIGHT_MAX: Final = 256
"""Objects on their way at once: those of a batch or two, since a commit takes as long for one."""

PART_BYTES: Final = 8 * MIB
"""Most bytes of a value in memory: a part that is read, and one that is written."""

FLIGHT_BYTES: Final = 32 * MIB
"""Bytes that they may have, so that memory does not depend on the values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What a sync did. Left is the keyspace whose verb it was, right the other one.

    Attributes:
        differences: how many objects differed.
        copied_to_left: how many were written there.
        copied_to_right: how many were written there.
        removed_from_left: how many were removed there.
        removed_from_right: how many were removed there.
        repaired: how many are the same on both sides, and had a value that one side knew to be
            lost; it has it again from the other one. They are in none of the counts above.
        changed: how many were changed meanwhile, and left as they are; a repeat looks at them.
        lost: how many have a value that is damaged or gone where it was to be read.
        left_out: how many would have been written to a side that takes no changes.
        too_long: how many do not fit into the keyspace that they were to be written to: its frames
            of tier 1 are smaller. They are left as they are on both sides.
        too_long_names: tag, bucket and key of the first 1,000 of these.
        exchanged_bytes: what went from one side to the other, values included.
    """

    differences: int = 0
    copied_to_left: int = 0
    copied_to_right: int = 0
    removed_from_left: int = 0
    removed_from_right: int = 0
    repaired: int = 0
    changed: int = 0
    lost: int = 0
    left_out: int = 0
    too_long: int = 0
    too_long_names: tuple[tuple[str, str, str], ...] = ()
    exchanged_bytes: int = 0


NAMES_MAX: Final = 1_000
"""Objects that a report names. More are counted."""


class SyncTarget(Enum):
    """The side that is written to."""

    LEFT = "left"
    RIGHT = "right"


class SyncStep(NamedTuple):
    """What is done about an object.

    Attributes:
        target: where.
        removes: whether it is removed there, not copied.
    """

    target: SyncTarget
    removes: bool


def check_preference(prefer: str, *, deletes: bool) -> Preference:
    """Return a preference.

    Raises:
        ValueError: there is no such one, or it does not say whose absence counts.
    """
    if prefer not in ("left", "right", "newest"):
        raise ValueError(f"prefer is 'left', 'right' or 'newest', not {prefer!r}")
    if deletes and prefer == "newest":
        raise ValueError("absence has no time: with deletes, prefer 'left' or 'right'")
    return cast("Preference", prefer)


def step_of(
    left: tuple[Head, bytes] | None,
    right: tuple[Head, bytes] | None,
    prefer: Preference,
    *,
    deletes: bool,
) -> SyncStep:
    """Return what is done about an object that differs.

    Args:
        left: its head there, and the row of that; ``None`` when it is absent.
        right: the same on the other side; not both are absent.
        prefer: the side whose version counts, or the version that was changed last. Of two that
            were changed at the same time it is the one with the higher bytes, on both sides.
        deletes: whether absence on the side that counts removes the object from the other.
    """
    if left is None:
        removes = deletes and prefer == "left"
        return SyncStep(SyncTarget.RIGHT if removes else SyncTarget.LEFT, removes)
    if right is None:
        removes = deletes and prefer == "right"
        return SyncStep(SyncTarget.LEFT if removes else SyncTarget.RIGHT, removes)
    wins = prefer == "left"
    if prefer == "newest":
        wins = _age(left) > _age(right)
    return SyncStep(SyncTarget.RIGHT if wins else SyncTarget.LEFT, removes=False)


def _age(found: tuple[Head, bytes]) -> tuple[int, bytes]:
    return found[0].modified_ms, compared_bytes(found[1])


class Sync:
    """Makes two keyspaces equal, once.

    Args:
        left: one side.
        right: the other.
        which: the range of rows of both.
        prefer: whose version counts.
        deletes: whether its absences count, too.
        dry_run: only count what would be done, as if sides that are read-only were not.
        progress: told how much is done, from 0 to 1.
    """

    def __init__(
        self,
        left: Side,
        right: CountedSide,
        which: Range,
        prefer: Preference,
        *,
        deletes: bool,
        dry_run: bool = False,
        progress: Share = no_share,
    ) -> None:
        self._sides: dict[SyncTarget, Side] = {SyncTarget.LEFT: left, SyncTarget.RIGHT: right}
        self._right = right
        self._comparison = Comparison(left, right, which, progress)
        self._prefer = prefer
        self._deletes = deletes
        self._dry_run = dry_run
        self._too_long: list[tuple[str, str, str]] = []
        self._counts: Counter[str] = Counter()
        self._refusing: set[SyncTarget] = set()

    async def run(self) -> SyncReport:
        """Do it.

        Raises:
            ReadOnlyError, UnsupportedError: a side that must be written to takes no changes.

        Raises what a put raises; what was written until then stays, and a repeat goes on.
        """
        for target, side in self._sides.items():
            refusal = await side.refusal()
            if refusal is None or (self._dry_run and isinstance(refusal, ReadOnlyError)):
                continue
            if target.value != self._prefer:
                raise refusal
            self._refusing.add(target)
        flight: deque[tuple[asyncio.Task[str], int]] = deque()
        held = 0
        try:
            async for work, size in self._work():
                while flight and (len(flight) == FLIGHT_MAX or held + size > FLIGHT_BYTES):
                    held -= await self._landed(flight)
                flight.append((asyncio.create_task(work()), size))
                held += size
            while flight:
                await self._landed(flight)
        finally:
            tasks = [task for task, _ in flight]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return SyncReport(
            exchanged_bytes=self._right.exchanged_bytes,
            too_long_names=tuple(self._too_long),
            **self._counts,
        )

    async def _landed(self, flight: deque[tuple[asyncio.Task[str], int]]) -> int:
        """Wait for the first object; return the bytes that it held."""
        task, size = flight[0]
        outcome = await task
        flight.popleft()
        self._counts[outcome] += 1
        return size

    async def _work(self) -> AsyncIterator[tuple[Callable[[], Coroutine[Any, Any, str]], int]]:
        """What is to be done, and the bytes that each thing holds."""
        async for page in self._comparison.pages():
            for found in page:
                self._counts["differences"] += 1
                yield partial(self._do, found), _held(found)
        async for each in self._comparison.lost():
            yield partial(self._repair, each), _held(each.rows)

    async def _repair(self, found: LostValue) -> str:
        """Copy a value to the side that lost it; return the attribute of the report for that."""
        target = SyncTarget.LEFT if found.is_left else SyncTarget.RIGHT
        if target in self._refusing:
            return "left_out"
        left, right = _decoded(found.rows, found.rows.left), _decoded(found.rows, found.rows.right)
        there, here = (left, right) if found.is_left else (right, left)
        assert there is not None, "both have it"
        assert here is not None, "both have it"
        outcome = await self._copied(found.rows.row_key, here, there[0].sqn, target)
        return "repaired" if outcome.startswith("copied") else outcome

    async def _do(self, found: DifferentRows) -> str:
        """Do what is to be done about an object; return the attribute of the report for that."""
        left, right = _decoded(found, found.left), _decoded(found, found.right)
        step = step_of(left, right, self._prefer, deletes=self._deletes)
        target = step.target
        if target in self._refusing:
            return "left_out"
        there, here = (left, right) if target is SyncTarget.LEFT else (right, left)
        side = self._sides[target]
        expected = None if there is None else there[0].sqn
        if step.removes:
            assert expected is not None, "what is removed is there"
            is_done = self._dry_run or await side.remove(found.row_key, expected)
            return f"removed_from_{target.value}" if is_done else "changed"
        assert here is not None, "what is copied is there"
        return await self._copied(found.row_key, here, expected, target)

    async def _copied(
        self, row_key: bytes, here: tuple[Head, bytes], expected: int | None, target: SyncTarget
    ) -> str:
        """Copy an object; return the attribute of the report for that.

        Args:
            row_key: of its head.
            here: its head where it is copied from, and the row of that.
            expected: SQN that it must have where it is copied to.
            target: where that is.
        """
        if self._dry_run:
            return f"copied_to_{target.value}"
        side = self._sides[target]
        source = self._sides[SyncTarget.RIGHT if target is SyncTarget.LEFT else SyncTarget.LEFT]
        copied = CopiedObject(row_key, here[1], b"", expected)
        copy = _upload if here[0].size > await side.record_value_max() else _copy
        try:
            is_copied = await copy(source, side, copied, here[0].size)
        except ObjectLimitError:
            if len(self._too_long) < NAMES_MAX:
                key = decode_head_key(row_key)
                names = name_text(key.tag), name_text(key.bucket), name_text(key.key)
                self._too_long.append(names)
            return "too_long"
        if is_copied is None:
            return "lost"
        return f"copied_to_{target.value}" if is_copied else "changed"


async def _copy(source: Side, target: Side, copied: CopiedObject, size: int) -> bool | None:
    """Write an object at once; ``None`` when its value is lost."""
    value = b"".join([part async for part in _parts(source, copied, size)])
    return await target.take(copied._replace(value=value)) if len(value) == size else None


async def _upload(source: Side, target: Side, copied: CopiedObject, size: int) -> bool | None:
    """Write an object part by part; ``None`` when its value is lost."""
    upload = await target.begin_upload()
    try:
        length = 0
        async for part in _parts(source, copied, size):
            await target.push(upload, part)
            length += len(part)
        return await target.finish(upload, copied) if length == size else None
    finally:
        await asyncio.shield(target.drop(upload))


async def _parts(source: Side, copied: CopiedObject, size: int) -> AsyncIterator[bytes]:
    """Yield the value of an object; it ends early where bytes are lost."""
    offset = 0
    while offset < size and (part := await source.part(copied.row_key, copied.row, offset)):
        yield part
        offset += len(part)


def _held(found: DifferentRows) -> int:
    """Bytes that an object takes in memory while it is copied, from one side or the other."""
    return max(map(_size, (found.left, found.right)))


def _size(row: bytes | None) -> int:
    """Bytes of an object that are in memory while it is copied: a part or two of a large value."""
    return 0 if row is None else min(decode_head(row, where="").size, PART_BYTES) + len(row)


def _decoded(found: DifferentRows, row: bytes | None) -> tuple[Head, bytes] | None:
    return None if row is None else (decode_head(row, where=found.row_key.hex()), row)
