"""Rules by which chunks are rewritten: rounds of the optimiser, whole and cut short by a crash."""

from __future__ import annotations

import asyncio

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.support import inside
from tests.support.model.machine_base import some_appends
from tests.support.model.owner_rules import OwnerRules


class RewriteRules(OwnerRules):
    """One owner after the other, each with an optimiser."""

    @rule(rounds=st.sampled_from([1, 1, 3]))
    def optimise(self, rounds: int) -> None:
        """Two walks find a chunk sparse, the third one moves what is left of it."""
        for _ in range(rounds):
            self.run(inside.parts(self.container).optimiser.round())

    @rule(several=some_appends, delay=st.floats(0, 0.3))
    def crash_while_optimising(self, several: list[tuple[str, int]], delay: float) -> None:
        flights = self.flights(several)
        optimiser = inside.parts(self.container).optimiser

        async def work() -> None:
            tasks = [asyncio.create_task(self.fly(self.owner, flight)) for flight in flights]
            tasks.append(asyncio.create_task(self.quietly(optimiser.round())))
            await self.world.environment.sleep(delay)
            await self.world.crash(self.owner)
            await asyncio.gather(*tasks)

        self.run(work())
        self.open_next(flights)
