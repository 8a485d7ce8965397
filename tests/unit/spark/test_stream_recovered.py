"""A stream of a store that was recovered with loss: other bytes have the lost offsets."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.core.checksums import crc32c
from siltstone.core.errors import LogLostError
from siltstone.store.admin.recovery import recover_store
from tests.support.spark.stream import Stream

Make = Callable[..., Stream]

SUM = crc32c(b"flushed\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of two containers: ``{x}`` is in one, ``{z}`` in the other."""
    path = tmp_path / "store"
    siltstone.init(path, containers=2)
    with siltstone.open(path) as store:
        for name in ("{x}a", "{z}a"):
            store.create(name).append(b"flushed\n")
        store.flush()
    return path


@pytest.fixture
def make(folder: Path) -> Iterator[Make]:
    """Make streams, and close them at the end."""
    made: list[Stream] = []

    def stream(**options: object) -> Stream:
        made.append(Stream(folder, **options))
        return made[-1]

    yield stream
    for one in made:
        one.reader.stop()


def append(folder: Path, name: str, data: bytes) -> None:
    with siltstone.open(folder) as store:
        store.segment(name).append(data)


def lose_tier_1(folder: Path, containers: list[int] | None = None) -> None:
    for path in (folder / "tier1").glob("c*"):
        if containers is None or int(path.name[1:]) in containers:
            shutil.rmtree(path)
    recover_store(folder, containers, accept_loss=True)


def container_of(stream: Stream) -> int:
    (container,) = map(int, stream.offset["lineages"])
    return container


@pytest.mark.slow
def test_a_stream_does_not_continue_after_bytes_that_were_lost(make: Make, folder: Path) -> None:
    append(folder, "{x}a", b"lost\n")
    stream = make(segment="{x}a")
    assert stream.values() == ["flushed", "lost"]
    lose_tier_1(folder)
    append(folder, "{x}a", b"new\nand more\n")  # the next line would be the second of these
    stream.restart()
    with pytest.raises(LogLostError, match=r"new checkpoint segment=\{x\}a offset=13 found="):
        stream.batch()
    assert make(segment="{x}a").values() == ["flushed", "new", "and more"]


@pytest.mark.slow
def test_a_batch_that_was_planned_before_a_recovery_is_not_planned_again(
    make: Make, folder: Path
) -> None:
    append(folder, "{x}a", b"lost\n")
    stream = make(segment="{x}a")
    start, end = stream.plan()
    lose_tier_1(folder)
    append(folder, "{x}a", b"NEW!\n")
    stream.restart()
    for begin in (start, stream.first_again()):
        with pytest.raises(LogLostError, match="recovered with loss"):
            stream.rows_between(begin, end)


@pytest.mark.slow
def test_a_stream_that_runs_meanwhile_is_told(make: Make, folder: Path) -> None:
    append(folder, "{x}a", b"lost\n")
    stream = make(segment="{x}a")
    assert stream.values() == ["flushed", "lost"]
    lose_tier_1(folder)
    append(folder, "{x}a", b"new\nand more\n")
    with pytest.raises(LogLostError):
        stream.batch()


@pytest.mark.slow
def test_a_segment_of_another_container_is_read_on(make: Make, folder: Path) -> None:
    stream, other = make(segment="{x}a"), make(segment="{z}a")
    both = make(prefix="{")
    for one in (stream, other, both):
        one.batch()
    assert container_of(stream) != container_of(other)
    lose_tier_1(folder, [container_of(stream)])
    append(folder, "{z}a", b"more\n")
    other.restart()
    assert other.values() == ["more"]
    both.restart()
    with pytest.raises(LogLostError, match=r"segment=\{x\}a"):
        both.batch()


@pytest.mark.slow
def test_a_checkpoint_without_lineages_continues_and_gets_them(make: Make, folder: Path) -> None:
    stream = make(segment="{x}a")
    stream.batch()
    lineages = stream.offset.pop("lineages")
    append(folder, "{x}a", b"more\n")
    stream.restart()
    assert stream.values() == ["more"]
    assert stream.offset["lineages"] == lineages
    assert stream.drain() == []


@pytest.mark.slow
def test_an_offset_tells_the_lineages_of_what_it_names(make: Make, folder: Path) -> None:
    def lineages(offset: dict[str, Any]) -> set[int]:
        return {int(key) for key in json.loads(json.dumps(offset))["lineages"]}

    assert lineages(make(segment="{x}a").offset) | lineages(make(segment="{z}a").offset) == {0, 1}
    assert lineages(make(prefix="{").offset) == {0, 1}
    assert lineages(make(prefix="nobody").offset) == set()


@pytest.mark.slow
def test_another_store_at_the_same_path_is_refused(make: Make, folder: Path) -> None:
    stream = make(segment="{x}a")
    stream.batch()
    stream.reader.stop()
    shutil.rmtree(folder)
    siltstone.init(folder, containers=2)
    with siltstone.open(folder) as store:
        store.create("{x}a").append(b"another\nstore\n")
    stream.restart()
    with pytest.raises(LogLostError, match="or is another one"):
        stream.batch()


def put_back(folder: Path, lost: Callable[[], object]) -> None:
    """Let a killed store forget the effects of ``lost``: it gets back an older tier 1."""
    with siltstone.open(folder) as store:
        store.segment("{x}a").append(b"kept\n")
        shutil.copytree(folder / "tier1", folder / "tier1-older")
        store.segment("{x}a").append(b"lost\n")
        lost()
        shutil.copytree(folder / "chunks", folder / "chunks-older")
    for name in ("tier1", "chunks"):
        shutil.rmtree(folder / name)
        (folder / f"{name}-older").rename(folder / name)


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("other", [b"new\nand more\n", b"other lines\n"])
def test_a_stream_does_not_continue_after_bytes_that_tier_1_forgot(
    make: Make, folder: Path, other: bytes, restarted: bool
) -> None:
    stream = make(segment="{x}a")

    def lost() -> None:
        assert stream.values() == ["flushed", "kept", "lost"]

    put_back(folder, lost)
    append(folder, "{x}a", other)
    if restarted:
        stream.restart()
    with pytest.raises(LogLostError, match=r"put back to an older copy.*=\{x\}a start=\d+ end=18"):
        stream.batch()
    assert make(segment="{x}a").values() == ["flushed", "kept", *other.decode().splitlines()]


@pytest.mark.slow
def test_a_batch_that_was_planned_before_tier_1_forgot_is_not_planned_again(
    make: Make, folder: Path
) -> None:
    stream = make(segment="{x}a")
    planned: list[Any] = []
    put_back(folder, lambda: planned.append(stream.plan()))
    append(folder, "{x}a", b"new\nand more\n")
    stream.restart()
    ((start, end),) = planned
    with pytest.raises(LogLostError, match="put back to an older copy"):
        stream.rows_between(start, end)


@pytest.mark.slow
def test_a_checkpoint_without_sums_continues(make: Make, folder: Path) -> None:
    stream = make(segment="{x}a")
    assert stream.values() == ["flushed"]
    assert stream.offset["segments"]["{x}a"].pop("last") == {"length": 8, "sum": SUM}
    append(folder, "{x}a", b"more\n")
    stream.restart()
    assert stream.values() == ["more"]


@pytest.mark.slow
def test_truncation_takes_nothing_from_what_was_compared(make: Make, folder: Path) -> None:
    stream = make(segment="{x}a")
    assert stream.values() == ["flushed"]
    before = stream.offset
    with siltstone.open(folder) as store:
        store.segment("{x}a").truncate(5)
        store.flush()
    stream.restart()
    assert stream.batch() == []
    assert stream.offset == before
    append(folder, "{x}a", b"more\n")
    assert stream.values() == ["more"]
    assert stream.offset["segments"]["{x}a"]["last"]["length"] == 8
