"""States of the machine in ``volume_garbage``, and what is true in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

COMMIT, MARK, FORK, FIRST = range(4)

IDLE, UPLOAD, CREATE, BRANCH, BEGIN = range(5)
WORDS = (
    "idle",
    "uploads a bundle",
    "creates its record",
    "creates a fork mark",
    "creates the first record of its fork",
)

REST, LIST, PUT, READ, DELETE, DONE = range(6)
COLLECTOR_WORDS = ("at rest", "lists bundles", "puts a mark", "reads logs", "deletes", "done")

PAGES = 2

Bundle = tuple[int, int]
"""The log in whose folder it is, and its number."""

NO_BUNDLE: Bundle = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageRules:
    """The rules of the protocol; each can be taken out."""

    spares_below_mark: bool = True
    marks_all_first: bool = True
    lists_before_mark: bool = True
    marked_logs_only: bool = True
    uploads_anew: bool = True
    fork_marked: bool = True
    fork_mark_keeps: bool = True
    fork_above_horizon: bool = True
    horizon_looked_at_again: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageBounds:
    """How much may happen."""

    clients: int = 2
    collectors: int = 1
    pushes: int = 2
    forks: int = 1
    unknown: int = 1
    lists: int = 0
    """1: a mark also says what was listed, and a push that is not in it need not upload again."""


class Record(NamedTuple):
    """A record of a log.

    A commit has a page and its bundle; a collection mark, in ``lsn``, the oldest remote LSN that is
    kept, and what was listed; a fork mark the new log, and at which LSN; the first record of a fork
    the same of its source.
    """

    kind: int
    page: int = 0
    bundle: Bundle = NO_BUNDLE
    lsn: int = 0
    log: int = 0
    listed: tuple[Bundle, ...] = ()


class Client(NamedTuple):
    """What one client knows and is about."""

    at: int = IDLE
    log: int = 0
    known: int = 0
    """The remote LSN up to which it has read the log."""
    page: int = 0
    bundle: Bundle = NO_BUNDLE
    fork: int = 0
    """The log that it makes."""
    lsn: int = 0
    """Of its own log, where the fork begins."""


class Marked(NamedTuple):
    """A log that a collector marks."""

    log: int
    horizon: int = 0
    listed: tuple[Bundle, ...] = ()
    """The bundles in its folder before the mark was put."""
    mark: int = 0
    """The LSN of the mark."""


class Collector(NamedTuple):
    """What one collector knows and is about."""

    at: int = REST
    logs: tuple[Marked, ...] = ()
    next: int = 0
    """The index of the log that is to be marked."""
    doomed: tuple[Bundle, ...] = ()


class Late(NamedTuple):
    """A create that was not answered and may have its effect yet."""

    log: int
    lsn: int
    record: Record


Logs = tuple[tuple[Record, ...], ...]


class State(NamedTuple):
    """Everything."""

    logs: Logs
    """The records of each log; none before it is born."""
    bundles: tuple[Bundle, ...]
    """Those that are there, sorted."""
    numbers: int
    """So many bundles were uploaded so far."""
    late: tuple[Late, ...]
    clients: tuple[Client, ...]
    collectors: tuple[Collector, ...]
    left: tuple[int, ...]


@lru_cache(maxsize=1 << 16)
def pages_at(logs: Logs, log: int, lsn: int) -> tuple[Bundle, ...]:
    """The bundle of each page of a log at a remote LSN."""
    pages = [NO_BUNDLE] * PAGES
    for record in logs[log][:lsn]:
        if record.kind == FIRST:
            pages = list(pages_at(logs, record.log, record.lsn))
        elif record.kind == COMMIT:
            pages[record.page] = record.bundle
    return tuple(pages)


def named(logs: Logs, log: int, first: int, last: int) -> set[Bundle]:
    """The bundles that a log needs for its states at the remote LSNs [first, last]."""
    found = {bundle for lsn in range(first, last + 1) for bundle in pages_at(logs, log, lsn)}
    return found - {NO_BUNDLE}


def horizon(records: tuple[Record, ...]) -> int:
    """The oldest remote LSN that the marks among records keep."""
    return max((record.lsn for record in records if record.kind == MARK), default=1)


@lru_cache(maxsize=1 << 16)
def lacking(logs: Logs, bundles: tuple[Bundle, ...]) -> str:
    """What a log names at or above its horizon and is gone; empty if all of it is there."""
    for log, records in enumerate(logs):
        gone = named(logs, log, horizon(records), len(records)).difference(bundles)
        if gone:
            return f"log {log} names bundles {sorted(gone)}, which are gone"
    return ""


def shown(state: State) -> dict[str, object]:
    """The state for a reader of a trace."""
    parts: dict[str, object] = {}
    for log, records in enumerate(state.logs):
        parts[f"log {log}"] = " ".join(map(_record, records)) or "-"
    parts["bundles"] = " ".join(map(_bundle, state.bundles)) or "-"
    parts["may land late"] = (
        " ".join(f"{log}:{lsn}:{_record(record)}" for log, lsn, record in state.late) or "-"
    )
    for number, client in enumerate(state.clients, 1):
        parts[f"client {number}"] = (
            f"{WORDS[client.at]}, follows log {client.log} to {client.known}, "
            f"bundle {_bundle(client.bundle)}, fork {client.fork} at {client.lsn}"
        )
    for number, collector in enumerate(state.collectors, 1):
        logs = ", ".join(
            f"log {one.log} from {one.horizon}, mark {one.mark}, "
            f"listed {' '.join(map(_bundle, one.listed))}"
            for one in collector.logs
        )
        doomed = " ".join(map(_bundle, collector.doomed))
        parts[f"collector {number}"] = f"{COLLECTOR_WORDS[collector.at]}; {logs}; doomed {doomed}"
    return parts


def _bundle(bundle: Bundle) -> str:
    return f"{bundle[0]}/{bundle[1]}"


def _record(record: Record) -> str:
    if record.kind == COMMIT:
        return f"[page {record.page} in {_bundle(record.bundle)}]"
    if record.kind == MARK:
        return f"[mark, keeps from {record.lsn}]"
    what = "fork mark of log" if record.kind == FORK else "begins at log"
    return f"[{what} {record.log} at {record.lsn}]"
