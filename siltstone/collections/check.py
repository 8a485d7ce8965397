"""Compares what collections name with long-term storage, both ways. Changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from siltstone.collections.check_plan import Needed, absent, foreign, needed_of, unneeded
from siltstone.collections.compaction import ShareDone
from siltstone.collections.consensus.object_files import ObjectFiles
from siltstone.collections.consensus.object_names import (
    CHOICE_NAME,
    COLLECTIONS_PREFIX,
    after_collection,
    collection_prefix,
    id_of,
)
from siltstone.collections.consensus.plugin import OBJECTS
from siltstone.collections.place import CollectionPlace
from siltstone.collections.rows.open_part import check_whole
from siltstone.collections.state.replay import replayed
from siltstone.collections.state.rollups import floor_rollup
from siltstone.collections.stored_schema import schemas_of
from siltstone.container.models.segments import Finding
from siltstone.core.checksums import crc32c
from siltstone.core.consensus import Opened, Tip
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError, FormatError
from siltstone.core.records.collection_entry import Rollup
from siltstone.core.records.collection_part import CollectionPart
from siltstone.core.records.collection_state import (
    CollectionState,
    Life,
    decode_state,
    encode_state,
)

PIECE_BYTES: Final = 8 * MIB
"""Of a part that is read at once."""


def found_ids(place: CollectionPlace) -> tuple[list[bytes], list[Finding]]:
    """Return the ids below which anything lies, and what else is below ``collections/``. Blocking.

    One listing for each collection.
    """
    ids: list[bytes] = []
    others: list[Finding] = []
    after: str | None = ""
    while after is not None:
        after = _next_id(place, after, ids, others)
    return ids, others


def _next_id(
    place: CollectionPlace, after: str, ids: list[bytes], others: list[Finding]
) -> str | None:
    """List up to the next collection; return a name after all of its own."""
    for stat in place.storage.list(COLLECTIONS_PREFIX, after):
        found = id_of(stat.name)
        if found is not None:
            ids.append(found)
            return after_collection(found)
        if stat.name != CHOICE_NAME:
            others.append(foreign(stat.name))
    return None


async def check_each(
    place: CollectionPlace,
    wanted: Mapping[bytes, str | None],
    *,
    deep: bool,
    reads_parts: bool,
    progress: ShareDone | None,
) -> AsyncIterator[Finding]:
    """Yield what is wrong with collections, one after the other.

    Args:
        place: where they are.
        wanted: their names, by their ids; ``None`` where one has none.
        deep: see ``CollectionCheck``.
        reads_parts: the same.
        progress: told how much of all of them is done, if given.
    """
    for index, (collection_id, name) in enumerate(wanted.items()):

        def told(share: float, index: int = index) -> None:
            if progress is not None:
                progress((index + share) / len(wanted))

        check = CollectionCheck(
            place, collection_id, name, deep=deep, reads_parts=reads_parts, progress=told
        )
        async for finding in check.findings():
            yield finding
        told(1.0)


@dataclass(frozen=True, slots=True)
class _Look:
    """A collection as it is.

    Attributes:
        tip: of its newest entry.
        states: those from the floor on; the newest one alone where the others cannot be read.
        problem: why they cannot; ``None`` where they can.
    """

    tip: Tip
    states: list[CollectionState]
    problem: Finding | None


def stored_parts(place: CollectionPlace, collection_id: bytes) -> dict[str, CollectionPart]:
    """Return the parts that a collection needs, by the names of their objects. Blocking.

    None of one that cannot be read: a check tells why. Raises ``ChunkError``.
    """
    check = CollectionCheck(
        place, collection_id, None, deep=False, reads_parts=False, progress=lambda share: None
    )
    return check.stored_parts()


class CollectionCheck:
    """One check of one collection. Its parts block.

    Args:
        place: where it is.
        collection_id: 16 bytes.
        name: in the catalog; ``None`` where it has none.
        deep: read every byte, and compare it with its sum.
        reads_parts: with ``deep``, also the bytes of parts.
        progress: told how much of this collection is done.
    """

    def __init__(
        self,
        place: CollectionPlace,
        collection_id: bytes,
        name: str | None,
        *,
        deep: bool,
        reads_parts: bool,
        progress: ShareDone,
    ) -> None:
        self._place = place
        self._id = collection_id
        self._name = name
        self._deep = deep
        self._reads_parts = reads_parts
        self._progress = progress
        self._files = ObjectFiles(place.storage)

    async def findings(self) -> AsyncIterator[Finding]:
        """Yield what was found.

        Raises:
            ChunkError: long-term storage did not answer.
        """
        listed = await self._place.ask(self._listed)
        try:
            look = await self._place.ask(self._look)
        except (CorruptDataError, FormatError) as error:
            yield self._damage(error)
            return
        if look is None:
            for finding in self._never_begun(listed):
                yield finding
            return
        for finding in await self._place.ask(partial(self._judged, look, listed)):
            yield finding
        if self._deep:
            async for finding in self._read(look):
                yield finding

    def stored_parts(self) -> dict[str, CollectionPart]:
        """See ``stored_parts``."""
        try:
            look = self._look()
        except (CorruptDataError, FormatError):
            return {}
        return {} if look is None else dict(self._needed(look.states).parts)

    def _judged(self, look: _Look, listed: Mapping[str, int]) -> list[Finding]:
        """What names and lengths tell."""
        findings = [] if look.problem is None else [look.problem]
        life = look.states[-1].life
        if self._name is None and life is Life.OPEN:
            message = "it has no name in the catalog; sweep --nameless drops it"
            findings.append(self._finding("warning", message))
        if self._name is not None and life is Life.DROPPED:
            message = "its drop goes on, or was interrupted; to drop it again ends it"
            findings.append(self._finding("warning", message))
        findings += self._gone(self._needed(look.states), listed)
        findings += unneeded(listed, look.states, whole=look.problem is None)
        return findings

    def _needed(self, states: Sequence[CollectionState]) -> Needed:
        """Objects that must be there. Another consensus keeps entries and states elsewhere."""
        needed = needed_of(states)
        if self._place.settings.consensus != OBJECTS:
            return replace(needed, entries={}, rollups={})
        return needed

    def _listed(self) -> dict[str, int]:
        found = self._place.storage.list(collection_prefix(self._id))
        return {stat.name: stat.length for stat in found}

    def _look(self) -> _Look | None:
        """Read the collection as it is; ``None`` if it has no entry.

        Raises:
            CorruptDataError, FormatError: the newest state cannot be read.
        """
        floor = None
        while True:
            opened = self._place.consensus.open(self._id)
            if opened is None:
                return None
            newest = self._states(opened)[-1]
            rollup = floor_rollup(newest)
            try:
                again = self._place.consensus.replay(opened.tip, rollup)
                if again is not None:
                    return _Look(opened.tip, self._states(again), None)
            except (CorruptDataError, FormatError) as error:
                return _Look(opened.tip, [newest], self._damage(error))
            if rollup.seqno == floor:  # It is not truncation that took it.
                lost = self._finding("damage", f"the states from {floor} on are not all there")
                return _Look(opened.tip, [newest], lost)
            floor = rollup.seqno

    def _states(self, opened: Opened) -> list[CollectionState]:
        where = f"rollup {opened.rollup.seqno} of collection {self._id.hex()}"
        return replayed(decode_state(opened.state, where=where), opened.diffs)

    def _never_begun(self, listed: Mapping[str, int]) -> Iterator[Finding]:
        if self._name is not None:
            yield self._finding("warning", "it has no entry: it was never begun, or all is gone")
        for name in listed:
            message = "of a collection without entries, which was never begun"
            yield Finding(severity="garbage", where=name, message=message)

    def _gone(self, needed: Needed, listed: Mapping[str, int]) -> list[Finding]:
        """What is still needed after it was seen to be missing. No name is ever used again."""
        lengths = {name: self._length(name) for name in absent(needed, listed)}
        there = {name: length for name, length in lengths.items() if length is not None}
        if not absent(needed, {**listed, **there}):
            return []
        look = self._look()
        if look is None:
            return [self._finding("damage", "its entries are gone")]
        now = self._needed(look.states)
        lost = absent(needed, {**listed, **there})
        return [
            Finding(severity="damage", where=name, message=_loss(length, lengths.get(name)))
            for name, length in now.lengths()
            if name in lost
        ]

    def _length(self, name: str) -> int | None:
        try:
            return self._place.storage.stat(name).length
        except ChunkNotFoundError:
            return None

    # --- what is read ---

    async def _read(self, look: _Look) -> AsyncIterator[Finding]:
        needed, newest = self._needed(look.states), look.states[-1]
        parts = needed.parts if self._reads_parts else {}
        total = max(1, sum(part.length for part in parts.values()))
        done = 0
        for step in self._small_steps(needed, look.tip, newest):
            finding = await self._place.ask(partial(self._tried, step))
            if finding is not None:
                yield finding
        for name, part in parts.items():
            step = partial(self._check_part, name, part)
            finding = await self._place.ask(partial(self._tried, step))
            if finding is not None:
                yield finding
            done += part.length
            self._progress(done / total)

    def _small_steps(
        self, needed: Needed, tip: Tip, newest: CollectionState
    ) -> Iterator[Callable[[], object]]:
        """What to read, other than parts."""
        yield partial(schemas_of, newest)
        for seqno in needed.entries.values():
            yield partial(self._files.entry, self._id, seqno)
        for rollup in sorted(needed.rollups.values(), key=lambda rollup: rollup.seqno):
            yield partial(self._check_rollup, tip, newest, rollup)
        for batch in newest.batches.items:
            for part in batch.parts():
                if part.inline is not None:
                    where = f"inline part of {self._label}"
                    yield partial(check_whole, part, part.inline, where=where)

    def _tried(self, step: Callable[[], object]) -> Finding | None:
        """What is damaged. What is gone was told, or went in the meantime."""
        try:
            step()
        except ChunkNotFoundError:
            return None
        except (CorruptDataError, FormatError) as error:
            return self._damage(error)
        return None

    def _check_rollup(self, tip: Tip, newest: CollectionState, rollup: Rollup) -> None:
        """Whether a rollup and the diffs after it make the newest state."""
        opened = self._place.consensus.replay(tip, rollup)
        if opened is None:
            return
        if encode_state(self._states(opened)[-1]) != encode_state(newest):
            raise CorruptDataError(
                "a rollup and the entries after it make another state than others do",
                where=f"rollup {rollup.seqno} of {self._label}",
            )

    def _check_part(self, name: str, part: CollectionPart) -> None:
        crc = offset = 0
        while offset < part.length:
            data = self._place.read(name, offset, min(PIECE_BYTES, part.length - offset))
            if not data:
                break
            crc = crc32c(data, crc)
            offset += len(data)
        if offset != part.length or crc != part.crc:
            raise CorruptDataError("part does not match its sum", where=name)

    @property
    def _label(self) -> str:
        return f"collection {self._name or self._id.hex()}"

    def _finding(self, severity: str, message: str) -> Finding:
        return Finding(severity=severity, where=self._label, message=message)

    def _damage(self, error: CorruptDataError | FormatError) -> Finding:
        where = getattr(error, "where", None) or self._label
        return Finding(severity="damage", where=str(where), message=str(error))


def _loss(wanted: int | None, found: int | None) -> str:
    if found is None:
        return "missing"
    return f"{found:,} bytes, and not {wanted:,}"
