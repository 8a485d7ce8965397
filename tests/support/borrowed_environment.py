"""The environment of a world or a process, lent to what closes its own."""

from __future__ import annotations

from siltstone.core.environment import Environment


class BorrowedEnvironment:
    """An environment that stays open when it is closed."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __getattr__(self, name: str) -> object:
        return getattr(self._environment, name)

    def close(self) -> None:
        """Nothing: its owner closes it."""
