"""Consensus in a table of the store, for the process that owns it: a commit is an update.

Each collection has a head row, which says what its newest seqno is, and a row for each entry. A
commit puts the next entry and the head, on the condition that the head still has the version that
was read with the seqno of the tip. So each seqno is given once, and nothing that was is given
again, since a head is never removed. An owner that was taken over can change nothing, and it learns
that before it says that nothing is new: ``open`` and ``refresh`` begin with a put of their own.

A rollup is kept in rows as well. It is removed before the entries up to it, and read after those
from it on; its name is random. So a rollup that is found proves that no entry above it was removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from siltstone.collections.consensus.entry_plan import (
    FIRST_SEQNO,
    check_named,
    first_entry,
    next_entry,
    tip_of,
)
from siltstone.collections.consensus.table_keys import (
    HEAD,
    PIECE_BYTES,
    PROOF_KEY,
    after,
    decode_head,
    encode_head,
    entry_key,
    head_key,
    id_of_head,
    piece_key,
    rollup_key,
    rollup_name,
    rollups_key,
)
from siltstone.core.checksums import crc32c
from siltstone.core.consensus import (
    Committed,
    Followed,
    Opened,
    Progress,
    Taken,
    Tip,
    Undecided,
)
from siltstone.core.environment import Environment
from siltstone.core.errors import ConditionFailedError, CorruptDataError, LostDataError
from siltstone.core.records.collection_entry import (
    Diff,
    Entry,
    Rollup,
    decode_entry,
    encode_entry,
)
from siltstone.core.table_value import TableValue
from siltstone.store.handles.async_table import AsyncTable, value_of

T = TypeVar("T")

_NONCE_BYTES: Final = 8
_LOOKS_MAX: Final = 100
"""Each look after the first means that a truncation went past the one before."""


class TableConsensus:
    """Implements ``Consensus``. Its calls are made on any thread but that of the table's loop.

    Args:
        table: of an open store that owns it.
        loop: of the store.
        environment: gives randomness.
        flush: brings what is acknowledged in the table to long-term storage.
        is_pinned: whether a reader of the store keeps what it shows.
        prove: lets what is read after it be the newest; ``None`` means a put, after which no other
            owner was ahead.
    """

    def __init__(
        self,
        table: AsyncTable,
        loop: asyncio.AbstractEventLoop,
        environment: Environment,
        flush: Callable[[], Awaitable[None]],
        is_pinned: Callable[[], Awaitable[bool]],
        prove: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._table = table
        self._loop = loop
        self._environment = environment
        self._flush = flush
        self._is_pinned = is_pinned
        self._prove = self._proof_put if prove is None else prove

    def keys(self) -> Iterator[bytes]:
        """``Consensus.keys``: one scan."""
        rows = self._wait(self._rows(HEAD, after(HEAD)))
        return (id_of_head(key) for key, _ in rows)

    def put_rollup(self, collection_id: bytes, seqno: int, state: bytes) -> Rollup:
        """``Consensus.put_rollup``: a put for each MiB."""
        rollup = Rollup(seqno=seqno, nonce=self._random(), length=len(state), crc=crc32c(state))
        self._wait(self._put(collection_id, rollup, state))
        return rollup

    def begin(self, collection_id: bytes, rollup: Rollup, diff: Diff) -> Opened:
        """``Consensus.begin``: an update on the condition that there is no head."""
        return self._wait(self._begin(collection_id, rollup, diff))

    def open(self, collection_id: bytes) -> Opened | None:
        """``Consensus.open``: a put, and reads of the table."""
        return self._wait(self._proved(lambda: self._open(collection_id)))

    def refresh(self, tip: Tip) -> Progress:
        """``Consensus.refresh``: a put, and a read of the table for each new entry."""
        return self._wait(self._proved(lambda: self._progress(tip)))

    def poll(self, tip: Tip) -> Progress | None:
        """``Consensus.poll``: one read of the table while nothing is new."""
        return self._wait(self._poll(tip))

    def commit(
        self, tip: Tip, diff: Diff, link: Rollup | None = None
    ) -> Committed | Taken | Undecided:
        """``Consensus.commit``; never ``Undecided``."""
        return self._wait(self.commit_on_loop(tip, diff, link))

    async def commit_on_loop(
        self, tip: Tip, diff: Diff, link: Rollup | None = None
    ) -> Committed | Taken | Undecided:
        """``CommitsOnLoop.commit_on_loop``: one update."""
        # It repeats no other: a scan brings many as fast as one.
        entry = next_entry(tip, replace(diff, token=self._random()), link)
        key = head_key(tip.collection_id)
        head = await self._get(key)
        if head is not None and decode_head(head.value, tip.collection_id) == tip.seqno:
            try:
                await self._table.update(
                    {key: encode_head(entry.seqno), _key_of(entry): encode_entry(entry)},
                    expected={key: head.version},
                )
            except ConditionFailedError:
                pass  # Others were first: what they did is durable, and found below.
            else:
                return Committed(progress=Followed(tip=_tip_of(entry), diffs=(entry.diff,)))
        return Taken(progress=await self._progress(tip))

    def replay(self, tip: Tip, rollup: Rollup) -> Opened | None:
        """``Consensus.replay``: reads of the table."""
        return self._wait(self._replay(tip, rollup))

    def truncate(self, tip: Tip, floor: Rollup, rollups: Sequence[Rollup]) -> None:
        """``Consensus.truncate``: two removals of a range, rollups first."""
        check_named(tip, rollups)
        assert floor in rollups, "the floor is a rollup that the state names"
        assert floor.seqno <= tip.settled.seqno, "the newest entry keeps its anchor"
        self._wait(self._truncate(tip.collection_id, floor.seqno))

    def sweep(self, tip: Tip, rollups: Sequence[Rollup]) -> int:
        """``Consensus.sweep``: a scan of rollups, and their removal."""
        check_named(tip, rollups)
        return self._wait(self._sweep(tip, rollups))

    def secure(self) -> None:
        """``SecurableConsensus.secure``: a flush of the tables."""
        self._wait(_awaited(self._flush))

    def is_pinned(self) -> bool:
        """``PinnableConsensus.is_pinned``: a listing."""
        return self._wait(_awaited(self._is_pinned))

    # --- parts of the above, on the loop of the table ---------------------------------------------

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _proved(self, look: Callable[[], Awaitable[T]]) -> T:
        """Look after a put was acknowledged, so that no other owner was ahead of it."""
        await self._prove()
        return await look()

    async def _proof_put(self) -> None:
        await self._table.put(PROOF_KEY, b"")

    async def _put(self, collection_id: bytes, rollup: Rollup, state: bytes) -> None:
        for index, start in enumerate(range(0, len(state), PIECE_BYTES)):
            piece = state[start : start + PIECE_BYTES]
            await self._table.put(piece_key(collection_id, rollup, index), piece)

    async def _begin(self, collection_id: bytes, rollup: Rollup, diff: Diff) -> Opened:
        entry = first_entry(collection_id, rollup, replace(diff, token=self._random()))
        key = head_key(collection_id)
        try:
            await self._table.update(
                {key: encode_head(entry.seqno), _key_of(entry): encode_entry(entry)},
                expected={key: None},
            )
        except ConditionFailedError:
            # It is not named anywhere: the first entry names another one.
            begin = rollup_key(collection_id, rollup)
            await self._table.remove_range(begin, after(begin))
        opened = await self._open(collection_id)
        if opened is None:
            raise _lost(collection_id)
        return opened

    async def _open(self, collection_id: bytes) -> Opened | None:
        looked = None
        for _ in range(_LOOKS_MAX):
            head = await self._get(head_key(collection_id))
            if head is None:
                return None
            seqno = decode_head(head.value, collection_id)
            newest = await self._get(entry_key(collection_id, seqno))
            if newest is not None:
                rollup = _decoded(newest, collection_id, seqno).rollup
                opened = await self._from_rollup(collection_id, rollup, seqno)
                if opened is not None:
                    return opened
            if seqno == looked:
                break
            looked = seqno
        raise _lost(collection_id)

    async def _poll(self, tip: Tip) -> Progress | None:
        progress = await self._progress(tip)
        return progress if progress.tip.seqno > tip.seqno else None

    async def _progress(self, tip: Tip) -> Progress:
        head = await self._get(head_key(tip.collection_id))
        if head is None:
            raise _lost(tip.collection_id)
        seqno = decode_head(head.value, tip.collection_id)
        if seqno < tip.seqno:
            raise _lost(tip.collection_id)
        if seqno == tip.seqno:
            return Followed(tip=tip, diffs=())
        entries = await self._entries(tip.collection_id, tip.seqno, seqno)
        if entries is not None and await self._has_rollup(tip.collection_id, tip.anchor):
            diffs = tuple(entry.diff for entry in entries)
            return Followed(tip=_tip_of(entries[-1]), diffs=diffs)
        opened = await self._open(tip.collection_id)
        if opened is None:
            raise _lost(tip.collection_id)
        return opened

    async def _replay(self, tip: Tip, rollup: Rollup) -> Opened | None:
        return await self._from_rollup(tip.collection_id, rollup, tip.seqno)

    async def _truncate(self, collection_id: bytes, seqno: int) -> None:
        start, end = rollups_key(collection_id, 0), rollups_key(collection_id, seqno)
        if start < end:
            await self._table.remove_range(start, end)
            first = entry_key(collection_id, FIRST_SEQNO)
            await self._table.remove_range(first, entry_key(collection_id, seqno + 1))

    async def _sweep(self, tip: Tip, rollups: Sequence[Rollup]) -> int:
        named = {(rollup.seqno, rollup.nonce) for rollup in rollups}
        # One that is not newer cannot be linked any more.
        end = rollups_key(tip.collection_id, tip.anchor.seqno + 1)
        rows = await self._rows(rollups_key(tip.collection_id, 0), end)
        unnamed = {rollup_name(key) for key, _ in rows} - named
        for seqno, nonce in sorted(unnamed):
            begin = rollup_key(tip.collection_id, Rollup(seqno=seqno, nonce=nonce, length=0, crc=0))
            await self._table.remove_range(begin, after(begin))
        return len(unnamed)

    async def _from_rollup(self, collection_id: bytes, rollup: Rollup, seqno: int) -> Opened | None:
        """The entries after a rollup up to a seqno, and then the rollup; ``None`` if any is gone.

        The rollup is read last: being there then, it proves the rest.
        """
        entries = await self._entries(collection_id, rollup.seqno, seqno)
        begin = rollup_key(collection_id, rollup)
        state = b"".join([value.value for _, value in await self._rows(begin, after(begin))])
        if entries is None or not state:
            return None
        if len(state) != rollup.length or crc32c(state) != rollup.crc:
            raise CorruptDataError(
                "a rollup of a collection is damaged",
                where=f"rollup {rollup.seqno} of {collection_id.hex()}",
            )
        diffs = tuple(entry.diff for entry in entries)
        return Opened(tip=_tip_of(entries[-1]), rollup=rollup, state=state, diffs=diffs)

    async def _has_rollup(self, collection_id: bytes, rollup: Rollup) -> bool:
        return await self._get(piece_key(collection_id, rollup, 0)) is not None

    async def _entries(self, collection_id: bytes, above: int, through: int) -> list[Entry] | None:
        """The entries above a seqno up to another one; ``None`` if one is gone."""
        keys = entry_key(collection_id, above + 1), entry_key(collection_id, through + 1)
        rows = await self._rows(*keys)
        if len(rows) != through - above:
            return None
        return [
            _decoded(value, collection_id, above + 1 + index)
            for index, (_, value) in enumerate(rows)
        ]

    async def _rows(self, start: bytes, end: bytes) -> list[tuple[bytes, TableValue]]:
        return [row async for row in self._table.scan(start, end)]

    async def _get(self, key: bytes) -> TableValue | None:
        found = value_of(self._table, key)
        return await self._table.get(key) if found is None else found[0]

    def _random(self) -> int:
        return int.from_bytes(self._environment.random_bytes(_NONCE_BYTES), "little")


async def _awaited(call: Callable[[], Awaitable[T]]) -> T:
    return await call()


def _tip_of(entry: Entry) -> Tip:
    return tip_of(entry, repeats=False)


def _key_of(entry: Entry) -> bytes:
    return entry_key(entry.collection_id, entry.seqno)


def _decoded(value: TableValue, collection_id: bytes, seqno: int) -> Entry:
    where = f"entry {seqno} of {collection_id.hex()}"
    entry = decode_entry(value.value, where=where)
    if (entry.collection_id, entry.seqno) != (collection_id, seqno):
        raise CorruptDataError("an entry is not the one of its key", where=where)
    return entry


def _lost(collection_id: bytes) -> LostDataError:
    return LostDataError("entries of a collection are gone", where=collection_id.hex())
