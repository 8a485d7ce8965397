"""What a sweep makes of a page of a listing: a pure plan.

An owner creates chunks in its own epoch only, and an epoch that ended commits nothing any more. So
what lies in a closed epoch and has no row now will never have one; only its age, and a task that
is to delete it already, keep it. Whether a name is ours is decided by all of it: the prefix, the
form, the id, and that no row knows the id under another name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from siltstone.container.models.garbage import SweepFinding
from siltstone.core.chunk_names import data_prefix
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.epoch_row import EpochRow

YOUNG_S = 24 * 3600.0
"""What nothing names is kept this long: a person may still want to look at it."""
SWEPT_AFTER_MS = 7 * 24 * 3600 * 1000
"""An epoch is passed over for good no earlier than this after its end."""
CLEAN_LISTINGS = 2

_FOLDER = re.compile(r"e([0-9]{20})/")
_CHUNK = re.compile(r"e([0-9]{20})/(?:[A-Za-z0-9_-]+/)+[0-9]{20}-([0-9a-f]{16})\.chunk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a sweep compares names with.

    Attributes:
        container: its index.
        epoch: of the owner; only older ones are closed.
        next_chunk_id: ids from here on were never given.
        chunk: the row of a chunk id, acknowledged or assigned.
        epoch_row: what is known of an epoch.
        now_s: seconds since 1970, by the clock of storage.
        all_epochs: look into swept epochs as well.
    """

    container: int
    epoch: int
    next_chunk_id: int
    chunk: Callable[[int], Chunk | None]
    epoch_row: Callable[[int], EpochRow | None]
    now_s: float
    all_epochs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnamed:
    """A chunk of a closed epoch that no row names.

    Attributes:
        chunk_id: its id, from its name.
        stat: what the service says of it.
    """

    chunk_id: int
    stat: ChunkStat


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPage:
    """What a page of a listing holds.

    Attributes:
        old: unnamed and old enough to go.
        young: unnamed and too young.
        foreign: not ours, each with the reason; never touched.
        epochs: closed epochs in the order in which they came, each with the names that no row has.
        cursor: the key to continue after; ``None`` when all closed epochs are listed.
        unfinished: the epoch in which the page ends, if more of it may follow.
    """

    old: tuple[Unnamed, ...]
    young: tuple[Unnamed, ...]
    foreign: tuple[tuple[ChunkStat, str], ...]
    epochs: tuple[tuple[int, int], ...]
    cursor: str | None
    unfinished: int | None


def chunk_name_parts(name: str, container: int) -> tuple[int, int] | None:
    """Epoch and chunk id of the name of a data chunk; ``None`` when it is not of that form."""
    prefix = data_prefix(container)
    match = _CHUNK.fullmatch(name, len(prefix)) if name.startswith(prefix) else None
    return None if match is None else (int(match[1]), int(match[2], 16))


def epoch_under(name: str, container: int) -> int | None:
    """The epoch whose folder a key lies in, whatever else it is; ``None`` outside of all."""
    match = _FOLDER.match(name, len(data_prefix(container)))
    return None if match is None else int(match[1])


def behind_epoch(container: int, epoch: int) -> str:
    """A key after every chunk of ``epoch`` and before those of the next one."""
    return f"{data_prefix(container)}e{epoch:020d}0"


def plan_page(page: Sequence[ChunkStat], known: Known, *, full: bool) -> SweepPage:
    """Plan what to do with one page.

    Args:
        page: in the order of the listing.
        known: see there.
        full: more names may follow the page.
    """
    old: list[Unnamed] = []
    young: list[Unnamed] = []
    foreign: list[tuple[ChunkStat, str]] = []
    epochs: dict[int, int] = {}
    cursor = page[-1].name if page and full else None
    for stat in page:
        parts = chunk_name_parts(stat.name, known.container)
        if parts is None:
            foreign.append((stat, "not the name of a chunk"))
            continue
        epoch, chunk_id = parts
        if epoch >= known.epoch:
            cursor = None
            break
        row = known.epoch_row(epoch)
        if row is not None and row.swept and not known.all_epochs:
            if cursor is not None:
                cursor = max(cursor, behind_epoch(known.container, epoch))
            continue
        epochs.setdefault(epoch, 0)
        chunk = known.chunk(chunk_id)
        if chunk is not None:
            if chunk.name != stat.name:
                foreign.append((stat, f"its id is that of {chunk.name}"))
        elif chunk_id >= known.next_chunk_id:
            foreign.append((stat, "its id was never given"))
        else:
            epochs[epoch] += 1
            aged = _is_aged(stat.modified_s, row, known.now_s)
            (old if aged else young).append(Unnamed(chunk_id=chunk_id, stat=stat))
    return SweepPage(
        old=tuple(old),
        young=tuple(young),
        foreign=tuple(foreign),
        epochs=tuple(epochs.items()),
        cursor=cursor,
        unfinished=None if cursor is None else epoch_under(cursor, known.container),
    )


def _is_aged(modified_s: float, row: EpochRow | None, now_s: float) -> bool:
    """Whether a chunk that nothing names is old enough to go.

    A service that does not tell the time has young chunks only: nothing else tells it. A time in
    the future tells as little; such a chunk is no younger than what is known of its epoch.
    """
    if modified_s > now_s + YOUNG_S:
        modified_s = 0.0 if row is None else row.closed_ms / 1000
    return 0 < modified_s <= now_s - YOUNG_S


def plan_epochs(
    page: SweepPage,
    epoch_row: Callable[[int], EpochRow | None],
    listing: int | None,
    now_ms: int,
) -> list[EpochRow]:
    """Plan the rows of the epochs of a page.

    Args:
        page: the plan of the page.
        epoch_row: what is known of an epoch.
        listing: the epoch whose listing the page before left unfinished; ``None`` without.
        now_ms: milliseconds since 1970.
    """
    rows: list[EpochRow] = []
    found = dict(page.epochs)
    if listing is not None:
        found.setdefault(listing, 0)
    for epoch, count in sorted(found.items()):
        row = epoch_row(epoch) or EpochRow(epoch=epoch, closed_ms=now_ms)
        # An end that is yet to come is from a clock that was ahead.
        row = replace(row, closed_ms=min(row.closed_ms, now_ms))
        if epoch != listing:
            row = replace(row, found=False)
        row = replace(row, found=row.found or count > 0)
        rows.append(row if epoch == page.unfinished else _listed(row, now_ms))
    return rows


def _listed(row: EpochRow, now_ms: int) -> EpochRow:
    """The row of an epoch whose listing has ended."""
    clean = 0 if row.found else row.clean + 1
    swept = clean >= CLEAN_LISTINGS and now_ms - row.closed_ms >= SWEPT_AFTER_MS
    return replace(row, listed_ms=now_ms, clean=clean, found=False, swept=swept)


def findings(page: SweepPage, waiting: Collection[int]) -> list[SweepFinding]:
    """What a person is told of a page; ``waiting`` are chunk ids that a task is to delete."""
    told = [SweepFinding.of("foreign", stat, reason) for stat, reason in page.foreign]
    kept = "nothing names it; it is kept for 24 hours"
    told += [SweepFinding.of("young", unnamed.stat, kept) for unnamed in page.young]
    for unnamed in page.old:
        if unnamed.chunk_id in waiting:
            told.append(SweepFinding.of("waiting", unnamed.stat, "a task is to delete it"))
        else:
            told.append(SweepFinding.of("garbage", unnamed.stat, "nothing names it"))
    return told
