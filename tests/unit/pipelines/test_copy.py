"""A copy has the bytes of its source, grows with it, and differs from anything else."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import siltstone
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.container.models.segments import SegmentInfo
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import GIB, MIB, container_of
from siltstone.core.errors import SettingsError
from siltstone.core.storage import optional_verbs
from siltstone.pipelines import copy_plan
from siltstone.pipelines.copy_plan import (
    CONFLICT,
    GROUP_BYTES,
    PART_BYTES,
    SESSION_BYTES,
    UNREADABLE,
    CopyOrigin,
    MissingRange,
    groups_of,
    origin_of,
    sessions_of,
)
from siltstone.pipelines.copy_segments import copy
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.owned_store import owned_store
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.verify_copy import plan_verify_copy, verify_copy
from siltstone.pipelines.verify_export import BEHIND, DIFFERS, MISSING, TRUNCATED
from siltstone.pipelines.work import (
    FAILED,
    OK,
    SAME,
    Item,
    ItemOutcome,
    PipelineError,
    Work,
)
from siltstone.store.store_assembly import open_storage
from tests.support.pipelines.copies import content, copied, verified, write
from tests.support.stores import chunk_path, flip, make_store
from tests.unit.pipelines.conftest import text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the source."""
    return make_store(tmp_path / "store", containers=1)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The folder of another store, whose chunks have other sizes."""
    return make_store(tmp_path / "target", chunk_bytes=10_000, containers=1)


@pytest.mark.slow
def test_a_copy_grows_with_its_source(folder: Path, tmp_path: Path) -> None:
    target = make_store(tmp_path / "wide", chunk_bytes=10_000, containers=2)
    with siltstone.open(folder) as store:
        for number in range(12):
            segment = store.create(f"s{number}", attributes={"colour": f"{number}"})
            segment.append(text(f"s{number}", 1_000 * number**2 + 5))
        store.flush()
        store.segment("s3").seal()
        store.create("empty")
        store.create("closed").seal()
        store.segment("s5").append(b"not flushed")
    first = copied(folder, target)
    assert set(first.values()) == {OK, SAME}
    assert content(target) == content(folder)
    assert set(verified(folder, target).values()) == {OK}
    assert set(copied(folder, target).values()) == {SAME}
    write(folder, s1=b"more", s7=b"x" * 50_000, new=b"new")
    with siltstone.open(folder) as store:
        store.segment("s1").seal()
    again = copied(folder, target)
    assert {name for name, status in again.items() if status == OK} == {"s1", "s7", "new"}
    assert content(target) == content(folder)
    with siltstone.open(target) as store:
        assert store.segment("s4").info().attributes["colour"] == "4"
        assert not [found for found in store.check() if found.severity == "damage"]
        store.collect()
        assert {finding.kind for finding in store.sweep()} <= {"waiting"}


@pytest.mark.slow
def test_a_truncated_segment_is_copied_from_where_it_begins(folder: Path, target: Path) -> None:
    data = text("a", 40_000)
    write(folder, a=data)
    with siltstone.open(folder) as store:
        store.segment("a").truncate(12_345)
        store.flush()
    copied(folder, target)
    assert content(target)["a"] == (data[12_345:], False)
    assert set(verified(folder, target).values()) == {OK}
    write(folder, a=b"tail")
    with siltstone.open(folder) as store:
        store.segment("a").truncate(30_000)
    found = verified(folder, target)
    assert found["a"] in {TRUNCATED, BEHIND}
    assert found["a[30000:40000]"] == OK
    assert copied(folder, target) == {"a": OK}
    assert content(target)["a"] == (data[12_345:] + b"tail", False)


@pytest.mark.slow
def test_what_is_no_copy_is_left_alone(folder: Path, target: Path) -> None:
    write(folder, a=b"ours", b=b"ours", c=b"ours", d=b"ours")
    write(target, a=b"theirs")
    assert copied(folder, target) == {"a": CONFLICT, "b": OK, "c": OK, "d": OK}
    write(target, b=b"and more than the source has")
    with siltstone.open(folder) as store:
        store.segment("c").delete()
        store.create("c").append(b"another one")
        store.segment("d").append(b"gone before it was copied")
        store.segment("d").truncate(20)
    assert copied(folder, target) == {"a": CONFLICT, "b": CONFLICT, "c": CONFLICT, "d": CONFLICT}
    assert content(target)["a"] == (b"theirs", False)
    assert content(target)["c"] == (b"ours", False)
    found = verified(folder, target)
    assert found["b"] == DIFFERS
    assert found["c"] == DIFFERS
    with pytest.raises(SettingsError, match="not copied into itself"):
        copied(folder, folder)


@pytest.mark.slow
def test_damage_of_one_segment_keeps_no_other_from_being_copied(folder: Path, target: Path) -> None:
    data = {f"s{number}": text(f"s{number}", 9_000) for number in range(4)}
    write(folder, **data)
    with siltstone.open(folder) as store:
        store.flush()
        name = list(store.segment("s2").chunks())[1].chunk
    flip(chunk_path(folder, name), 9)
    found = copied(folder, target)
    assert found == {"s0": OK, "s1": OK, "s2": UNREADABLE, "s3": OK}
    assert content(target)["s2"] == (b"", False)
    flip(chunk_path(folder, name), 9)
    assert copied(folder, target)["s2"] == OK
    assert content(target) == content(folder)


@pytest.mark.slow
def test_a_difference_is_found_where_it_is(folder: Path, target: Path) -> None:
    write(folder, a=text("a", 30_000), b=b"b")
    copied(folder, target)
    with siltstone.open(target) as store:
        store.flush()
        name = next(iter(store.segment("a").chunks())).chunk
        store.segment("b").delete()
    flip(chunk_path(target, name), 9)
    assert verified(folder, target) == {"a[0:30000]": UNREADABLE, "b": MISSING}
    with siltstone.open(target) as store:
        store.segment("a").delete()
        store.create("a").append(text("a", 29_990) + b"other byte")
    assert verified(folder, target)["a[0:30000]"] == DIFFERS


@pytest.mark.slow
@pytest.mark.parametrize("position", [0, 65_535, 65_536, 199_999])
def test_a_difference_is_told_with_its_place(folder: Path, target: Path, position: int) -> None:
    data = bytearray(text("a", 200_000))
    write(folder, a=bytes(data))
    data[position] ^= 1
    write(target, a=bytes(data))
    with store_view(folder) as view, store_view(target) as there:
        items, _ = plan_verify_copy(view, there, view.segments())
        (found,) = verify_copy(view, there, LocalExecutor(2), items)
    assert (found.status, found.message) == (DIFFERS, f"bytes differ from {position} on")


@pytest.mark.slow
def test_a_copy_opens_its_target_twice_and_reads_a_far_source_by_few_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to write chunks, however many tasks there are, and once to write notes."""
    source = make_store(tmp_path / "source", chunk_bytes=64 * MIB)
    target = make_store(tmp_path / "target", chunk_bytes=10 * MIB)
    write(source, **{f"s{number}": b"small" for number in range(9)})
    with siltstone.open(source) as store:
        segment = store.create("a")
        for _ in range(10):
            segment.append(text("a", 2 * MIB))
        store.flush()
    opened, read = [], []
    read_into = NfsChunkStorage.read_into

    def opening(*given: Any, **named: Any) -> ChunkStorage:
        opened.append(given)
        return open_storage(*given, **named)

    def reading(storage: NfsChunkStorage, name: str, offset: int, buffer: memoryview) -> int:
        read.append(len(buffer))
        return read_into(storage, name, offset, buffer)

    monkeypatch.setattr("siltstone.store.handles.import_writer.open_storage", opening)
    monkeypatch.setattr(NfsChunkStorage, "read_into", reading)
    monkeypatch.setattr(optional_verbs, "immediate_reads", lambda storage: None)
    monkeypatch.setattr(copy_plan, "GROUP_BYTES", MIB)
    with store_view(source) as view, owned_store(target) as owned:
        index = container_of("a", 2)
        chosen = [one for one in view.segments() if container_of(one.name, 2) == index]
        assert len(chosen) > 2
        read.clear()
        for outcome in copy(view, owned, LocalExecutor(2), chosen):
            assert outcome.status == OK
    assert len(opened) == 2
    assert [length for length in read if length >= MIB] == [8 * MIB, 2 * MIB] * 2


@pytest.mark.slow
def test_the_target_is_claimed_before_anything_is_done(folder: Path, target: Path) -> None:
    write(folder, a=b"ours")
    with siltstone.open(target), pytest.raises(siltstone.StoreInUseError):
        copied(folder, target)
    assert content(target) == {}


class Failing:
    """Loses the outcomes of some tasks, or runs them twice, as Spark may."""

    workers = 2

    def __init__(
        self, change: Callable[[list[ItemOutcome]], list[ItemOutcome]], times: int = 1
    ) -> None:
        self.change = change
        self.times = times

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        kept = [list(pack) for pack in packs]
        found: list[ItemOutcome] = []
        for _ in range(self.times):
            found = list(LocalExecutor(2).run(work, kept))
        yield from self.change(found)

    def close(self) -> None:
        pass


@pytest.mark.slow
def test_tasks_that_ran_twice_leave_one_copy_and_no_garbage(folder: Path, target: Path) -> None:
    write(folder, a=text("a", 1_500_000))
    copied(folder, target, Failing(lambda found: found, times=2))
    assert content(target) == content(folder)
    with siltstone.open(target) as store:
        store.collect()
        assert {finding.kind for finding in store.sweep()} <= {"waiting"}
        assert not [found for found in store.check() if found.severity == "damage"]


@pytest.mark.slow
def test_a_task_that_failed_leaves_its_segment_as_it_was(folder: Path, target: Path) -> None:
    write(folder, a=text("a", 1_200_000), b=b"b")

    def fail(found: list[ItemOutcome]) -> list[ItemOutcome]:
        big = max(found, key=lambda outcome: outcome.length)
        bad = ItemOutcome(subject=big.subject, status=FAILED, message="no answer")
        return [bad if outcome is big else outcome for outcome in found]

    assert copied(folder, target, Failing(fail))["a"] == FAILED
    assert content(target)["a"] == (b"", False)
    assert copied(folder, target)["a"] == OK
    assert content(target) == content(folder)


@pytest.mark.slow
def test_nothing_becomes_visible_of_what_did_not_all_come_back(folder: Path, target: Path) -> None:
    write(folder, a=text("a", 30_000), b=b"b")
    with pytest.raises(PipelineError, match=r"not all that was copied came back segment=a"):
        copied(folder, target, Failing(lambda found: found[:-1]))
    assert {name: data for name, (data, _) in content(target).items()} == {"a": b"", "b": b""}
    assert set(copied(folder, target).values()) == {OK}
    assert content(target) == content(folder)


@pytest.mark.slow
def test_a_killed_copy_continues(folder: Path, target: Path) -> None:
    write(folder, **{f"s{number}": text(f"{number}", 200_000) for number in range(3)})
    with siltstone.open(folder) as store:
        store.flush()
    command = [sys.executable, "-m", "siltstone", "copy", str(folder), str(target)]
    # At this rate, which counts bytes in chunks, it is not finished before it is killed.
    command += ["--threads", "1", "--rate", "10KiB"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not list(target.glob("chunks/**/import/**/*")):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert set(copied(folder, target).values()) <= {OK, SAME}
    assert content(target) == content(folder)
    assert set(verified(folder, target).values()) == {OK}


INFO = SegmentInfo(
    name="a",
    segment_id=1,
    start_offset=0,
    length=0,
    flushed_length=0,
    sealed=False,
    created_ms=0,
    retention=None,
    attributes={},
)


@given(st.lists(st.tuples(st.integers(0, 5 * GIB), st.integers(1, 3 * GIB)), max_size=8))
def test_sessions_and_tasks_hold_all_in_order(ranges: list[tuple[int, int]]) -> None:
    lacks = [MissingRange(info=INFO, start=start, stop=start + count) for start, count in ranges]
    sessions = list(sessions_of(lacks))
    assert sum(lack.stop - lack.start for session in sessions for lack in session) == sum(
        count for _, count in ranges
    )
    position = 0
    flat = [lack for session in sessions for lack in session]
    for start, count in ranges:
        at = start
        while at < start + count:
            assert flat[position].start == at
            at = flat[position].stop
            position += 1
        assert at == start + count
    for session in sessions:
        assert sum(lack.stop - lack.start for lack in session) <= SESSION_BYTES
        groups = list(groups_of(session))
        parts = [part for group in groups for part in group]
        assert all(part.stop - part.start <= PART_BYTES for part in parts)
        for group in groups:
            assert len(group) == 1 or sum(p.stop - p.start for p in group) <= GROUP_BYTES


def test_small_segments_share_a_task() -> None:
    lacks = [MissingRange(info=INFO, start=0, stop=16_384) for _ in range(400)]
    (session,) = sessions_of(lacks)
    assert len(list(groups_of(session))) == 1
    assert len(list(groups_of([MissingRange(info=INFO, start=0, stop=256 * MIB)]))) == 8


@pytest.mark.parametrize(
    "mark", ["", "a", "a/1", "a/1/2", "a/b/2/c", "a/1/x/c", "a/-1/2/c", "a/1/2/c/d"]
)
def test_what_is_no_mark_is_none(mark: str) -> None:
    assert origin_of(mark) is None
    origin = CopyOrigin(store="u", segment_id=4, base=7, lineage="0a")
    assert origin_of(origin.text()) == origin
