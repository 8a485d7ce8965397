"""What the machines of several owners share: how a state becomes the next one."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from tests.specification.search import Interner


class OwnedState(Protocol):
    """A named tuple with owners, and with counts of what may still happen."""

    @property
    def owners(self) -> tuple[Any, ...]: ...
    @property
    def left(self) -> tuple[int, ...]: ...
    def _replace(self, *args: Any, **parts: Any) -> Any: ...


S = TypeVar("S", bound=OwnedState)


class OwnedMachine:
    """Makes states of which equal parts are kept once. Owners count from 1."""

    def __init__(self) -> None:
        self._kept = Interner()

    def _with(self, state: S, number: int, owner: Any, **parts: Any) -> S:
        """The state with another owner, and other parts."""
        owners = state.owners
        owners = (*owners[: number - 1], self._kept("owner", owner), *owners[number:])
        return self._parts(state, owners=owners, **parts)

    def _parts(self, state: S, **parts: Any) -> S:
        """The state with other parts."""
        after: S = state._replace(**{key: self._kept(key, value) for key, value in parts.items()})
        return after


def spend(state: OwnedState, what: int) -> tuple[int, ...]:
    """What may still happen after one of ``what``."""
    left = list(state.left)
    left[what] -= 1
    return tuple(left)
