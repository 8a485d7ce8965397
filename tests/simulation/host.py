"""A process that opens the store, as its owner or as a reader, and runs clients in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import cast

from siltstone.container.container import Container
from siltstone.container.models.segments import SegmentInfo
from siltstone.container.models.settings import CloseFlush
from siltstone.container.owner_boot import open_container
from siltstone.container.reader.no_log import NoLog
from siltstone.container.reader.read_container import ReadContainer, open_reader
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import CorruptDataError, LogLostError, SiltstoneError
from siltstone.core.fenced_log import LogOwner
from siltstone.core.records.store_manifest import StoreManifest
from siltstone.store.async_store import AsyncStore
from siltstone.store.handles.container_slot import ContainerSlot
from siltstone.store.opening import open_containers
from siltstone.store.store_assembly import Assembly
from tests.simulation.application import Application
from tests.simulation.asking import Plans
from tests.simulation.facts import ViolationError
from tests.simulation.heard_log import HeardLog
from tests.simulation.looking import Look, look
from tests.simulation.world import Machine, World
from tests.support import inside
from tests.support.simulation.processes import Process

CHOICES: tuple[CloseFlush, ...] = ("auto", "always", "never")

Work = Callable[["Host"], Awaitable[None]]


class HostParts:
    """What the containers of one process's store share; see ``SharedParts``.

    Attributes:
        log_ends: of each container that was opened to own it, the end of its log before that.
        readers: those that were opened.
    """

    def __init__(self, world: World, process: Process, machine: Machine) -> None:
        self.environment: Environment = process
        self.process = process
        self.manifest: StoreManifest = world.manifest
        self.owner = process.name
        self.logs: list[HeardLog] = []
        self.log_ends: dict[int, int] = {}
        self.readers: dict[int, ReadContainer] = {}
        self._world = world
        self._machine = machine

    async def open_owner(self, index: int, *, takeover: bool) -> Container:
        """See ``Opener``."""
        world, ledger = self._world, self._world.ledgers[index]
        log = world.log(self.process, index)
        self.logs.append(log)
        opening = open_container(
            container=index,
            log=log,
            storage=world.storage(self.process, log),
            environment=self.process,
            settings=world.settings,
            index_folder=self._machine.folder / f"c{index}",
            owner=self.owner,
            takeover=takeover,
        )
        try:
            container = await opening
        except LogLostError as error:
            if ledger.epoch:
                raise ViolationError(f"{self.process.name} finds no log: {error!r}") from error
            raise
        if container.epoch < ledger.epoch:
            # It was paused after its last call: the log has to tell it before it does anything.
            try:
                await inside.parts(container).pipeline.confirm()
            finally:
                with suppress(SiltstoneError):
                    await container.close()
        self.log_ends[index] = inside.parts(container).claimed.log_end
        ledger.opened(container.epoch)
        world.trace.note(self.process.name, f"opened epoch {container.epoch} of {index}")
        return container

    async def open_reader(self, index: int, *, without_log: bool = False) -> ReadContainer:
        """A read-only open."""
        world = self._world
        reader = await open_reader(
            container=index,
            log=NoLog() if without_log else world.log(self.process, index),
            storage=self._storage(),
            environment=self.process,
            settings=world.settings,
            index_folders=[machine.folder / f"c{index}" for machine in world.machines],
        )
        self.readers[index] = reader
        return reader

    def _storage(self) -> ChunkStorage:
        return self._world.storage(self.process)

    async def holder(self, index: int) -> LogOwner:
        """See ``Opener``."""
        log = self._world.log(self.process, index)
        try:
            return log.holder()
        finally:
            log.close()

    def close(self) -> None:
        """Nothing is left."""


class AuditorParts(HostParts):
    """The same for a process whose calls take no time and never fail.

    Args:
        world: what it looks at.
        without_log: whether it sees what long-term storage alone holds.
    """

    def __init__(self, world: World, *, without_log: bool) -> None:
        super().__init__(world, world.auditor(), world.machines[0])
        self._without_log = without_log

    async def open_reader(self, index: int, *, without_log: bool = False) -> ReadContainer:
        """See ``HostParts``."""
        return await super().open_reader(index, without_log=without_log or self._without_log)

    def _storage(self) -> ChunkStorage:
        return self._world.bare_storage()


class Host:
    """One process with its store.

    Attributes:
        process: see there.
        machine: where its index is.
        closed: how it closed, once it did so without an error.
        store: once it is open.
        applications: the clients of each container, once it is open.
        task: its life; what it raises ends the run.
    """

    def __init__(
        self, world: World, kind: str, machine: Machine, *, parts: HostParts | None = None
    ) -> None:
        self.world = world
        self.machine = machine
        self.parts = parts or HostParts(world, world.process(kind), machine)
        self.process = self.parts.process
        self.closed: CloseFlush | None = None
        self.store: AsyncStore | None = None
        self.applications: list[Application] = []
        self.task: asyncio.Task[None]
        self.refusal: SiltstoneError | None = None
        self.opened = asyncio.Event()

    def container(self, index: int) -> Container:
        """What serves the calls to a container now."""
        assert self.store is not None, "it is open"
        return inside.slots(self.store)[index].container

    async def info(self, name: str) -> SegmentInfo:
        """What the store says of a segment."""
        assert self.store is not None, "it is open"
        return await self.store.segment(name).info()

    @property
    def is_newest(self) -> bool:
        """Whether it has all containers, as far as any process knows."""
        assert self.store is not None, "it is open"
        epochs = (slot.epoch for slot in inside.slots(self.store))
        return all(e == ledger.epoch for e, ledger in zip(epochs, self.world.ledgers, strict=True))

    def leave(self) -> None:
        """Let its clients finish."""
        for application in self.applications:
            application.leaving = True

    def start_owner(self, plans: list[Plans], work: Work, *, takeover: bool) -> None:
        """Open the store, do ``work`` in it, and close it."""
        self.machine.busy = True
        self.task = self.process.start(self._own(plans, work, takeover=takeover))

    async def _own(self, plans: list[Plans], work: Work, *, takeover: bool) -> None:
        world = self.world
        try:
            slots = await self._slots(read_only=False, takeover=takeover)
        except SiltstoneError as error:
            self._refused(error)
            return
        finally:
            self.opened.set()
        self.store = AsyncStore(self.parts, slots, read_only=False, closes=None)
        self.applications = self._clients(self.store, slots, plans)
        await work(self)
        # Of a world's own chance, so that every other draw stays as it was.
        flush = Random(f"{world.seed}/{self.process.name}/close").choice(CHOICES)
        with suppress(SiltstoneError):
            await self.store.close(flush=flush)
            self.closed = flush
        self.machine.busy = False

    def _clients(
        self, store: AsyncStore, slots: Sequence[ContainerSlot], plans: list[Plans]
    ) -> list[Application]:
        """The clients of each container."""
        made = []
        for slot, ledger in zip(slots, self.world.ledgers, strict=True):
            chance = Random(f"{self.world.seed}/{self.process.name}/clients-{slot.index}")
            made.append(Application(store, self.process, ledger, plans[slot.index], chance))
        return made

    async def _slots(self, *, read_only: bool, takeover: bool) -> Sequence[ContainerSlot]:
        """Open all containers, as the store of a user does."""
        parts = cast("Assembly", self.parts)
        return await open_containers(parts, read_only=read_only, takeover=takeover)

    def _refused(self, error: SiltstoneError) -> None:
        """The store could not be opened."""
        world = self.world
        world.trace.note(self.process.name, f"not opened: {type(error).__name__}")
        if isinstance(error, CorruptDataError):
            raise ViolationError(f"{self.process.name} cannot open: {error!r}") from error
        self.refusal = error
        self.machine.busy = False

    def start_reader(self, work: Callable[[Look], Awaitable[None]] | None = None) -> None:
        """Open the store read-only, and look at it again and again, or do ``work``."""
        self.task = self.process.start(self._read(work or self._follow))

    async def _read(self, work: Callable[[Look], Awaitable[None]]) -> None:
        try:
            slots = await self._slots(read_only=True, takeover=False)
            self.store = AsyncStore(self.parts, slots, read_only=True, closes=None)
            lookers = [
                Look(
                    name=self.process.name,
                    ledger=ledger,
                    epoch=None,
                    process=self.process,
                    refresh=self.container(ledger.index).refresh,  # type: ignore[attr-defined]
                )
                for ledger in self.world.ledgers
            ]
            for who in lookers:
                await work(who)
            await self.store.close()
        except CorruptDataError as error:
            raise ViolationError(f"{self.process.name}: {error!r}") from error
        except SiltstoneError as error:
            self.refusal = error

    async def read(self, work: Callable[[Look], Awaitable[None]]) -> None:
        """Open the store read-only, do ``work`` for each container, and close it.

        Raises:
            ViolationError: it cannot be opened, or ``work`` found something.
        """
        self.start_reader(work)
        await asyncio.wait([self.task])
        self.task.result()
        if self.refusal is not None:
            told = f"{self.process.name} cannot open: {self.refusal!r}"
            raise ViolationError(told) from self.refusal

    async def look_at_segments(self, who: Look) -> None:
        """Look at every segment of a container: what was acknowledged is there."""
        assert self.store is not None
        for segment in list(who.ledger.segments.values()):
            await look(who, self.store.segment(segment.name), segment)

    async def _follow(self, who: Look) -> None:
        assert self.store is not None
        chance = self.process.chance
        for _ in range(chance.randint(3, 40)):
            await self.process.sleep(chance.random())
            segments = list(who.ledger.segments.values())
            if not segments:
                continue
            segment = chance.choice(segments)
            try:
                await look(who, self.store.segment(segment.name), segment)
            except CorruptDataError:
                raise
            except SiltstoneError:
                continue

    async def die(self, *, keep_index: bool) -> None:
        """End as a process that is killed."""
        process = self.process
        if process.dead or self.task.done():
            return
        self.world.trace.note(process.name, "dies")
        process.dead = True
        process.end_steps()
        self.world.crash_indexes(process, keep=keep_index)
        for log in self.parts.logs:
            log.inner.abandon()  # type: ignore[attr-defined]
        await process.die()
        self.machine.busy = False
        await asyncio.wait([self.task])
        if not self.task.cancelled() and isinstance(error := self.task.exception(), ViolationError):
            raise error
