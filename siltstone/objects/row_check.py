"""Whether the rows of a ledger fit together: heads, index entries, times of expiry, the manifest.

Rows are compared both ways: each that a head asks for is there, and each that is there is asked
for. Only the ledger is looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from siltstone.container.models.segments import Finding
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.objects.changes import name_text
from siltstone.objects.manifest import Manifest
from siltstone.objects.records.head import Head, decode_head
from siltstone.objects.records.keys import (
    DOUBTFUL,
    EXPIRY,
    HEAD,
    INDEX,
    LARGE_VALUE,
    MANIFEST,
    SPACE,
    STATE,
    TASK,
    LargeStatus,
    ObjectKey,
    Pair,
    decode_doubtful_key,
    decode_expiry_key,
    decode_head_key,
    decode_index_key,
    decode_large_key,
    expiry_key,
    head_key,
    index_keys,
)
from siltstone.objects.records.large_row import LargeRow, decode_large_row
from siltstone.objects.records.rebuild_rows import decode_doubt
from siltstone.objects.records.space_rows import (
    ManifestRow,
    SpaceState,
    ValueStatus,
    decode_index_entry,
)
from siltstone.store.handles.async_table import value_pages

if TYPE_CHECKING:
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.handles.async_table import AsyncTableSnapshot

_OWN_KINDS: Final = (MANIFEST, TASK)
"""Kinds of rows about the keyspace itself, besides the first two, which have one row each."""


class RowCheck:
    """Compares the rows of one ledger with one another.

    Args:
        names: of the keyspace.
        ledger: at one moment.
        state: what it says of itself.
        manifest: its value segments.

    Attributes:
        large: the heads of objects with large values.
        large_rows: what the rows about large values say: how far each is, its number, and more.
        heads: for each value segment of the manifest how many heads have a change of it.
    """

    def __init__(
        self,
        names: SpaceNames,
        ledger: AsyncTableSnapshot,
        state: SpaceState,
        manifest: Manifest,
    ) -> None:
        self.large: list[tuple[ObjectKey, Head]] = []
        self.large_rows: list[tuple[LargeStatus, int, LargeRow]] = []
        self.heads = {row.number: 0 for row in manifest.rows}
        self._names = names
        self._ledger = ledger
        self._state = state
        self._manifest = manifest

    async def findings(self) -> AsyncIterator[Finding]:
        """Yield what is wrong with any row."""
        async for page in value_pages(self._ledger, b"", None):
            for row_key, value in page:
                async for finding in self._row(row_key, value):
                    yield finding
            await asyncio.sleep(0)

    async def _row(self, row_key: bytes, value: bytes) -> AsyncIterator[Finding]:
        kind = row_key[:1]
        if row_key in (SPACE, STATE) or kind in _OWN_KINDS:
            return  # ``SpaceCheck`` decodes these
        look = {
            HEAD: self._head,
            INDEX: self._entry,
            EXPIRY: self._expiry,
            DOUBTFUL: self._doubt,
        }.get(kind)
        if look is None and kind != LARGE_VALUE:
            text = f"a row of an unknown kind: key={row_key.hex()}"
            yield Finding(severity="warning", where=self._names.ledger, message=text)
            return
        try:
            if look is None:
                self._note_large(row_key, value)
                return
            async for finding in look(row_key, value):
                yield finding
        except (CorruptDataError, FormatError) as error:
            yield damage(f"{self._names.ledger} {_culprit(row_key)}", str(error))

    def _note_large(self, row_key: bytes, value: bytes) -> None:
        status, number = decode_large_key(row_key)
        self.large_rows.append((status, number, decode_large_row(value, where=row_key.hex())))

    # --- heads ------------------------------------------------------------------------------------

    async def _head(self, row_key: bytes, value: bytes) -> AsyncIterator[Finding]:
        key = decode_head_key(row_key)
        head = decode_head(value, where=row_key.hex())
        where = object_text(self._names, key)
        for text in self._place(head):
            yield damage(where, text, sqn=head.sqn)
        if head.large is not None:
            self.large.append((key, head))
        for entry, index_key in zip(head.entries, index_keys(key, head.entries), strict=True):
            found = await self._ledger.get(index_key)
            if found is None:
                yield damage(where, f"it is not found under its {_term(entry)}")
            elif decode_index_entry(found.value, where=index_key.hex()) != head.expires_s:
                yield damage(where, f"its {_term(entry)} expires at another time than it")
        if head.expires_s and await self._ledger.get(expiry_key(key, head.expires_s)) is None:
            text = "it expires, and no row says so: it is invisible from then on, and never removed"
            yield Finding(severity="warning", where=where, message=text)

    def _place(self, head: Head) -> Iterator[str]:
        """What is wrong with where a head says that its record is."""
        if head.sqn >= self._state.next_sqn:
            yield f"its change is from the future: next_sqn={self._state.next_sqn}"
        row = self._manifest.row_of(head.sqn)
        if row is None:
            yield "no value segment has its change"
            return
        self.heads[row.number] += 1
        if head.number == row.number:
            end = self._state.length if row.status is ValueStatus.ACTIVE else row.length
            if head.offset + head.length > end:
                yield f"its record is beyond the end of those of {self._name(row.number)}"
        elif head.number in self._manifest.numbers:
            yield f"its record is said to be in {self._name(head.number)}, which has other changes"

    def _name(self, number: int) -> str:
        return self._names.value_segment(number)

    # --- rows that lead to heads ------------------------------------------------------------------

    async def _entry(self, row_key: bytes, value: bytes) -> AsyncIterator[Finding]:
        entry, key = decode_index_key(row_key)
        decode_index_entry(value, where=row_key.hex())
        head = await self._head_of(key)
        if head is None or entry not in head.entries:
            yield damage(
                object_text(self._names, key), f"it is found under the {_term(entry)}, and has none"
            )

    async def _expiry(self, row_key: bytes, value: bytes) -> AsyncIterator[Finding]:
        expires_s, key = decode_expiry_key(row_key)
        head = await self._head_of(key)
        if value or head is None or head.expires_s != expires_s:
            text = f"a row says that it expires at {expires_s}, and it does not; it goes by itself"
            yield Finding(severity="warning", where=object_text(self._names, key), message=text)

    async def _doubt(self, row_key: bytes, value: bytes) -> AsyncIterator[Finding]:
        key = decode_doubtful_key(row_key)[1]
        decode_doubt(value, where=row_key.hex())
        if key is not None and await self._head_of(key) is None:
            text = "it is doubtful since a rebuild: what it was last is not known, so it is absent"
            yield Finding(severity="warning", where=object_text(self._names, key), message=text)

    async def _head_of(self, key: ObjectKey) -> Head | None:
        """The head of an object; what cannot be decoded is told where the head is looked at."""
        row_key = head_key(key)
        found = await self._ledger.get(row_key)
        return None if found is None else decode_head(found.value, where=row_key.hex())


def manifest_findings(
    names: SpaceNames, state: SpaceState, rows: Sequence[ManifestRow], tasks: Iterable[int]
) -> Iterator[Finding]:
    """Yield what is wrong with the value segments as the ledger names them. Pure.

    Args:
        names: of the keyspace.
        state: what it says of itself.
        rows: in the order of their SQNs.
        tasks: numbers of the segments that are to be deleted.
    """
    active = [(row.number, row.first_sqn) for row in rows if row.status is ValueStatus.ACTIVE]
    if active != [(state.number, state.first_sqn)] or rows[-1].status is not ValueStatus.ACTIVE:
        yield damage(names.name, "state and manifest disagree about the segment that takes records")
    if len({row.number for row in rows}) != len(rows):
        yield damage(names.name, "the manifest has a value segment twice")
    after = 0
    for row in rows:
        where = names.value_segment(row.number)
        if row.first_sqn <= after:
            yield damage(where, "another value segment has the same changes", sqn=row.first_sqn)
        if row.number >= state.next_number:
            yield damage(where, "its number is from the future", next_number=state.next_number)
        if row.status is ValueStatus.ACTIVE:
            continue
        after = max(after, row.last_sqn)
        count = row.last_sqn - row.first_sqn + 1
        if not 0 < row.records <= count or row.last_sqn >= state.next_sqn:
            yield damage(where, "its changes cannot be so many", records=row.records)
        if row.kept > row.length:
            yield damage(where, "more is kept of it than it has", kept=row.kept)
    for number in sorted({row.number for row in rows}.intersection(tasks)):
        yield damage(names.value_segment(number), "it is needed, and is to be deleted")


def damage(where: str, text: str, **facts: object) -> Finding:
    """A finding of lost or wrong data, with facts."""
    told = "".join(f" {name}={value}" for name, value in facts.items())
    return Finding(severity="damage", where=where, message=text + told)


def object_text(names: SpaceNames, key: ObjectKey) -> str:
    """How findings name an object."""
    parts = {"tag": key.tag, "bucket": key.bucket, "key": key.key, "subkey": key.subkey}
    told = [f"{name}={name_text(part)}" for name, part in parts.items() if part]
    return " ".join([f"keyspace={names.name}", *told])


def _culprit(row_key: bytes) -> str:
    """How findings name a row that is damaged: by its object, if the key tells that."""
    try:
        if row_key.startswith(HEAD):
            key = decode_head_key(row_key)
        elif row_key.startswith(INDEX):
            key = decode_index_key(row_key)[1]
        elif row_key.startswith(EXPIRY):
            key = decode_expiry_key(row_key)[1]
        else:
            return f"row={row_key.hex()}"
    except CorruptDataError:
        return f"row={row_key.hex()}"
    return f"bucket={name_text(key.bucket)} key={name_text(key.key)}"


def _term(entry: Pair) -> str:
    field, term = entry
    return f"term {name_text(term)!r} of {name_text(field)!r}"
