"""What a collection needs on long-term storage, and what is there that it does not need. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from siltstone.collections.consensus.entry_plan import FIRST_SEQNO
from siltstone.collections.consensus.object_names import (
    entries_prefix,
    entry_name,
    rollup_key,
    rollup_name,
    rollups_prefix,
    seqno_of,
)
from siltstone.collections.state.garbage_plan import lowest_hold
from siltstone.collections.state.part_names import (
    PartName,
    name_of_part,
    part_key,
    part_name,
    parts_prefix,
)
from siltstone.collections.state.sweep_plan import parts_to_sweep, rollups_to_sweep
from siltstone.container.models.segments import Finding
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.collection_entry import Rollup
from siltstone.core.records.collection_part import CollectionPart
from siltstone.core.records.collection_state import CollectionState, Life


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """The objects without which a collection cannot be read, or not be changed, each by its name.

    Attributes:
        rollups: those from the floor on.
        entries: the seqnos of the first entry and of those above the oldest of these rollups.
        parts: those of every state that a reader or writer holds, and of the newest one.
    """

    rollups: Mapping[str, Rollup]
    entries: Mapping[str, int]
    parts: Mapping[str, CollectionPart]

    def lengths(self) -> Iterator[tuple[str, int | None]]:
        """Each name, with the length that the object has; ``None`` where nothing tells it."""
        yield from ((name, rollup.length) for name, rollup in self.rollups.items())
        yield from ((name, None) for name in self.entries)
        yield from ((name, part.length) for name, part in self.parts.items())


def needed_of(states: Sequence[CollectionState]) -> Needed:
    """Return what must be there.

    Args:
        states: all from the floor, or the oldest rollup, to the newest state, in their order; or
            the newest one alone, where no other can be had.
    """
    newest = states[-1]
    rollups = {
        rollup_name(newest.id, rollup): rollup
        for rollup in newest.rollups.values()
        if rollup.seqno >= newest.floor
    }
    oldest = min(rollup.seqno for rollup in rollups.values())
    seqnos = {FIRST_SEQNO, *range(max(oldest, FIRST_SEQNO) + 1, newest.seqno + 1)}
    held = lowest_hold(newest)
    batches = {
        id(batch): batch
        for state in states
        if state.seqno >= held and newest.life is not Life.MOVED
        for batch in state.batches.items
    }
    return Needed(
        rollups=rollups,
        entries={entry_name(newest.id, seqno): seqno for seqno in sorted(seqnos)},
        parts={
            part_key(newest.id, name_of_part(part)): part
            for batch in batches.values()
            for part in batch.parts()
            if part.inline is None
        },
    )


def absent(needed: Needed, listed: Mapping[str, int]) -> dict[str, int | None]:
    """Return what is needed and was not listed with its length: the length of each, by name."""
    return {
        name: length
        for name, length in needed.lengths()
        if name not in listed or length not in (None, listed[name])
    }


def unneeded(
    listed: Mapping[str, int], states: Sequence[CollectionState], *, whole: bool
) -> Iterator[Finding]:
    """Yield what is there and never counts: ``garbage``, and foreign names as ``warning``.

    Args:
        listed: the names of a collection's objects, and their lengths. They were listed before the
            newest state was read.
        states: as for ``needed_of``.
        whole: whether these are all states from the floor on. Without them no part is judged.
    """
    newest = states[-1]
    oldest = min(newest.rollups)
    unlinked = set(rollups_to_sweep(_rollups(newest.id, listed), newest))
    parts: dict[PartName, str] = {}
    for name in listed:
        try:
            if name.startswith(entries_prefix(newest.id)):
                seqno = seqno_of(name)
                if name != entry_name(newest.id, seqno):
                    yield foreign(name)
                elif FIRST_SEQNO < seqno <= oldest:
                    yield _garbage(name, "an entry below the floor; sweep deletes it")
            elif name.startswith(rollups_prefix(newest.id)):
                seqno, nonce = rollup_key(name)
                if name != f"{rollups_prefix(newest.id)}{seqno:020}-{nonce:016x}":
                    yield foreign(name)
                elif (seqno, nonce) in unlinked:
                    yield _garbage(name, "a rollup that no entry links; sweep deletes it")
            elif name.startswith(parts_prefix(newest.id)):
                parts[part_name(name)] = name
            else:
                yield foreign(name)
        except CorruptDataError:
            yield foreign(name)
    if whole:
        for part in parts_to_sweep(parts, states):
            yield _garbage(parts[part], "a part that nothing appended; sweep deletes it")


def foreign(name: str) -> Finding:
    """What is told of an object that Siltstone did not make."""
    message = "foreign: not the name of an object of a collection; never touched"
    return Finding(severity="warning", where=name, message=message)


def _garbage(name: str, message: str) -> Finding:
    return Finding(severity="garbage", where=name, message=message)


def _rollups(collection_id: bytes, listed: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    for name in listed:
        if name.startswith(rollups_prefix(collection_id)):
            try:
                yield rollup_key(name)
            except CorruptDataError:
                continue  # told as foreign
