"""A process that owns the store of a keyspace, and what is looked at when it opens."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, cast

from siltstone.container.container import Container
from siltstone.container.state.replica import Replica
from siltstone.core.errors import SiltstoneError
from siltstone.store.async_store import AsyncStore
from siltstone.store.handles.container_slot import ContainerSlot
from tests.simulation.asking import Plans
from tests.simulation.facts import ViolationError
from tests.simulation.host import Host, HostParts
from tests.simulation.keyspaces.clients import SpaceClients
from tests.simulation.keyspaces.rows import SpaceRows, check_lengths, rows_in
from tests.simulation.keyspaces.world import NAMES
from tests.simulation.world import Machine
from tests.support import inside

if TYPE_CHECKING:
    from tests.simulation.keyspaces.world import KeyspaceWorld


class SpaceParts(HostParts):
    """What the store of one process rests on; each opening is compared with what is known."""

    async def open_owner(self, index: int, *, takeover: bool) -> Container:
        """See ``HostParts``."""
        container = await super().open_owner(index, takeover=takeover)
        world = cast("KeyspaceWorld", self._world)
        found = checked_rows(inside.parts(container).pipeline.replica)
        next_sqn = 1 if found is None else found.state.next_sqn
        if found is None and world.space.flushed:
            raise ViolationError(f"{self.process.name} has no keyspace")
        world.trace.note(self.process.name, f"begins with SQN {next_sqn}")
        heads = {} if found is None else found.seen
        if world.space.rolls_back:
            world.space.is_made = found is not None
        world.space.opened(container.epoch, self.process.name, next_sqn, heads)
        return container


class KeyspaceHost(Host):
    """One process with its store, and clients of the keyspace."""

    def __init__(self, world: KeyspaceWorld, machine: Machine, kind: str = "owner") -> None:
        process = world.process(kind)
        super().__init__(world, kind, machine, parts=SpaceParts(world, process, machine))

    def _clients(
        self, store: AsyncStore, slots: Sequence[ContainerSlot], plans: list[Plans]
    ) -> list[Any]:
        """See ``Host``."""
        world = cast("KeyspaceWorld", self.world)
        chance = Random(f"{world.seed}/{self.process.name}/keyspace")
        return [SpaceClients(world, store, cast("Any", self.process), chance)]

    def check(self) -> None:
        """Compare what the newest owner has at this moment with what is known.

        Raises:
            ViolationError: it differs.
        """
        world = cast("KeyspaceWorld", self.world)
        if self.store is None or self.store.closed or not self.is_newest:
            return
        try:
            replica = inside.parts(self.container(0)).pipeline.replica
        except SiltstoneError:  # it is being opened again, or ended
            return
        found = checked_rows(replica)
        if found is not None:
            world.space.seen_all(found.seen, world.space.keys, {}, end=found.state.next_sqn)


def checked_rows(replica: Replica) -> SpaceRows | None:
    """The rows of the keyspace, which fit together; ``None`` where there is none."""
    found = rows_in(replica, NAMES)
    if found is not None:
        try:
            found.check()
        except AssertionError as error:
            raise ViolationError(f"rows do not fit together: {error}") from error
    return found


def check_state_alone(world: KeyspaceWorld, replica: Replica) -> None:
    """Long-term storage has the keyspace as it was at one moment, with all of its bytes.

    Raises:
        AssertionError: it has not.
    """
    found = checked_rows(replica)
    if found is None:
        assert not world.space.flushed, "there is no keyspace"
        return
    check_lengths(replica, NAMES, found)
    end = found.state.next_sqn
    assert end > world.space.flushed, f"ends before {end}; {world.space.flushed} was flushed"
    if not world.space.rolls_back:
        assert max((head.sqn for head in found.seen.values()), default=0) < end
        world.space.seen_all(found.seen, world.space.keys, {}, end=end)
