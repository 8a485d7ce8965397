"""Copy: segments into another store of any binding, what is new and no more.

The driver owns the target. It opens import sessions there; workers read ranges of the source,
verified, and write them as chunks of a session straight to the target's long-term storage; the
driver commits a session when all of it came. So a copy becomes visible in steps, in order, each
whole or not at all. A killed copy continues in the open session, after what was noted of it.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Final

from siltstone.container.models.imports import (
    ImportedChunk,
    ImportMode,
    ImportOutput,
    ImportSessionError,
    ImportTicket,
)
from siltstone.container.models.segments import SegmentInfo
from siltstone.core.constants import container_of
from siltstone.core.errors import (
    CapabilityError,
    SettingsError,
)
from siltstone.pipelines.copy_plan import (
    UNREADABLE,
    MissingRange,
    groups_of,
    problem_of,
    sessions_of,
)
from siltstone.pipelines.copy_starts import noted_differs, starts, target_info
from siltstone.pipelines.copy_work import CopyItem, CopyWork
from siltstone.pipelines.import_sessions import (
    NotedRanges,
    in_one_of_two,
    open_session,
    serves_repeat,
    session_name,
)
from siltstone.pipelines.owned_store import OwnedStore
from siltstone.pipelines.segment_ranges import plan_range
from siltstone.pipelines.store_view import StoreView
from siltstone.pipelines.work import (
    OK,
    SAME,
    Executor,
    ItemOutcome,
    PipelineError,
    packed,
)

LIFETIME_S: Final = 7 * 86_400.0
"""Of a session that is never ended; its chunks are deleted then."""


Came = dict[str, list[tuple[int, tuple[ImportedChunk, ...]]]]
"""Chunks of each segment, with the offset where they begin."""


def copy(
    view: StoreView,
    target: OwnedStore,
    executor: Executor,
    segments: Sequence[SegmentInfo],
    *,
    rate: int | None = None,
) -> Generator[ItemOutcome]:
    """Copy what the target lacks of ``segments``, and seal there what is sealed here.

    Args:
        view: the source; it stays open until the end.
        target: another store, which this job owns. Its segments keep the names.
        executor: where bytes are moved.
        segments: of the source, as ``view`` shows them.
        rate: bytes a second that are read at most; ``None`` means no limit.

    Yields:
        One outcome for each segment and step: ``ok`` with the bytes that became visible, ``same``
        where there was nothing to do, ``conflict``, ``unreadable`` or ``failed``.

    Raises:
        SettingsError: source and target are the same store.
        CapabilityError: the target writes a legacy layout; nothing was changed.
        PipelineError: the work could not be done as a whole.
        FencedError: another owner took the target over; what became visible stays.
    """
    if target.uuid == view.uuid:
        raise SettingsError("a store is not copied into itself")
    if any(target.loop.run(one.written_adoption()) is not None for one in target.containers):
        raise CapabilityError(
            "a store that writes a legacy layout takes no copies: finalise its migration first"
        )
    lacks: dict[int, list[MissingRange]] = {}
    done: list[SegmentInfo] = []
    for info, found in starts(view, target, segments):
        if isinstance(found, ItemOutcome):
            yield found
        elif found < info.length:
            index = container_of(info.name, len(target.containers))
            lacks.setdefault(index, []).append(
                MissingRange(info=info, start=found, stop=info.length)
            )
        else:
            done.append(info)
    for info in done:
        yield (
            ItemOutcome(subject=info.name, status=SAME)
            if _sealed(target, info)
            else ItemOutcome(subject=info.name, status=OK, message="sealed")
        )
    for index, some in lacks.items():
        spoilt: set[str] = set()
        for session in sessions_of(some):
            # After a part that failed nothing of that segment can become visible.
            left = [lack for lack in session if lack.info.name not in spoilt]
            bring = partial(_session, view, target, index, executor, left, rate)
            for outcome in _told(target, left, in_one_of_two(bring) if left else {}):
                if outcome.status != OK:
                    spoilt.add(outcome.subject)
                yield outcome


def lacking_bytes(view: StoreView, target: OwnedStore, segments: Sequence[SegmentInfo]) -> int:
    """Bytes that a copy would move now, about."""
    total = 0
    for info in segments:
        there = target_info(target, info.name)
        found = info.start_offset if there is None else problem_of(info, there, view.uuid)
        total += info.length - found if isinstance(found, int) else 0
    return total


def _sealed(target: OwnedStore, info: SegmentInfo) -> bool:
    """Seal the copy of a sealed segment, which is whole; whether there was nothing to do."""
    there = target_info(target, info.name)
    if not info.sealed or there is None or there.sealed:
        return True
    container = target.containers[container_of(info.name, len(target.containers))]
    target.loop.run(container.seal(info.name))
    return False


def _told(
    target: OwnedStore, lacks: Sequence[MissingRange], failures: Mapping[str, ItemOutcome]
) -> Iterator[ItemOutcome]:
    """What became of the parts of a session; seals the copies that are whole."""
    yield from failures.values()
    for lack in lacks:
        if lack.info.name not in failures:
            if lack.stop == lack.info.length:
                _sealed(target, lack.info)
            message = f"{lack.start} to {lack.stop}"
            length = lack.stop - lack.start
            yield ItemOutcome(subject=lack.info.name, status=OK, length=length, message=message)


def _session(
    view: StoreView,
    target: OwnedStore,
    index: int,
    executor: Executor,
    lacks: list[MissingRange],
    rate: int | None,
) -> dict[str, ItemOutcome]:
    """Copy what one session brings and lacks yet, and commit it; return what cannot come."""
    container = target.containers[index]
    parts = list(groups_of(lacks))
    opened, _ = open_session(
        session_name("copy", _facts(view, lacks)),
        lambda name: target.loop.run(container.imports.open(name, lifetime_s=LIFETIME_S)),
    )
    ticket = replace(opened, uuid=target.uuid)
    ranges = [(part.info.name, part.start, part.stop - part.start) for one in parts for part in one]
    try:
        with NotedRanges(target.path, ticket, ranges) as noted:
            if noted_differs(view, [lack.info for lack in lacks], noted):
                raise ImportSessionError(
                    "the source has other bytes now than were copied", session=ticket.name
                )
            came: Came = {}
            for (segment, start), chunks in noted.known.items():
                came.setdefault(segment, []).append((start, chunks))
            items = _items(view, ticket, parts, noted)
            work = CopyWork(
                source=view.path,
                uuid=view.uuid,
                target=target.path,
                target_uuid=target.uuid,
                rate=rate,
            )
            failures: dict[str, ItemOutcome] = {}
            if items:
                with closing(executor.run(work, packed(items, executor.workers))) as outcomes:
                    failures = _sort_out(outcomes, items, came, noted)
        outputs = [
            ImportOutput(
                segment=lack.info.name,
                chunks=_in_order(lack, came.get(lack.info.name, [])),
                mode=ImportMode.APPEND,
            )
            for lack in lacks
            if lack.info.name not in failures
        ]
        if outputs:
            target.loop.run(container.imports.commit(ticket.name, outputs))
        else:
            target.loop.run(container.imports.abort(ticket.name))
    except BaseException as error:
        if not serves_repeat(error) and not container.closed:
            target.loop.run(container.imports.abort(ticket.name))
        raise
    return failures


def _facts(view: StoreView, lacks: Sequence[MissingRange]) -> Iterator[object]:
    """What tells a session from any that brings other bytes."""
    yield view.uuid
    for lack in lacks:
        info = lack.info
        yield info.name, info.segment_id, view.lineage_of(info), lack.start, lack.stop


def _items(
    view: StoreView,
    ticket: ImportTicket,
    groups: Sequence[Sequence[MissingRange]],
    noted: NotedRanges,
) -> list[CopyItem]:
    """The tasks of a session, without what came before."""
    items = []
    for number, group in enumerate(groups):
        parts = tuple(
            plan_range(view, part.info, part.start, part.stop, part.stop)
            for part in group
            if (part.info.name, part.start) not in noted.known
        )
        if parts:
            items.append(CopyItem(ticket=ticket, number=number, parts=parts))
    return items


def _sort_out(
    outcomes: Iterable[ItemOutcome], items: Sequence[CopyItem], came: Came, noted: NotedRanges
) -> dict[str, ItemOutcome]:
    """Add chunks that come to those of their segment, note them; return segments that failed."""
    names = {item.subject: {part.segment for part in item.parts} for item in items}
    failures: dict[str, ItemOutcome] = {}
    for outcome in outcomes:
        if outcome.status != OK:
            for segment in names[outcome.subject]:
                failures[segment] = replace(outcome, subject=segment)
            continue
        for segment, start, chunks, problem in pickle.loads(outcome.detail):
            came.setdefault(segment, []).append((start, chunks))
            if problem:
                failures[segment] = ItemOutcome(subject=segment, status=UNREADABLE, message=problem)
            else:
                noted.add((segment, start), chunks)
    return failures


def _in_order(
    lack: MissingRange, came: Sequence[tuple[int, tuple[ImportedChunk, ...]]]
) -> tuple[ImportedChunk, ...]:
    """The chunks of a segment. Raises ``PipelineError`` unless they are all that was asked for."""
    chunks: list[ImportedChunk] = []
    position = lack.start
    for start, made in sorted(came, key=lambda one: one[0]):
        if start != position:
            break
        chunks += made
        position += sum(chunk.length for chunk in made)
    if position != lack.stop:
        raise PipelineError(
            "not all that was copied came back", segment=lack.info.name, offset=position
        )
    return tuple(chunks)
