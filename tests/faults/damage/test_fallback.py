"""Each kind of damage to each file that a boot reads: an older file is used, or it is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from siltstone.bindings.memory.bucket import StoredChunk
from siltstone.core.errors import CorruptDataError, LogLostError, SiltstoneError
from siltstone.core.records.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from siltstone.core.records.envelope import RecordKind, claimed_kind
from tests.support import inside
from tests.support.container.container_world import Owner, World, pattern, with_settings, world

QUIET = with_settings(
    flush_age_s=1e6, table_flush_age_s=1e6, checkpoint_age_s=1e6, garbage_interval_s=1e6
)


class Bench:
    """A store with two checkpoints, a batch between, a batch after them, and what came later."""

    def __init__(self, made: World) -> None:
        self.world = made
        made.run(self._build())

    async def _build(self) -> None:
        owner = await self.world.open()
        for name in ("a", "b"):
            await owner.container.create(name)
        await self._grow(owner, 0)
        for step in (1, 2):
            await owner.container.checkpoint()
            await self._grow(owner, step)
        await owner.container.append("a", b"only in tier 1")
        self.content = pattern(0, 900) + pattern(1, 900) + pattern(2, 900) + b"only in tier 1"
        self.checkpoints = [
            row.file_name for row in inside.parts(owner.container).journal.checkpoints
        ]
        await self.world.crash(owner, keep_index=False)

    async def _grow(self, owner: Owner, seed: int) -> None:
        await owner.container.append("a", pattern(seed, 900))
        await owner.container.create(f"new-{seed}")
        await owner.container.flush()

    # --- files ------------------------------------------------------------------------------------

    def chunk(self, name: str) -> StoredChunk:
        return self.world.bucket.chunks[name.encode()]

    def journal(self) -> list[str]:
        return [name for name in self.world.names("system/c0/") if "/journal-" in name]

    def batches(self) -> list[str]:
        """Files of batches, newest first."""
        kind = RecordKind.JOURNAL_BATCH
        names = [n for n in self.journal() if claimed_kind(self.chunk(n).content) == kind]
        return names[::-1]

    def checkpoint(self, name: str) -> Checkpoint:
        return decode_checkpoint(self.chunk(name).content, where=name)

    def index_file(self) -> str:
        """A file of the newest checkpoint that the one before does not name."""
        older, newer = (
            {f.chunk_name: f for f in self.checkpoint(n).index_files} for n in self.checkpoints
        )
        names = [n for n, f in newer.items() if n not in older and f.file_name.endswith(".sst")]
        return names[0]

    def table_chunks(self) -> list[str]:
        return [name for name in self.world.names("system/c0/") if "/tables-" in name]

    # --- damage -----------------------------------------------------------------------------------

    def harm(self, name: str, how: str) -> None:
        chunk = self.chunk(name)
        if how == "missing":
            self.world.bucket.remove(name.encode())
        elif how == "flipped":
            chunk.content[len(chunk.content) // 2] ^= 0x40
        elif how == "shortened":
            del chunk.content[-7:]
        elif how == "lengthened":
            chunk.content += b"strange bytes"
        else:
            assert how == "swapped"
            other = self.checkpoints[0] if name != self.checkpoints[0] else self.journal()[0]
            chunk.content, self.chunk(other).content = self.chunk(other).content, chunk.content

    # --- looking ----------------------------------------------------------------------------------

    def open_owner(self) -> tuple[str, ...]:
        """Open, compare everything, check, and return the warnings; then again without them."""

        async def run() -> tuple[str, ...]:
            owner = await self.world.open(index="fresh")
            warnings = owner.container.stats().warnings
            assert await owner.container.read("a", 0, 10_000) == self.content
            names = [info.name for info in await owner.container.list_segments()]
            assert names == ["a", "b", "new-0", "new-1", "new-2"]
            found = [f.message async for f in owner.container.check() if f.severity == "warning"]
            assert found == list(warnings)
            # The first background step replaces what was damaged.
            await self.world.environment.sleep(30)
            await owner.container.append("b", b"goes on")
            await owner.container.flush()
            await owner.container.close()
            again = await self.world.open(index="another")
            assert again.container.stats().warnings == ()
            assert await again.container.read("a", 0, 10_000) == self.content
            await self.world.check(again, strict=False)
            await again.container.close()
            return warnings

        warnings: tuple[str, ...] = self.world.run(run())
        return warnings

    def open_reader(self) -> tuple[str, ...]:
        async def run() -> tuple[str, ...]:
            reader = await self.world.open_reader()
            try:
                assert await reader.read("a", 0, 10_000) == self.content
                warnings = reader.stats().warnings
                found = [f.message async for f in reader.check() if f.severity == "warning"]
                assert found == list(warnings)
                return warnings
            finally:
                await reader.close()

        warnings: tuple[str, ...] = self.world.run(run())
        return warnings

    def refused(self) -> list[SiltstoneError]:
        errors = []
        for opened in (self.open_reader, self.open_owner):
            with pytest.raises((CorruptDataError, LogLostError)) as caught:
                opened()
            errors.append(caught.value)
        return errors


@pytest.fixture
def bench() -> Iterator[Bench]:
    with world(settings=QUIET) as made:
        yield Bench(made)


KINDS = ("missing", "flipped", "shortened", "lengthened")


@pytest.mark.parametrize("how", KINDS)
def test_the_newest_checkpoint(bench: Bench, how: str) -> None:
    name = bench.checkpoints[-1]
    bench.harm(name, how)
    for opened in (bench.open_reader, bench.open_owner):
        warnings = opened()
        assert len(warnings) == 1, warnings
        assert name in warnings[0]


def test_the_two_newest_checkpoints_swapped(bench: Bench) -> None:
    """Two files hold what they should not: neither is used, and one of them is named."""
    bench.harm(bench.checkpoints[-1], "swapped")
    for error in bench.refused():
        assert "/journal-" in str(error)


def test_an_older_checkpoint_under_the_name_of_the_newest(bench: Bench) -> None:
    older, newest = bench.checkpoints
    bench.chunk(newest).content = bytearray(bench.chunk(older).content)
    for opened in (bench.open_reader, bench.open_owner):
        (warning,) = opened()
        assert "older than the file before it" in warning
        assert newest in warning


def test_a_checkpoint_of_another_epoch_under_the_name_of_the_newest(bench: Bench) -> None:
    newest = bench.checkpoints[-1]
    other = replace(bench.checkpoint(newest), epoch=77)
    bench.chunk(newest).content = bytearray(encode_checkpoint(other))
    for opened in (bench.open_reader, bench.open_owner):
        (warning,) = opened()
        assert "another epoch" in warning


@pytest.mark.parametrize("how", ["missing", "flipped", "shortened"])
def test_the_newest_batches(bench: Bench, how: str) -> None:
    """The log was truncated because of them, so they are not taken for the end of a journal."""
    name = bench.batches()[0]
    assert name > bench.checkpoints[-1], "batches stand after the newest checkpoint"
    bench.harm(name, how)
    for error in bench.refused():
        assert "/journal-" in str(error)


def test_bytes_after_the_newest_batches(bench: Bench) -> None:
    bench.harm(bench.batches()[0], "lengthened")
    for opened in (bench.open_reader, bench.open_owner):
        assert [w for w in opened() if "passed over batches" in w]


def test_batches_between_two_checkpoints_are_needed_by_the_older_one_alone(bench: Bench) -> None:
    between = next(n for n in bench.batches() if n < bench.checkpoints[-1])
    bench.harm(between, "missing")
    assert bench.open_reader() == ()
    bench.harm(bench.checkpoints[-1], "flipped")
    for error in bench.refused():
        assert "/journal-" in str(error)


def test_swapped_batches(bench: Bench) -> None:
    newest, before = bench.batches()[:2]
    chunks = bench.chunk(newest), bench.chunk(before)
    chunks[0].content, chunks[1].content = chunks[1].content, chunks[0].content
    for error in bench.refused():
        assert newest in str(error) or before in str(error)


@pytest.mark.parametrize("how", [*KINDS[:3], "swapped"])
def test_a_file_of_the_newest_index_checkpoint(bench: Bench, how: str) -> None:
    name = bench.index_file()
    bench.harm(name, how)
    for opened in (bench.open_reader, bench.open_owner):
        warnings = opened()
        assert any("index" in warning for warning in warnings), warnings


def test_every_index_checkpoint(bench: Bench) -> None:
    """The table log begins at its first byte here, so an index is made of it alone."""
    for name in bench.world.names("system/c0/"):
        if "/index-" in name:
            bench.harm(name, "flipped")
    for opened in (bench.open_reader, bench.open_owner):
        assert all("index" in warning for warning in opened())


def test_every_index_checkpoint_when_the_table_log_was_cut(bench: Bench) -> None:
    async def cut() -> None:
        owner = await bench.world.open(index="fresh")
        for number in range(3):
            await owner.container.create(f"more-{number}")
            await owner.container.checkpoint()
        await bench.world.crash(owner, keep_index=False)

    bench.world.run(cut())
    for name in bench.world.names("system/c0/"):
        if "/index-" in name:
            bench.harm(name, "flipped")
    for error in bench.refused():
        assert isinstance(error, CorruptDataError)
        assert "/index-" in error.where


@pytest.mark.parametrize("how", KINDS[:3])
def test_a_chunk_of_the_table_log(bench: Bench, how: str) -> None:
    """Neither an older index nor tier 1 has what the newest chunk holds."""
    name = bench.table_chunks()[-1]
    bench.harm(name, how)
    for error in bench.refused():
        assert name in str(error)


@pytest.mark.parametrize("whole", [True, False])
def test_frames_continue_where_the_table_log_is_damaged(whole: bool) -> None:
    """A log that still keeps the frames of the table log's end stands in for it, if it has all."""
    with world(settings=QUIET) as made:

        async def run() -> None:
            owner = await made.open()
            await owner.container.create("a")
            kept = list(made.shared_log.frames)
            await owner.container.create("b")
            if whole:
                kept = list(made.shared_log.frames)
            await owner.container.flush()
            frames = made.shared_log.frames
            frames[:0] = [frame for frame in kept if frame.index < frames[0].index]
            await made.crash(owner, keep_index=False)
            name = next(n for n in made.names("system/c0/") if "/tables-" in n)
            made.bucket.chunks[name.encode()].content[10] ^= 1
            again = await made.open(index="fresh")
            names = [info.name for info in await again.container.list_segments()]
            assert names == ["a", "b"]
            assert any("which tier 1 holds" in text for text in again.container.stats().warnings)
            await again.container.close()

        if whole:
            made.run(run())
        else:
            with pytest.raises(CorruptDataError, match="neither the table log nor tier 1"):
                made.run(run())
