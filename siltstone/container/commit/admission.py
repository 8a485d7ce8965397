"""Whether the owner of a container takes work: not after its end, nor while there is no room."""

from __future__ import annotations

from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.commit.joint_gate import JointGate
from siltstone.core.environment import Environment
from siltstone.core.errors import ClosedError, FencedError, SiltstoneError, StorageFullError

FULL_PAUSE_S = 1.0


class Admission:
    """What a pipeline takes at the moment; a part of ``Pipeline``.

    Attributes:
        accepting: whether the hot path may add to the batch; false after a failure and while tier 1
            is full.
        failure: why the container closed, if it did.
        joint_gate: what joint commits pass before they are assigned.
    """

    def __init__(self, environment: Environment, table_pressure: Pressure) -> None:
        self.accepting = True
        self.failure: SiltstoneError | None = None
        self.joint_gate = JointGate()
        self._environment = environment
        self._table_pressure = table_pressure
        self._full_until = 0.0
        self._full = ""

    @property
    def admits(self) -> bool:
        """Whether users may add to the tables without waiting; see ``admit_update``."""
        return self.accepting and self._table_pressure.open

    async def admit_update(self) -> None:
        """Wait until users may add to the tables.

        Raises:
            BackPressureError: the deadline passed.
        """
        self.check_open()
        await self._table_pressure.admit(0)
        self.check_open()

    def check_alive(self) -> None:
        """Refuse all work after a failure. Work that frees space asks only this."""
        if self.failure is not None:
            raise self.closed_error()

    def check_open(self) -> None:
        """Refuse work for users after a failure, and for a moment after tier 1 was full."""
        self.check_alive()
        if not self.accepting:
            if self._environment.monotonic() < self._full_until:
                raise StorageFullError(self._full)
            self.accepting = True

    def closed_error(self) -> SiltstoneError:
        """What a call after the end of this owner gets."""
        if isinstance(self.failure, FencedError):
            return FencedError(str(self.failure))
        return ClosedError(f"container is closed: {self.failure}")

    def pause(self, reason: str) -> None:
        """Refuse work for users for a moment: tier 1 has no room. They are told ``reason``."""
        self.accepting, self._full = False, reason
        self._full_until = self._environment.monotonic() + FULL_PAUSE_S

    def shut(self) -> None:
        """Refuse everything from now on: the container was closed."""
        self.accepting = False
        self.failure = self.failure or ClosedError("container is closed")
        self.joint_gate.release()
