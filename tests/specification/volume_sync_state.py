"""States of the machine in ``volume_sync``, and what is true in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

IDLE, UPLOAD, NOTE, CREATE, TAKEN, FINISH = range(6)
WORDS = (
    "idle",
    "uploads a bundle",
    "notes its push",
    "creates the record",
    "reads what took the name",
    "ends its push",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRules:
    """The rules of the protocol; each can be taken out."""

    end_noted: bool = True
    noted_before_create: bool = True
    note_synced: bool = True
    name_filled: bool = True
    unknown_upload_repeated: bool = True
    names_burnt: bool = True
    accept_waits: bool = True
    accept_checks_queue: bool = True
    reset_waits: bool = True
    marks_passed: bool = True
    only_marks_passed: bool = True
    records_stay: bool = True
    records_compared: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncBounds:
    """How much may happen."""

    clients: int = 2
    lite: int = 0
    commits: int = 2
    uploads: int = 2
    unknown: int = 1
    marks: int = 0
    cuts: int = 0
    """Times that a machine loses power; if any, commits are synced by pushes and pulls alone."""


class Record(NamedTuple):
    """A commit record: the local commits that it publishes, none for a mark, and its bundle."""

    commits: tuple[int, ...]
    bundle: int = 0


MARK = Record(())


class Push(NamedTuple):
    """A push whose record is made: its remote LSN, how many commits, and whether that is noted."""

    target: int
    end: int
    record: Record
    noted: bool


class Client(NamedTuple):
    """What one client knows and is about. Local LSNs are counted from that of the mapping."""

    at: int = IDLE
    remote: int = 0
    """The remote LSN of the mapping."""
    known: int = 0
    """The newest remote LSN whose record is here."""
    base: tuple[int, ...] = ()
    """The commits that the volume has at the mapping."""
    queue: tuple[int, ...] = ()
    """Those after it, each acknowledged to the application."""
    pending: int = 0
    """The watermark ``pending_sync``: so many of the queue are being pushed."""
    push: Push | None = None
    bundle: int = 0
    """The one that was uploaded and is in no record yet."""
    durable: int = 0
    """So many of the queue outlive a loss of power; 0 where power is not lost."""


class Late(NamedTuple):
    """A create that was not answered and may have its effect yet: of a bundle if ``lsn`` is 0."""

    lsn: int
    record: Record


class State(NamedTuple):
    """Everything."""

    log: tuple[Record, ...]
    freed: int
    """So many of the oldest records were deleted; only without the rule that they stay."""
    bundles: tuple[Record, ...]
    """The name of each, and the commits whose bytes it has."""
    late: tuple[Late, ...]
    refused: tuple[Late, ...]
    """Those of them of which a client was told that they are not, or will not be, published."""
    given_up: tuple[int, ...]
    """Commits that a reset gave up, that a loss of power took, or that were refused at once."""
    clients: tuple[Client, ...]
    left: tuple[int, ...]


@lru_cache(maxsize=1 << 17)
def contents(log: tuple[Record, ...]) -> tuple[int, ...]:
    """What the volume has after the records of a log."""
    return tuple(commit for record in log for commit in record.commits)


@lru_cache(maxsize=1 << 17)
def wrong_bundle(log: tuple[Record, ...], bundles: tuple[Record, ...]) -> str:
    """Which record names what is not there, or bytes of others; empty if none does."""
    for lsn, record in enumerate(log, 1):
        if record.commits and record not in bundles:
            return f"record {lsn} names bundle {record.bundle}, which has not its bytes"
    return ""


def with_bundle(bundles: tuple[Record, ...], bundle: Record) -> tuple[Record, ...]:
    """The bundles after the create of one; one of the same name stays as it is."""
    if any(other.bundle == bundle.bundle for other in bundles):
        return bundles
    return tuple(sorted((*bundles, bundle), key=lambda one: one.bundle))


def sorted_commits(commits: Iterable[int]) -> tuple[int, ...]:
    """A set of commits, as states have it."""
    return tuple(sorted(set(commits)))


def sorted_late(late: Iterable[Late]) -> tuple[Late, ...]:
    """A set of creates, as states have it."""
    return tuple(sorted(late))


def shown(state: State) -> dict[str, object]:
    """The state for a reader of a trace."""
    parts: dict[str, object] = {
        "log": " ".join(map(_record, state.log)) or "-",
        "bundles": " ".join(map(_record, state.bundles)) or "-",
        "may land late": " ".join(f"{lsn}:{_record(record)}" for lsn, record in state.late) or "-",
        "given up": state.given_up,
    }
    for number, client in enumerate(state.clients, 1):
        push = client.push
        noted = "" if push is None else f", push of {push.end} to {push.target}"
        parts[f"client {number}"] = (
            f"{WORDS[client.at]}, has {client.base} of remote {client.remote} and {client.queue}, "
            f"knows {client.known}, pending {client.pending}, durable {client.durable}{noted}"
        )
    return parts


def _record(record: Record) -> str:
    return f"{list(record.commits)}#{record.bundle}" if record.commits else "mark"
