"""What the services do to those who call them: how long a call takes, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from siltstone.core.environment import Pool
from siltstone.core.errors import LogError, StorageFullError
from siltstone.testing.faults.faulty_chunk_storage import Fate, StorageCall
from siltstone.testing.faults.faulty_fenced_log import Fault
from tests.support.simulation.processes import Delays

FAILURES = (Fate.REFUSED, Fate.LOST_REPLY, Fate.LOST_CALL, Fate.TORN)
LOG_FAULTS = (
    ("lost reply", True, LogError),
    ("lost call", False, LogError),
    ("full", False, StorageFullError),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Climate:
    """How the services are for a while.

    Attributes:
        storage_fault: share of the calls to long-term storage that fail.
        log_fault: share of the appends, claims and truncations of the log that fail.
        storage_s: most seconds of a usual call to long-term storage.
        log_s: the same of the log.
        hang: share of the calls to long-term storage that take much longer than their deadline.
    """

    storage_fault: float = 0.0
    log_fault: float = 0.0
    storage_s: float = 0.05
    log_s: float = 0.005
    hang: float = 0.0


CALM = Climate()
CLIMATES = (
    CALM,
    CALM,
    Climate(storage_s=1.0, log_s=0.05),
    Climate(storage_fault=0.03, storage_s=0.3),
    Climate(storage_fault=0.15, storage_s=0.1, hang=0.02),
    Climate(storage_fault=0.02, log_fault=0.02, log_s=0.1),
    Climate(storage_fault=0.5, storage_s=2.0, hang=0.1),
    Climate(storage_fault=1.0),
)


class Weather:
    """Decides over every call of every process.

    Attributes:
        chance: of its own.
        climate: how the services are now.
        failures: how many calls it let fail, or hang.
    """

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.climate = CALM
        self.failures = 0

    def change(self) -> None:
        """Another climate from now on."""
        self.climate = self.chance.choice(CLIMATES)

    def delays(self, pool: Pool, chance: Random) -> Delays:
        """See ``Process``."""
        climate = self.climate
        most = 0.001
        if pool.name.startswith("chunks-"):
            if climate.hang and chance.random() < climate.hang:
                self.failures += 1
                return Delays(before_s=30 * chance.random(), after_s=30 * chance.random())
            most = climate.storage_s
        elif pool.name.startswith("log-"):
            most = climate.log_s
        before, after = chance.random(), chance.random()
        return Delays(before_s=most * before**3, after_s=most * after**3)

    def outlives(self, pool: Pool) -> bool:
        """A request may reach a service although its sender is dead; nothing local does."""
        return pool.name.startswith("chunks-") and self.chance.random() < 0.5

    def fate(self, call: StorageCall) -> Fate:
        """See ``FaultyChunkStorage.plan``."""
        fault = self.climate.storage_fault
        if fault and self.chance.random() < fault:
            self.failures += 1
            return self.chance.choice(FAILURES)
        return Fate.DONE

    def log_fault(self, method: str) -> tuple[str, Fault] | None:
        """What goes wrong with a call of a log, if anything."""
        fault = self.climate.log_fault
        if not fault or self.chance.random() >= fault:
            return None
        name, applied, kind = self.chance.choice(LOG_FAULTS)
        if kind is StorageFullError and method != "append":
            return None
        self.failures += 1
        return name, Fault(applied=applied, error=kind(f"injected: {name}"))
