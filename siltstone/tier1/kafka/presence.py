"""Who a claimant is, and whether a claimant of this machine is still there. It fences no owner.

Process ids mean the same processes where boot and namespace are the same, on one machine and
outside of another container; there the end of a process shows at once.
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from dataclasses import dataclass
from enum import Enum

from siltstone.tier1.kafka.claim_record import HOST_BYTES, ClaimRecord

BOOT_ID = "/proc/sys/kernel/random/boot_id"
STARTED_FIELD = 19
"""Of ``/proc/PID/stat`` after the name, which may hold anything."""


class Presence(Enum):
    """What this machine can tell of a claimant. ``UNKNOWN``: ask for its heartbeat."""

    HERE = "here"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process, told from all others: see ``ClaimRecord``."""

    host: bytes
    pid: int
    started: int


def this_process() -> Process:
    """The process that asks."""
    with open(BOOT_ID, "rb") as file:
        boot = file.read()
    namespace = os.readlink("/proc/self/ns/pid").encode()
    host = hashlib.blake2b(boot + namespace, digest_size=HOST_BYTES).digest()
    pid = os.getpid()
    return Process(host=host, pid=pid, started=_started(pid) or 0)


def _started(pid: int) -> int | None:
    """When a process was started; ``None`` when there is none, or one that has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[STARTED_FIELD])


class Holders:
    """The handles of this process that hold a log, by the nonces of their claims. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: weakref.WeakValueDictionary[bytes, object] = weakref.WeakValueDictionary()

    def add(self, nonce: bytes, handle: object) -> None:
        """``handle`` holds its log from here on, until it is removed or gone."""
        with self._lock:
            self._held[nonce] = handle

    def remove(self, nonce: bytes) -> None:
        """It no longer holds it. Idempotent."""
        with self._lock:
            self._held.pop(nonce, None)

    def has(self, nonce: bytes) -> bool:
        """Whether a handle of this process made the claim and still holds the log."""
        with self._lock:
            return nonce in self._held


HOLDERS = Holders()


def presence(record: ClaimRecord, here: Process) -> Presence:
    """Whether the process that made a claim is still there, as far as this machine knows."""
    if record.host != here.host:
        return Presence.UNKNOWN
    if (record.pid, record.started) == (here.pid, here.started):
        return Presence.HERE if HOLDERS.has(record.nonce) else Presence.GONE
    return Presence.UNKNOWN if _started(record.pid) == record.started else Presence.GONE
