"""Rollups of one collection, and its garbage: parts, rollups and entries that nothing needs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from siltstone.collections.part_objects import PartObjects
from siltstone.collections.place import CollectionPlace
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.garbage_plan import CollectionGarbage, garbage_of
from siltstone.collections.state.part_names import PartName, name_of_part
from siltstone.collections.state.replay import replayed
from siltstone.collections.state.rollups import (
    ROLLUP_EVERY,
    floor_rollup,
    forget_rollups,
    link_rollup,
    newest_rollup,
    note_collected,
)
from siltstone.collections.state.sweep_plan import parts_to_sweep
from siltstone.core.consensus import Tip
from siltstone.core.errors import ConditionFailedError, SiltstoneError
from siltstone.core.records.collection_batch import CollectionRun
from siltstone.core.records.collection_entry import Rollup
from siltstone.core.records.collection_state import (
    CollectionState,
    Life,
    decode_state,
    encode_state,
)

TRIES: Final = 8
"""Of one look at all states, while others truncate them."""

AGE_STEP: Final = ROLLUP_EVERY // 4
"""Entries between two whose age is remembered."""


class GarbageCollector:
    """Deletes what nothing needs any more, and makes rollups. Used on one loop.

    Args:
        place: where the collection is.
        shared: its state.
    """

    def __init__(self, place: CollectionPlace, shared: SharedState) -> None:
        self._place = place
        self._shared = shared
        self._objects = PartObjects(place, shared.id)
        self._one_by_one = asyncio.Lock()
        self._ages = _Ages([shared.state])
        self._has_looked = False

    def note(self, state: CollectionState) -> None:
        """Remember when a state was written."""
        self._ages.note(state)

    async def roll_up(self) -> None:
        """Keep the state as a rollup, and do what is due; all of it takes one entry.

        A look at garbage reads all states from the floor on. So it is due once a third of these can
        be collected: each entry is read a few times at most, however many are too young.

        Raises:
            ChunkError: long-term storage did not answer.
        """
        async with self._one_by_one:
            state = self._shared.state
            newest = newest_rollup(state)
            if newest is not None and state.seqno - newest.seqno <= 1:
                return  # Only its own link came after it.
            data = await self._place.work(lambda: encode_state(state))
            rollup = await self._place.ask(
                lambda: self._place.consensus.put_rollup(state.id, state.seqno, data)
            )
            below = through = 0
            try:
                below = await self._truncated()
                if self._is_worth_a_look(self._shared.state):
                    found = await self._collected(self._shared.state, self._shared.tip)
                    through = 0 if found is None else found[0]
            finally:
                upkeep = partial(_with_upkeep, rollup=rollup, through=through, below=below)
                await self._shared.run(upkeep)

    async def collect(self) -> int:
        """Delete parts and entries that nothing needs any more; return how many parts.

        Raises:
            ChunkError: long-term storage did not answer.
        """
        async with self._one_by_one:
            for _ in range(TRIES):
                state = await self._shared.refresh()
                found = await self._collected(state, self._shared.tip)
                if found is None:
                    continue
                through, count = found
                if through:
                    await self._shared.run(partial(note_collected, through=through))
                below = await self._truncated()
                if below:
                    await self._shared.run(partial(forget_rollups, below=below))
                return count
            return 0

    async def count_garbage(self) -> int:
        """Return how many parts ``collect`` would delete now; delete none.

        Raises:
            ChunkError: long-term storage did not answer.
        """
        for _ in range(TRIES):
            state = await self._shared.refresh()
            states = await self._states(state, self._shared.tip)
            if states is not None:
                garbage = self._garbage_in(states)
                return 0 if garbage is None else len(garbage.parts)
        return 0

    async def sweep(self) -> int:
        """Delete what died processes left; return how many objects.

        Raises:
            ChunkError: long-term storage did not answer.
        """
        async with self._one_by_one:
            for _ in range(TRIES):
                listed, _ = await self._objects.listed()
                state = await self._shared.refresh()
                tip = self._shared.tip
                states = await self._states(state, tip)
                if states is None:
                    continue
                names = parts_to_sweep(listed, states)
                if not await self._delete(names):
                    names = []
                rollups = list(state.rollups.values())
                swept = partial(self._place.consensus.sweep, tip, rollups)
                count = len(names) + await self._place.ask(swept)
                return count + await self._objects.sweep_leftovers()
            return 0

    async def discard(self, run: CollectionRun) -> None:
        """Delete parts of a writer that was given up, but for those that a state names.

        What cannot be deleted, the sweep deletes.
        """
        with suppress(SiltstoneError):
            state = await self._shared.refresh()
            states = await self._states(state, self._shared.tip)
            if states is not None:
                await self._delete(parts_to_sweep(map(name_of_part, run), states))

    async def bury(self) -> None:
        """Delete all that a dropped collection has but its last entry and its last rollup.

        Raises:
            ChunkError: long-term storage did not answer.
        """
        if not _is_buried(await self._shared.refresh()):
            await self.roll_up()
            await self.collect()
        await self.sweep()

    def _is_worth_a_look(self, state: CollectionState) -> bool:
        if not self._has_looked:
            return True  # Nobody may ever have: each process may make a few entries only.
        delay_ms = self._place.settings.garbage_delay_ms
        old = self._ages.newest_before(self._place.now_ms() - delay_ms)
        kept = state.seqno - floor_rollup(state).seqno
        return old - state.collected >= max(ROLLUP_EVERY // 2, kept // 3)

    async def _collected(self, state: CollectionState, tip: Tip) -> tuple[int, int] | None:
        """Delete garbage; return through which state, 0 if there is none, and how many parts.

        ``None`` means that states were truncated meanwhile. An old state is as good as the newest:
        holds only move forward, and who registers later holds nothing that is garbage now.
        """
        states = await self._states(state, tip)
        if states is None:
            return None
        self._has_looked = True
        self._ages = _Ages(states)
        garbage = self._garbage_in(states)
        if garbage is None:
            return 0, 0
        if not await self._delete(garbage.parts):
            return 0, 0
        return garbage.through, len(garbage.parts)

    async def _delete(self, parts: Sequence[PartName]) -> bool:
        """Delete parts that no state needs from the present one on, and none that comes back.

        ``False`` means that none was, since a reader keeps what it was shown. Who pins only after
        this has asked sees what was made secure before it.
        """
        if parts:
            await self._place.secure()
            if await self._place.is_pinned():
                return False
            await self._objects.delete(parts)
        return True

    def _garbage_in(self, states: Sequence[CollectionState]) -> CollectionGarbage | None:
        newest = states[-1]
        now_ms, delay_ms = self._place.now_ms(), self._place.settings.garbage_delay_ms
        if newest.life is Life.DROPPED:
            now_ms, delay_ms = max(now_ms, newest.written_ms), 0  # No reader may have its parts.
        return garbage_of(states, now_ms=now_ms, delay_ms=delay_ms)

    async def _states(self, state: CollectionState, tip: Tip) -> list[CollectionState] | None:
        """All states from the floor on; ``None`` if that was truncated meanwhile."""
        rollup = floor_rollup(state)
        opened = await self._place.ask(lambda: self._place.consensus.replay(tip, rollup))
        if opened is None:
            return None
        where = f"rollup {rollup.seqno} of collection {state.id.hex()}"
        return await self._place.work(
            lambda: replayed(decode_state(opened.state, where=where), opened.diffs)
        )

    async def _truncated(self) -> int:
        """Delete rollups before the floor, and the entries below it; return the floor.

        0 means that nothing was to do.
        """
        state, tip = self._shared.state, self._shared.tip
        if not state.floor or min(state.rollups) == state.floor:
            return 0
        if state.floor > tip.settled.seqno:
            return 0  # The entry that linked it is the newest one; the next time.
        floor, rollups = state.rollups[state.floor], list(state.rollups.values())
        await self._place.ask(lambda: self._place.consensus.truncate(tip, floor, rollups))
        return state.floor


class _Ages:
    """When entries were written, as far as this process knows.

    Args:
        states: one after the other.
    """

    def __init__(self, states: Iterable[CollectionState]) -> None:
        self._seen: deque[tuple[int, int]] = deque()
        for state in states:
            self.note(state)

    def note(self, state: CollectionState) -> None:
        """Remember a state, if it is not close to the last one."""
        if not self._seen or state.seqno >= self._seen[-1][0] + AGE_STEP:
            self._seen.append((state.seqno, state.written_ms))

    def newest_before(self, time_ms: int) -> int:
        """The newest seqno that is known to be as old as this; 0 where none is."""
        while len(self._seen) > 1 and self._seen[1][1] <= time_ms:
            self._seen.popleft()
        seqno, written_ms = self._seen[0]
        return seqno if written_ms <= time_ms else 0


def _with_upkeep(
    state: CollectionState, now_ms: int, *, rollup: Rollup, through: int, below: int
) -> tuple[CollectionState, None]:
    """Link a rollup, say what was collected, and forget rollups that are gone."""
    after = state
    with suppress(ConditionFailedError):  # Another process was first; the sweep deletes ours.
        after, _ = link_rollup(after, now_ms, rollup=rollup)
    after, _ = note_collected(after, now_ms, through=through)
    return forget_rollups(after, now_ms, below=below)


def _is_buried(state: CollectionState) -> bool:
    """Whether only the entry that noted the garbage, and the one after it, are above the floor."""
    return (
        state.life is Life.DROPPED
        and len(state.rollups) == 1
        and state.seqno - state.collected <= 2
    )
