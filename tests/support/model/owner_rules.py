"""Rules by which owners come and go: clean ends, crashes, lost and stale indexes, takeovers."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from siltstone.container.models.segments import Put, SetAttribute
from siltstone.container.models.settings import CloseFlush
from tests.support.container.container_world import Owner, close_quietly
from tests.support.model.append_rules import AppendRules
from tests.support.model.container_model import InFlight, compare, settle
from tests.support.model.machine_base import LOST, TABLE, names, some_appends, writers
from tests.support.model.segment_rules import SegmentRules


class OwnerRules(AppendRules, SegmentRules):
    """One owner after the other, each with what the one before left."""

    @rule(
        stale=st.booleans(),
        save=st.booleans(),
        flush=st.sampled_from([None, "auto", "always", "never"]),
    )
    def reopen(self, stale: bool, save: bool, flush: CloseFlush | None) -> None:
        self.run(self.container.close(flush))
        if save:
            self.save_index()
        if stale:
            self.restore_index()
        self.open_next()

    @rule(
        several=some_appends,
        delay=st.floats(0, 0.2),
        index=st.sampled_from(["kept", "deleted", "stale"]),
        flush=st.booleans(),
    )
    def crash(self, several: list[tuple[str, int]], delay: float, index: str, flush: bool) -> None:
        flights = self.flights(several)

        async def work() -> None:
            tasks = [asyncio.create_task(self.fly(self.owner, flight)) for flight in flights]
            if flush:
                tasks.append(asyncio.create_task(self.quietly(self.container.flush())))
            await self.world.environment.sleep(delay)
            await self.world.crash(self.owner, keep_index=index == "kept")
            await asyncio.gather(*tasks)

        self.run(work())
        if index == "stale":
            self.restore_index()
        self.open_next(flights)

    @rule(writer=writers, name=names, index=st.sampled_from(["kept", "deleted"]))
    def forget_the_log(self, writer: str, name: str, index: str) -> None:
        """All that is known lies on long-term storage, then the owner dies."""
        if name not in self.model.segments:
            self.create(name)
        self.append_once(name, writer, 1_000, 1)
        for _ in range(2):
            self.run(self.container.flush())
            self.run(self.container.checkpoint())
        self.crash([], 0.0, index, flush=False)
        self.append_once(name, writer, 100, 1)

    async def quietly(self, work: Any) -> None:
        try:
            await work
        except (*LOST, Exception):  # noqa: BLE001 - whatever the dead process would have said
            return

    def open_next(self, flights: list[InFlight] | None = None) -> None:
        self.owner = self.run(self.world.open(index=self.owner.folder.name))
        self.run(settle(self.model, self.container, flights or []))
        self.run(compare(self.model, self.container, TABLE))

    def save_index(self) -> None:
        self.stash = self.world.folder / "stash"
        shutil.rmtree(self.stash, ignore_errors=True)
        shutil.copytree(self.owner.folder, self.stash)

    def restore_index(self) -> None:
        shutil.rmtree(self.owner.folder, ignore_errors=True)
        if self.stash is not None:
            shutil.copytree(self.stash, self.owner.folder)

    @rule(several=some_appends, delay=st.floats(0, 0.2), linger=st.sampled_from([0.0, 1.0, 40.0]))
    def take_over(self, several: list[tuple[str, int]], delay: float, linger: float) -> None:
        """A second owner while the first one is at work; the first acknowledges nothing more."""
        flights = self.flights(several)
        zombie = self.owner
        self.index += 1

        async def work() -> Owner:
            tasks = [asyncio.create_task(self.fly(zombie, flight)) for flight in flights]
            await self.world.environment.sleep(delay)
            owner = await self.world.open(takeover=True, index=f"index-{self.index}")
            await self.zombie_is_fenced(zombie)
            await asyncio.gather(*tasks)
            await self.world.environment.sleep(linger)
            return owner

        self.owner = self.run(work())
        self.run(settle(self.model, self.container, flights))
        self.run(close_quietly(zombie))
        self.run(compare(self.model, self.container, TABLE))

    async def zombie_is_fenced(self, zombie: Owner) -> None:
        calls: list[Callable[[], Any]] = [
            lambda: zombie.container.create("zombie"),
            lambda: zombie.container.commit([Put(TABLE, b"zombie", b"")], []),
            *(lambda name=name: zombie.container.delete(name) for name in self.model.segments),
            *(lambda name=name: zombie.container.rename(name, "z") for name in self.model.segments),
            *(
                lambda name=name: zombie.container.commit([SetAttribute(name, "z", "")])
                for name in self.model.segments
            ),
        ]
        for call in calls:
            with pytest.raises(LOST):
                await call()
