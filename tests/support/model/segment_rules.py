"""Rules of the life of segments: what begins, shortens, joins and ends them."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from siltstone.core.errors import (
    OffsetError,
    SegmentExistsError,
    SegmentNotFoundError,
    SegmentNotSealedError,
    SegmentSealedError,
)
from tests.support.model.container_model import ModelSegment
from tests.support.model.machine_base import MachineBase, names, sizes


class SegmentRules(MachineBase):
    """Create, truncate, seal, concat and delete."""

    @rule(name=names)
    def create(self, name: str) -> None:
        if self.has(name):
            self.fails(SegmentExistsError, self.container.create(name))
            return
        self.run(self.container.create(name))
        self.model.create(name)

    @rule(name=names, share=st.floats(0, 1.2))
    def truncate(self, name: str, share: float) -> None:
        if not self.has(name):
            self.fails(SegmentNotFoundError, self.container.truncate(name, 0))
            return
        segment = self.model.segments[name]
        offset = int(len(segment.data) * share)
        if offset > len(segment.data):
            self.fails(OffsetError, self.container.truncate(name, offset))
            return
        self.run(self.container.truncate(name, offset))
        segment.start = max(segment.start, offset)

    @rule(name=names)
    def seal(self, name: str) -> None:
        if not self.has(name):
            self.fails(SegmentNotFoundError, self.container.seal(name))
            return
        self.run(self.container.seal(name))
        self.model.segments[name].sealed = True

    @rule(to=names, source=names)
    def concat(self, to: str, source: str) -> None:
        self.join(to, source)

    @rule(to=names, source=names, size=sizes, large=st.booleans())
    def concat_new(self, to: str, source: str, size: int, large: bool) -> None:
        """A concat that is sure to have something to do; ``large`` moves extents, not bytes."""
        if to == source or not self.has(to) or self.model.segments[to].sealed:
            return
        if self.has(source):
            self.run(self.container.delete(source))
        self.run(self.container.create(source))
        data = self.made(size)
        self.model.create(source, ModelSegment(bytearray(data), 0, True))

        async def fill() -> None:
            await self.container.append(source, data)
            await self.container.seal(source)

        self.run(fill())
        patch = pytest.MonkeyPatch()
        with patch.context() as patched:
            if large:
                patched.setattr("siltstone.container.changes.concat.SMALL_BYTES", 0)
            self.join(to, source)

    def join(self, target: str, source: str) -> None:
        work = self.container.concat(target, source)
        segments = self.model.segments
        if target == source:
            self.fails(ValueError, work)
        elif source not in segments and target in segments and source in self.model.joined:
            known, offset = self.model.joined[source]
            if known == target:
                assert self.run(work) == offset
            else:
                self.fails(SegmentNotFoundError, work)
        elif source not in segments:
            self.fails(SegmentNotFoundError, work)
        elif not segments[source].sealed:
            self.fails(SegmentNotSealedError, work)
        elif target not in segments:
            self.fails(SegmentNotFoundError, work)
        elif segments[target].sealed:
            self.fails(SegmentSealedError, work)
        else:
            offset = self.run(work)
            assert offset == len(segments[target].data)
            segments[target].data += segments.pop(source).readable
            self.model.joined[source] = (target, offset)

    @rule(name=names, again=st.booleans())
    def delete(self, name: str, again: bool) -> None:
        if not self.has(name):
            self.fails(SegmentNotFoundError, self.container.delete(name))
            return
        self.forget(name)

        async def work() -> None:
            deleting = asyncio.create_task(self.container.delete(name))
            await asyncio.sleep(0)
            if again:
                await self.container.create(name)
            await deleting

        self.run(work())
        if again:
            self.model.create(name)

    def forget(self, name: str) -> None:
        del self.model.segments[name]
        for source, (target, _) in list(self.model.joined.items()):
            if target == name:
                # The name may be used again, by another segment: that never got those bytes.
                self.model.joined[source] = ("", 0)
