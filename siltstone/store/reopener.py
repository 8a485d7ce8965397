"""Reopens containers that closed themselves because their log failed.

No request is repeated: its caller was told that the outcome is unknown. Until the container is open
again, every call to it raises ``ClosedError``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ClosedError,
    CorruptDataError,
    FencedError,
    FormatError,
    LogLostError,
    SiltstoneError,
)
from siltstone.core.fenced_log import LogOwner
from siltstone.store.handles.container_slot import ContainerSlot
from siltstone.store.handles.stand_ins import refusing_container

if TYPE_CHECKING:
    from siltstone.container.container import Container

_log = logging.getLogger(__name__)

DELAY_S: Final = 0.1
DELAY_MAX_S: Final = 10.0

_FINAL: Final = (FencedError, LogLostError, CorruptDataError, FormatError)
"""Failures that another attempt would only meet again."""


class Opener(Protocol):
    """Opens containers of one store.

    Attributes:
        owner: how this store describes itself in its claims; no other store does so.
    """

    owner: str

    async def open_owner(self, index: int, *, takeover: bool) -> Container:
        """Claim a container and open it."""
        ...

    async def holder(self, index: int) -> LogOwner:
        """The present or last holder of the log; found without a claim."""
        ...


class Reopening:
    """Watches the containers of a store for as long as ``run`` runs."""

    def __init__(
        self, slots: Sequence[ContainerSlot], opener: Opener, environment: Environment
    ) -> None:
        self._slots = slots
        self._opener = opener
        self._environment = environment

    async def run(self) -> None:
        """Watch until cancelled, or until every container is lost to this store for good."""
        async with asyncio.TaskGroup() as group:
            for slot in self._slots:
                group.create_task(self._watch(slot))

    async def _watch(self, slot: ContainerSlot) -> None:
        owner = slot.container
        while True:
            await owner.wait_stopped()
            failure = owner.failure
            if failure is None:
                return
            _log.warning("container %d closed itself: %s", slot.index, failure)
            slot.bind(refusing_container(_errors(slot, failure, final=False)))
            await _closed(owner)
            if isinstance(failure, _FINAL):
                slot.bind(refusing_container(_errors(slot, failure, final=True)))
                return
            found = await self._open_again(slot, failure)
            if found is None:
                return
            slot.bind(found)
            owner = found
            _log.warning("container %d is open again", slot.index)

    async def _open_again(self, slot: ContainerSlot, failure: SiltstoneError) -> Container | None:
        """Return the container once it is open; ``None`` when this store lost it."""
        delay_s = DELAY_S
        while True:
            try:
                holder = await self._opener.holder(slot.index)
                # A newer epoch may be our own: of an attempt that claimed and then failed to boot.
                if holder.epoch > slot.epoch and holder.description != self._opener.owner:
                    raise FencedError(
                        "another owner took over", epoch=holder.epoch, owner=holder.description
                    )
                owner = await self._opener.open_owner(slot.index, takeover=False)
                slot.epoch = owner.epoch
                return owner
            except _FINAL as error:
                slot.bind(refusing_container(_errors(slot, error, final=True)))
                return None
            except (SiltstoneError, OSError) as error:
                _log.warning("container %d is not open yet: %s", slot.index, error)
                slot.bind(refusing_container(_errors(slot, failure, final=False, hindrance=error)))
            await self._environment.sleep(delay_s * (0.5 + self._environment.random()))
            delay_s = min(2 * delay_s, DELAY_MAX_S)


def _errors(
    slot: ContainerSlot,
    cause: BaseException | None,
    *,
    final: bool,
    hindrance: BaseException | None = None,
) -> Callable[[], SiltstoneError]:
    """Return what makes the errors of a container that cannot serve, each with its cause.

    Args:
        slot: of the container.
        cause: why it closed itself, or why it stays closed.
        final: whether it stays closed.
        hindrance: what the newest attempt to open it failed with.
    """
    behind = "" if hindrance is None else f"; not open yet: {hindrance}"

    def make() -> SiltstoneError:
        error: SiltstoneError
        if isinstance(cause, FencedError):
            error = FencedError(f"the container has another owner: {cause}", container=slot.index)
        elif final:
            error = ClosedError(
                f"the container cannot be opened again: {cause}", container=slot.index
            )
        else:
            error = ClosedError(
                f"the container is being opened again after a failure: {cause}{behind}",
                container=slot.index,
            )
        error.__cause__ = cause
        return error

    return make


async def _closed(owner: Container) -> None:
    """Free what a failed container holds; its failure is known, so another one is only logged."""
    closing: Awaitable[None] = owner.close(flush="never")
    try:
        await closing
    except (SiltstoneError, OSError) as error:
        _log.warning("a failed container did not close cleanly: %s", error)
