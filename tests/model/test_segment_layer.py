"""The segment layer against a model: a segment is a bytearray, and every step keeps the invariants.

What may fail: any create, write and read of a chunk, in every way that a service has. What may not:
the layout store. What must hold: a call that returns did what it says; one that raises changed
nothing that a reader sees, and may be repeated; bytes that were flushed and not truncated are read
back.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.errors import (
    ChunkUnavailableError,
    OffsetError,
    SegmentNotFoundError,
    SegmentSealedError,
)
from siltstone.core.records.extent import Extent
from siltstone.segments.concat_staging import Joining
from siltstone.segments.pack import PackedRun
from siltstone.segments.rewrite_plan import MergeRules, RelocationRules, Rewrite
from siltstone.segments.segment_storage import SegmentStorageSettings
from tests.support.segments.segment_world import Call, Fault, World

PROFILES = {
    "append": Profile(),
    "write once": Profile(append=False, concat=False, seal=False),
    "few appends": Profile(appends_max=3),
    "small chunks": Profile(chunk_bytes_max=300_023),
}
CHUNK_BYTES = 50
TARGETS = (1, 2)
ATTEMPTS_MAX = 20

faults = st.lists(st.sampled_from([None, None, *Fault]), max_size=4)


@dataclass
class Model:
    """What one segment holds: ``data`` from offset 0 on, readable from ``start`` on."""

    data: bytearray = field(default_factory=bytearray)
    start: int = 0


class SegmentLayer(RuleBasedStateMachine):
    """Random writes, truncations, trims, joins, rewrites and removals, over storage that fails.

    Attributes:
        scale: bytes for each byte of the plan; with a large one, chunks have many blocks.
    """

    scale = 1

    @initialize(profile=st.sampled_from(sorted(PROFILES)))
    def open(self, profile: str) -> None:
        self.runner = asyncio.Runner()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("siltstone.segments.concat_staging.PLACED_PER_SLICE", 2)
        self.world = World(
            PROFILES[profile],
            settings=SegmentStorageSettings(chunk_bytes=CHUNK_BYTES * self.scale),
        )
        self.models: dict[int, Model] = {}
        self.next_id = 1
        self.byte = 0
        self.claimed: set[str] = set()
        self.joinings: dict[int, Joining] = {}
        self.sealed: set[int] = set()
        for _ in TARGETS:
            self.add()

    def add(self) -> int:
        segment_id, self.next_id = self.next_id, self.next_id + 1
        self.world.layouts.add(segment_id)
        self.models[segment_id] = Model()
        return segment_id

    def bytes(self, length: int) -> bytes:
        self.byte += 1
        pattern = bytes((self.byte + 31 * index) % 251 for index in range(251))
        length *= self.scale
        return (pattern * (length // 251 + 1))[:length]

    def repeat(self, segment_id: int, make: Any, plan: list[Fault | None]) -> Any:
        """Make a call, again and again while storage fails; the plan ends, so does the loop."""
        left = list(plan)

        def decide(call: Call) -> Fault | None:
            if call.verb == "read_into" or not left:
                return None
            return left.pop(0)

        self.world.storage.decide = decide
        for _ in range(ATTEMPTS_MAX):
            flushed = self.world.layouts.layout(segment_id).storage_length
            try:
                return self.runner.run(make())
            except ChunkUnavailableError:
                assert self.world.layouts.layout(segment_id).storage_length == flushed
                self.take_abandoned()
        raise AssertionError("the call never succeeds")

    def take_abandoned(self) -> None:
        names = {new.name for new in self.world.segments.take_abandoned()}
        assert not names & self.claimed
        self.claimed |= names

    @rule(
        index=st.integers(0, 5),
        lengths=st.lists(st.integers(1, 70), min_size=1, max_size=4),
        cut=st.booleans(),
        plan=faults,
    )
    def write(self, index: int, lengths: list[int], cut: bool, plan: list[Fault | None]) -> None:
        segment_id = self.pick(index)
        if segment_id in self.sealed:
            return
        model = self.models[segment_id]
        parts = [self.bytes(length) for length in lengths]
        offset = len(model.data)
        cuts, border = [], offset
        for part in parts:
            border += len(part)
            cuts.append(border)
        end = self.repeat(
            segment_id,
            lambda: self.world.segments.write(segment_id, offset, parts, cuts=cuts if cut else ()),
            plan,
        )
        model.data += b"".join(parts)
        assert end == len(model.data)

    @rule(lengths=st.lists(st.integers(0, 12), min_size=5, max_size=5), plan=faults)
    def pack(self, lengths: list[int], plan: list[Fault | None]) -> None:
        """Flush the next bytes of several segments into one chunk; those that have none stay."""
        runs = []
        for segment_id, length in zip(sorted(self.models), lengths, strict=False):
            model = self.models[segment_id]
            if not length or model.start > len(model.data) or segment_id in self.sealed:
                continue
            added, end = self.bytes(length), len(model.data)
            runs.append(
                PackedRun(segment_id=segment_id, offset=end, length=len(added), buffers=(added,))
            )
        limit = self.world.storage.capabilities.chunk_bytes_max
        length = sum(run.length for run in runs)
        if not 0 < length <= min(limit, CHUNK_BYTES * self.scale):
            return
        count = self.repeat(
            runs[0].segment_id, lambda: self.world.segments.write_packed(runs), plan
        )
        free = [run for run in runs if not self.world.segments.has_placed(run.segment_id)]
        assert count == (len(free) if len(free) > 1 else 0)
        for run in free if count else ():
            self.models[run.segment_id].data += b"".join(run.buffers)

    @rule(index=st.integers(0, 5), cut=st.integers(0, 200))
    def truncate(self, index: int, cut: int) -> None:
        """Also beyond the flushed length, as far as bytes might be in the tail."""
        segment_id = self.pick(index)
        model = self.models[segment_id]
        tail = 0 if segment_id in self.sealed else 40 * self.scale
        model.start = min(model.start + cut * self.scale, len(model.data) + tail)
        self.world.layouts.change(segment_id, start_offset=model.start)

    @rule(index=st.integers(0, 5))
    def trim(self, index: int) -> None:
        segment_id = self.pick(index)
        start = self.models[segment_id].start
        while not self.runner.run(self.world.segments.trim(segment_id, start)):
            pass
        assert all(
            extent.end > start for extent in self.world.layouts.extents(segment_id, 0, 10**9, 999)
        )

    @rule(index=st.integers(0, 5))
    def skip(self, index: int) -> None:
        segment_id = self.pick(index)
        model = self.models[segment_id]
        self.runner.run(self.world.segments.skip(segment_id, model.start))
        model.data += bytes(max(0, model.start - len(model.data)))

    @rule(index=st.integers(0, 5), start=st.integers(0, 300), length=st.integers(0, 300))
    def read(self, index: int, start: int, length: int) -> None:
        segment_id = self.pick(index)
        model = self.models[segment_id]
        offset = min(model.start + start * self.scale, len(model.data))
        length *= self.scale
        if offset < model.start:
            return
        found = self.runner.run(self.world.read(segment_id, offset, length))
        assert found == bytes(model.data[offset : offset + length])

    @rule(
        index=st.integers(0, 5),
        small=st.integers(1, 120),
        count=st.integers(2, 4),
        plan=faults,
    )
    def merge(self, index: int, small: int, count: int, plan: list[Fault | None]) -> None:
        segment_id = self.pick(index)
        rules = MergeRules(
            small_bytes=small * self.scale, chunk_bytes=10**9, count_min=count, extents_max=5
        )
        extents = self.world.layouts.extents(segment_id, 0, 10**9, 999)
        for rewrite in self.world.segments.plan_merges(segment_id, extents, rules).rewrites:
            self.carry_out(rewrite, plan)

    @rule(index=st.integers(0, 5), percent=st.integers(1, 100), plan=faults)
    def relocate(self, index: int, percent: int, plan: list[Fault | None]) -> None:
        segment_id = self.pick(index)
        rules = RelocationRules(
            chunk_bytes_min=1, chunk_bytes_max=10**9, percent=percent, live_bytes_max=10**9
        )
        rewrite = self.world.segments.plan_relocation(segment_id, rules)
        if rewrite is not None:
            self.carry_out(rewrite, plan)

    @rule(chosen=st.sets(st.integers(0, 19), min_size=1), plan=faults)
    def repack(self, chosen: set[int], plan: list[Fault | None]) -> None:
        """Move any extents that together fit into one chunk."""
        room = min(self.world.storage.capabilities.chunk_bytes_max, CHUNK_BYTES * self.scale)
        extents: list[Extent] = []
        for segment_id in sorted(self.models):
            for extent in self.world.layouts.extents(segment_id, 0, 10**9, 999):
                if extent.length <= room and len(extents) in chosen:
                    room -= extent.length
                    extents.append(extent)
        left = list(plan)
        self.world.storage.decide = lambda call: (
            left.pop(0) if left and call.verb != "read_into" else None
        )
        with suppress(ChunkUnavailableError):
            self.runner.run(self.world.segments.repack(extents))
        self.take_abandoned()

    def carry_out(self, rewrite: Rewrite, plan: list[Fault | None]) -> None:
        self.runner.run(self.world.segments.close_chunk(rewrite.segment_id))
        left = list(plan)
        self.world.storage.decide = lambda _: left.pop(0) if left else None
        with suppress(ChunkUnavailableError):
            assert self.runner.run(self.world.segments.rewrite(rewrite))
        self.take_abandoned()

    @precondition(lambda self: len(self.models) < 5)
    @rule()
    def create(self) -> None:
        self.add()

    @rule(index=st.integers(0, 5), other=st.integers(0, 5))
    def concat(self, index: int, other: int) -> None:
        target_id, source_id = self.pick(index), self.pick(other)
        target, source = self.models[target_id], self.models[source_id]
        unflushed = source.start > len(source.data) or target.start > len(target.data)
        if target_id == source_id or unflushed:
            return
        if target_id in self.sealed:
            return
        self.seal(source_id)
        joining = self.world.joining(len(target.data), target_id, source_id)
        self.runner.run(self.world.segments.concat(joining))
        target.data += source.data[source.start :]
        del self.models[source_id], self.world.layouts.states[source_id]

    @rule(index=st.integers(0, 5), other=st.integers(0, 5), slices=st.integers(1, 4))
    def place(self, index: int, other: int, slices: int) -> None:
        """Some slices of a concat; whatever comes next meets them, or ``show`` does."""
        target_id, source_id = self.pick(index), self.pick(other)
        target, source = self.models[target_id], self.models[source_id]
        unflushed = source.start > len(source.data) or target.start > len(target.data)
        if target_id == source_id or unflushed or target_id in self.sealed:
            return
        self.seal(source_id)
        self.runner.run(self.world.segments.close_chunk(source_id))
        while not self.runner.run(self.world.segments.unplace(target_id)):
            pass
        joining = self.world.joining(len(target.data), target_id, source_id)
        for _ in range(slices):
            self.runner.run(self.world.segments.place(joining))
        self.joinings[target_id] = joining

    @rule()
    def show(self) -> None:
        """Finish every concat that was begun, as far as nothing got in between."""
        for target_id, joining in list(self.joinings.items()):
            del self.joinings[target_id]
            target, source = self.models.get(target_id), self.models.get(joining.source_id)
            possible = (
                target is not None
                and source is not None
                and len(target.data) == joining.offset
                and source.start == joining.start
                and target_id not in self.sealed
            )
            try:
                while not self.runner.run(self.world.segments.place(joining)):
                    pass
                self.runner.run(self.world.segments.show(joining))
            except (OffsetError, SegmentNotFoundError, SegmentSealedError):
                assert not possible
                continue
            assert possible
            assert target is not None
            assert source is not None
            target.data += source.data[source.start :]
            self.end(joining.source_id)

    def seal(self, segment_id: int) -> None:
        self.world.layouts.change(segment_id, sealed_length=len(self.models[segment_id].data))
        self.sealed.add(segment_id)

    def end(self, segment_id: int) -> None:
        """Let a segment go with all its rows."""
        self.world.layouts.change(segment_id, deleted=True)
        while not self.runner.run(self.world.segments.remove(segment_id)):
            pass
        del self.models[segment_id], self.world.layouts.states[segment_id]

    @precondition(lambda self: len(self.models) > 1)
    @rule(index=st.integers(0, 5))
    def remove(self, index: int) -> None:
        segment_id = self.pick(index)
        self.end(segment_id)

    @rule()
    def fail_over(self) -> None:
        """A new owner, which knows nothing but the rows."""
        old = self.world
        old.layouts.epoch += 1
        self.world = World(
            old.profile,
            bucket=old.bucket,
            layouts=old.layouts,
            settings=old.settings,
        )

    def pick(self, index: int) -> int:
        if not self.models:
            self.add()
        ids = sorted(self.models)
        return ids[index % len(ids)]

    @invariant()
    def every_readable_byte_is_there(self) -> None:
        if not hasattr(self, "models"):
            return
        self.world.storage.decide = lambda _: None
        self.world.check()
        self.take_abandoned()
        named = {chunk.name for chunk in self.world.layouts.rows.chunks.values()}
        named |= {chunk.name for chunk in self.world.layouts.garbage}
        assert not named & self.claimed, "an abandoned name was committed"
        for segment_id, model in self.models.items():
            if model.start <= len(model.data):
                length = len(model.data) - model.start
                found = self.runner.run(self.world.read(segment_id, model.start, length + 1))
                assert found == bytes(model.data[model.start :])

    @invariant()
    def every_chunk_is_named_or_handed_over(self) -> None:
        """I4, for one owner: what lies on storage has a row, a task, or was abandoned."""
        if not hasattr(self, "models"):
            return
        self.take_abandoned()
        rows = self.world.layouts
        known = {chunk.name for chunk in (*rows.rows.chunks.values(), *rows.garbage)}
        found = {key.decode() for key in self.world.bucket.chunks}
        assert found <= known | self.claimed

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.patch.undo()
            self.runner.close()


class ManyBlocks(SegmentLayer):
    """The same with chunks of several blocks."""

    scale = 20_011


@pytest.mark.parametrize(("machine", "examples"), [(SegmentLayer, 120), (ManyBlocks, 15)])
def test_segment_layer(machine: type[RuleBasedStateMachine], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples, stateful_step_count=30),
    )
