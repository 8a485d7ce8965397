"""States of the machine in ``chunk_life``, and what the rows of a table version say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

APPEND, RESERVE, COMMIT, DROP, TASK, STATED = range(6)
WORDS = (
    "append",
    "reserve id",
    "commit chunk",
    "drop chunk",
    "task for chunk",
    "state deletion of",
)

UNBORN, OPEN, DEAD = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRules:
    """The rules of the protocol; each can be taken out."""

    ids_reserved: bool = True
    bytes_before_commit: bool = True
    names_burnt: bool = True
    not_written_after_unknown: bool = True
    own_epoch_only: bool = True
    unknown_append_ends_owner: bool = True
    log_fenced: bool = True
    drop_covered: bool = True
    deletion_stated: bool = True
    pins_kept: bool = True
    pin_before_open: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkBounds:
    """How much may happen."""

    owners: int = 2
    appends: int = 2
    writes: int = 2
    drops: int = 1
    unknown: int = 1
    pins: int = 0


class Frame(NamedTuple):
    """A record in the log: its kind, a chunk id, and up to which append the chunk then reaches."""

    kind: int
    chunk: int = 0
    end: int = 0
    epoch: int = 0


class Chunk(NamedTuple):
    """A file on long-term storage: the appends that it holds, counted from the first."""

    number: int
    epoch: int
    start: int
    end: int
    there: bool = True
    doubt: bool = False
    """An append to it has an unknown outcome."""


class Owner(NamedTuple):
    """What one owner knows and is about."""

    at: int = UNBORN
    known: int = 0
    unseen: int = -1
    """A frame of its own that it takes for lost; only without the rule that ends it then."""
    reserved: int = 0
    chunk: int = 0
    """The chunk that it may append to."""
    written: tuple[int, int] = (0, 0)
    """A chunk that holds more than rows say, and up to which append."""
    abandoned: int = 0
    covered: int = 0
    """Table version that it brought to long-term storage."""
    deleting: int = 0
    stated: bool = False


class Reader(NamedTuple):
    """A reader without a claim: the version that it pinned, and the one that it opened."""

    pin: int = -1
    opened: int = -1


class State(NamedTuple):
    """Everything. Owner i has epoch i."""

    log: tuple[Frame, ...]
    acknowledged: int
    fence: int
    covered: int
    """The table log on long-term storage reaches so far."""
    chunks: tuple[Chunk, ...]
    late: tuple[Chunk, ...]
    """Creates without an answer that may still take effect."""
    used: tuple[int, ...]
    """Ids under which an owner began to make a chunk."""
    owners: tuple[Owner, ...]
    reader: Reader
    left: tuple[int, ...]
    """Appends, writes, drops, unknown outcomes, pins that may still happen."""


class Rows(NamedTuple):
    """The rows at one version."""

    appends: int
    start: int
    flushed: int
    named: tuple[tuple[int, int], ...]
    """(chunk, its committed end), in order."""
    tasks: tuple[tuple[int, int], ...]
    """(chunk, the version that made it garbage)."""
    reserved: int


@lru_cache(maxsize=1 << 17)
def rows_of(log: tuple[Frame, ...], unseen: int = -1) -> Rows:
    """What the frames say; ``unseen`` is left out."""
    appends = start = flushed = reserved = 0
    named: dict[int, int] = {}
    tasks: dict[int, int] = {}
    for index, frame in enumerate(log):
        if index == unseen:
            continue
        if frame.kind == APPEND:
            appends += 1
        elif frame.kind == RESERVE:
            reserved = max(reserved, frame.chunk)
        elif frame.kind == COMMIT:
            named[frame.chunk] = flushed = frame.end
        elif frame.kind == DROP:
            start = named.pop(frame.chunk)
            tasks[frame.chunk] = index + 1
        elif frame.kind == TASK:
            tasks[frame.chunk] = index + 1
    return Rows(appends, start, flushed, tuple(named.items()), tuple(tasks.items()), reserved)


def lost(chunks: tuple[Chunk, ...], rows: Rows) -> str:
    """Why what the rows name cannot be read; empty if it can."""
    for number, end in rows.named:
        if not any(c.number == number and c.there and c.end >= end for c in chunks):
            return f"chunk {number} does not hold all appends below {end}"
    return ""


def shown(state: State) -> dict[str, object]:
    """The state for a reader of a trace."""
    parts: dict[str, object] = {
        "log": "; ".join(map(_frame, state.log)) or "-",
        "table log": f"on long-term storage up to {state.covered}",
    }
    for chunk in state.chunks:
        there = f"appends [{chunk.start}, {chunk.end})" if chunk.there else "gone"
        parts[f"chunk {chunk.number} of epoch {chunk.epoch}"] = there
    for epoch, owner in enumerate(state.owners, 1):
        at = ("not begun", "open", "dead")[owner.at]
        parts[f"owner {epoch}"] = (
            f"{at}, knows {owner.known} frames, writes to chunk {owner.chunk}, "
            f"not committed {owner.written[0]}, abandoned {owner.abandoned}"
        )
    if state.reader != Reader():
        parts["reader"] = f"pinned {state.reader.pin}, opened {state.reader.opened}"
    return parts


def _frame(frame: Frame) -> str:
    tail = f" to {frame.end}" if frame.kind == COMMIT else ""
    chunk = f" {frame.chunk}" if frame.chunk else ""
    return f"{WORDS[frame.kind]}{chunk}{tail}"
