"""States of the machine in ``object_entries``, and what is true in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

NEW, BEGIN, IDLE, CREATE, SEEN, STAT, NEXT, PROVE, LIST, HEAD, BACK, CUT, DEAD = range(13)
WORDS = (
    "knows nothing",
    "begins",
    "idle",
    "creates",
    "reads what took its name",
    "looks at the anchor after a create",
    "reads the next entry",
    "looks at the anchor after reads",
    "lists",
    "reads the newest",
    "reads back",
    "truncates",
    "dead",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRules:
    """The rules of the protocol; each can be taken out."""

    anchor_after_create: bool = True
    anchor_after_reads: bool = True
    anchor_after_absence: bool = True
    rollups_before_entries: bool = True
    first_entry_stays: bool = True
    opens_after_begin: bool = True
    anchor_before_entry: bool = True
    newest_keeps_anchor: bool = True
    token_compared: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryBounds:
    """How much may happen."""

    processes: int = 2
    begins: int = 1
    commits: int = 2
    links: int = 1
    cuts: int = 1
    unknown: int = 1
    refreshes: int = 1
    opens: int = 1
    ready: int = 0
    """1: the collection is begun, and each process knows it."""


class Rollup(NamedTuple):
    """A rollup: the seqno of its state, and what makes its name its own."""

    seqno: int
    nonce: int


class Entry(NamedTuple):
    """What one create puts under the name of its seqno. No two creates have one token."""

    seqno: int
    token: int
    anchor: Rollup
    link: Rollup | None

    def __hash__(self) -> int:
        return self.token  # which tells entries of one state apart


class Process(NamedTuple):
    """What one process knows and is about.

    A state that it took is a beginning of the truth, or a violation was seen: so its seqno is all
    that has to be kept of it.
    """

    at: int = NEW
    seqno: int = 0
    aim: Entry | None = None
    """What it wants to commit, until it knows what came of it."""
    seen: tuple[Entry, ...] = ()
    """Entries that it read, the oldest first; of a listing, those that were there as it began."""
    begun: int = 0
    """How many entries there were when its call began; of a truncation, the seqno of its floor."""


class State(NamedTuple):
    """Everything."""

    truth: tuple[Entry, ...]
    """The entries that count: each was created under a name that was never freed."""
    entries: tuple[Entry, ...]
    """The objects that are there, in the order of their names."""
    rollups: tuple[Rollup, ...]
    late: tuple[Entry, ...]
    """Creates that were not answered and may still have their effect."""
    refused: tuple[Entry, ...]
    """Those of them of which a process was told that they never will."""
    processes: tuple[Process, ...]
    left: tuple[int, ...]


def anchor_at(truth: tuple[Entry, ...], seqno: int) -> Rollup:
    """The newest rollup that the state of a seqno names."""
    return truth[seqno - 1].link or truth[seqno - 1].anchor


def linked(truth: tuple[Entry, ...], seqno: int) -> list[Rollup]:
    """All rollups that the state of a seqno may name, the oldest first."""
    return [truth[0].anchor, *(entry.link for entry in truth[:seqno] if entry.link is not None)]


def under(state: State, seqno: int) -> Entry | None:
    """What is under the name of a seqno."""
    return next((entry for entry in state.entries if entry.seqno == seqno), None)


def stuck(state: State) -> str:
    """Why nothing could open the collection; empty if something could."""
    if not state.truth:
        return ""
    newest = state.truth[-1]
    if newest.anchor not in state.rollups:
        return f"the newest entry, {newest.seqno}, names rollup {newest.anchor}, which is gone"
    for entry in state.truth[newest.anchor.seqno :]:
        if entry not in state.entries:
            return f"entry {entry.seqno} is gone, and the newest rollup does not reach it"
    return ""


def shown(state: State) -> dict[str, object]:
    """The state for a reader of a trace."""
    parts: dict[str, object] = {
        "the truth": _list(state.truth),
        "entries": _list(state.entries),
        "rollups": " ".join(f"{seqno}#{nonce}" for seqno, nonce in state.rollups) or "-",
        "may land late": _list(state.late),
    }
    for number, process in enumerate(state.processes, 1):
        parts[f"process {number}"] = (
            f"{WORDS[process.at]}, knows {process.seqno}, saw {_list(process.seen)}, "
            f"wants {_list(() if process.aim is None else (process.aim,))}"
        )
    return parts


def _list(entries: tuple[Entry, ...]) -> str:
    return " ".join(map(_entry, entries)) or "-"


def _entry(entry: Entry) -> str:
    link = "" if entry.link is None else f" links {entry.link.seqno}#{entry.link.nonce}"
    return f"[{entry.seqno}#{entry.token} on {entry.anchor.seqno}#{entry.anchor.nonce}{link}]"
