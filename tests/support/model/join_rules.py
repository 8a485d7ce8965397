"""Rules of concats that take several transactions, whole and cut short by a crash or a takeover."""

from __future__ import annotations

import asyncio

from hypothesis import strategies as st
from hypothesis.stateful import rule

from siltstone.core.errors import SiltstoneError
from tests.support.container.container_world import Owner, close_quietly, small_slices
from tests.support.model.container_model import ModelSegment, compare
from tests.support.model.machine_base import LOST, TABLE, names, sizes
from tests.support.model.rewrite_rules import RewriteRules


class JoinRules(RewriteRules):
    """One owner after the other, each of which may join segments slice by slice."""

    def sealed_source(self, to: str, source: str, several: list[int]) -> bool:
        """Make a source of some chunks; false where nothing can be joined."""
        if to == source or not self.has(to) or self.model.segments[to].sealed:
            return False
        if self.has(source):
            self.run(self.container.delete(source))
            self.forget(source)
        parts = [self.made(size) for size in several]

        async def fill() -> None:
            await self.container.create(source)
            for part in parts:
                await self.container.append(source, part)
                await self.container.flush(source)
            await self.container.seal(source)

        self.run(fill())
        self.model.create(source, ModelSegment(bytearray(b"".join(parts)), 0, True))
        return True

    @rule(to=names, source=names, several=st.lists(sizes, max_size=4), share=st.floats(0, 1))
    def concat_in_slices(self, to: str, source: str, several: list[int], share: float) -> None:
        """The source is truncated at the same time: before, or never."""
        if not self.sealed_source(to, source, several):
            return
        segments = self.model.segments
        cut = int(sum(several) * share)

        async def both() -> None:
            joining = asyncio.create_task(self.container.concat(to, source))
            await self.world.environment.sleep(share / 10)
            try:
                await self.container.truncate(source, cut)
            except SiltstoneError:
                assert await joining == len(segments[to].data)
            else:
                assert await joining == len(segments[to].data)
                segments[source].start = cut

        with small_slices(1):
            self.run(both())
        self.model.joined[source] = (to, len(segments[to].data))
        segments[to].data += segments.pop(source).readable

    @rule(
        to=names,
        source=names,
        several=st.lists(sizes, max_size=4),
        delay=st.floats(0, 0.6),
        takeover=st.booleans(),
    )
    def end_while_joining(
        self, to: str, source: str, several: list[int], delay: float, takeover: bool
    ) -> None:
        """Then the whole concat is there or nothing of it, and it can be repeated."""
        if not self.sealed_source(to, source, several):
            return
        old = self.owner
        if takeover:
            self.index += 1
        index = f"index-{self.index}" if takeover else old.folder.name

        async def work() -> Owner:
            joining = asyncio.create_task(old.container.concat(to, source))
            await self.world.environment.sleep(delay)
            if not takeover:
                await self.world.crash(old)
            owner = await self.world.open(takeover=takeover, index=index)
            result = (await asyncio.gather(joining, return_exceptions=True))[0]
            assert isinstance(result, (int, *LOST)), result
            await self.settle_join(owner, to, source, certain=isinstance(result, int))
            return owner

        with small_slices(1):
            self.owner = self.run(work())
            self.run(close_quietly(old))
            self.run(compare(self.model, self.container, TABLE))
            self.join(to, source)

    async def settle_join(self, owner: Owner, to: str, source: str, *, certain: bool) -> None:
        segments = self.model.segments
        names_now = {info.name for info in await owner.container.list_segments()}
        if source not in names_now:
            self.model.joined[source] = (to, len(segments[to].data))
            segments[to].data += segments.pop(source).readable
        else:
            assert not certain, "an acknowledged concat is gone"
