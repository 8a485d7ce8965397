"""Tier 1 is whole, and one file of a store is not: what a recovery says, and what is really lost.

Injected: each file of a small store is deleted, cut to its half, and changed by one bit, in turn.
What must hold: the report says so wherever the store needs the file; it names exactly the bytes
that are lost, and those that tier 1 keeps; and after the recovery all but the lost ones are read as
they were appended.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import siltstone
from siltstone import RecoveryReport, RecoveryState, Store
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.constants import BLOCK_BYTES
from siltstone.tier1.file.reader import FileLogReader

SETTINGS = """
flush:
  age: 1h
  table_age: 1h
optimiser:
  enabled: false
garbage:
  delay: 1h
"""
LONG = 2 * BLOCK_BYTES + 1_000
Tables = dict[str, dict[bytes, bytes]]
Ranges = list[tuple[int, int]]
"""Begin and end of each range of a segment."""


def pattern(name: str, length: int) -> bytes:
    """Bytes of which no two blocks are equal."""
    return b"".join(b"%s %d\n" % (name.encode(), number) for number in range(length // 4))[:length]


def make(folder: Path) -> None:
    settings = siltstone.init(folder)
    written = settings.read_text(encoding="utf-8")
    written = written.replace("path: ./tier1", "path: ./tier1\n    file_bytes: 1MiB")
    settings.write_text(written + SETTINGS, encoding="utf-8")
    with siltstone.open(folder) as store:
        store.create("long").append(pattern("long", LONG))
        store.create("sealed").append(pattern("sealed", 500))
        store.segment("sealed").seal()
        store.create_table("t").put(b"1", b"before the checkpoint")
        store.flush()
        store.checkpoint()
        store.create("short").append(pattern("short", 700))
        store.table("t").put(b"2", b"behind it")
        store.flush()
    with siltstone.open(folder) as store:
        store.segment("short").append(b"second owner")
        store.table("t").put(b"3", b"of the second owner")
        store.flush()
        store.checkpoint()
        store.segment("long").append(b"only in tier 1")
        store.create("late").append(b"never flushed")
        store.table("t").put(b"4", b"only in tier 1")


@dataclass(frozen=True)
class Whole:
    """A store that is not harmed.

    Attributes:
        folder: where it lies; only copied.
        segments: all bytes of each.
        tables: content of each.
        runs: offset, end, chunk and offset in it of what lies in chunks, by segment.
        appends: begin and end of each append, by segment.
    """

    folder: Path
    segments: dict[str, bytes]
    tables: Tables
    runs: dict[str, list[tuple[int, int, str, int]]]
    appends: dict[str, Ranges]

    def files(self, folder: str, kind: str = "") -> list[str]:
        found = (path for path in (self.folder / folder).rglob(f"{kind}*") if path.is_file())
        return sorted(str(path.relative_to(self.folder)) for path in found)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole") / "store"
    make(folder)
    with siltstone.open(folder, read_only=True) as store:
        segments = {
            info.name: store.segment(info.name).read(0, info.length) for info in store.list()
        }
        runs = {
            name: [
                (run.start, run.start + run.length, run.chunk, run.chunk_offset)
                for run in store.segment(name).chunks()
            ]
            for name in segments
        }
        appends = {
            "long": [(0, LONG), (LONG, len(segments["long"]))],
            "sealed": [(0, 500)],
            "short": [(0, 700), (700, len(segments["short"]))],
        }
        return Whole(folder, segments, tables_of(store), runs, appends)


def tables_of(store: Store) -> Tables:
    return {
        name: {key: value.value for key, value in store.table(name).scan()}
        for name in store.list_tables()
    }


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data.rstrip(b"\0")) // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data.rstrip(b"\0")) // 2] ^= 1
    path.write_bytes(data)


HARMS: dict[str, Callable[[Path], None]] = {"deleted": Path.unlink, "cut": cut, "changed": flip}


@dataclass(frozen=True)
class Harmed:
    """Copies of the store with one harmed file, one after the other.

    Attributes:
        whole: the store.
        folder: of the copy.
        harm: what is done to the file.
    """

    whole: Whole
    folder: Path
    harm: str

    def __call__(self, name: str) -> RecoveryReport:
        """Copy the store, harm one file and look."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.whole.folder, self.folder)
        HARMS[self.harm](self.folder / name)
        (report,) = siltstone.recover(self.folder, deep=True)
        return report


@pytest.fixture(params=HARMS)
def harmed(request: pytest.FixtureRequest, whole: Whole, tmp_path: Path) -> Harmed:
    return Harmed(whole, tmp_path / "copy", request.param)


def kept_of(report: RecoveryReport) -> dict[str, Ranges]:
    return {
        segment.name: [(kept.offset, kept.offset + kept.length) for kept in segment.kept]
        for segment in report.segments
        if segment.kept
    }


def lost_of(report: RecoveryReport) -> dict[str, Ranges]:
    return {
        segment.name: [(lost.offset, lost.offset + lost.length) for lost in segment.lost]
        for segment in report.segments
        if segment.lost
    }


def check_content(
    folder: Path, whole: Whole, lost: dict[str, Ranges], lengths: dict[str, int] | None = None
) -> Tables:
    """Check each byte of each segment: what is lost is refused, all else is as it was."""
    expected = {name: len(data) for name, data in whole.segments.items()}
    with siltstone.open(folder, read_only=True) as store:
        assert {info.name: info.length for info in store.list()} == (lengths or expected)
        for name, length in (lengths or expected).items():
            segment, position = store.segment(name), 0
            for begin, end in [*lost.get(name, []), (length, length)]:
                data = segment.read(position, begin - position)
                assert data == whole.segments[name][position:begin], name
                if begin < end:
                    with pytest.raises(siltstone.CorruptDataError):
                        segment.read(begin, end - begin)
                position = end
        return tables_of(store)


def mended(folder: Path, before: RecoveryReport) -> None:
    """Recover; what was named before is what is lost, and nothing is left to do."""
    (report,) = siltstone.recover(folder, accept_loss=True)
    assert report.done
    assert (report.segments, report.lost_version) == (before.segments, before.lost_version)
    (report,) = siltstone.recover(folder, deep=True)
    assert not report.needs_recovery
    assert lost_of(report) == lost_of(before)


def test_without_harm_it_is_healthy(whole: Whole) -> None:
    (report,) = siltstone.recover(whole.folder, deep=True)
    assert (report.state, report.harm, report.warnings) == (RecoveryState.HEALTHY, (), ())
    assert set(whole.runs) == {"long", "sealed", "short", "late"}


def test_next_to_an_owner_at_work_nothing_seems_wrong(whole: Whole, tmp_path: Path) -> None:
    """It flushes, writes checkpoints and deletes what they make needless, while others look."""
    folder = Path(shutil.copytree(whole.folder, tmp_path / "copy"))
    settings = (folder / "siltstone.yaml").read_text(encoding="utf-8")
    (folder / "siltstone.yaml").write_text(settings.replace("delay: 1h", "delay: 0s"))

    def work() -> None:
        with siltstone.open(folder) as store:
            for number in range(12):
                store.create(f"s{number}").append(b"x" * 1_000)
                store.checkpoint()
                if number:
                    store.segment(f"s{number - 1}").delete()
                store.flush()
                store.collect()

    owner = threading.Thread(target=work)
    owner.start()
    looks: list[RecoveryReport] = []
    while owner.is_alive():
        with suppress(siltstone.StoreInUseError):  # the owner was faster than each of several looks
            looks += siltstone.recover(folder)
    owner.join()
    looks += siltstone.recover(folder)
    assert {look.state for look in looks} == {RecoveryState.HEALTHY}


def test_journal_files_that_go_before_each_listing_of_a_look(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner makes checkpoints, and no longer needs the one that is being looked at."""
    folder = Path(shutil.copytree(whole.folder, tmp_path / "copy"))
    list_of = NfsChunkStorage.list
    left = [0]
    with siltstone.open(folder) as store:

        def list_later(
            storage: NfsChunkStorage, prefix: str = "", start_after: str = ""
        ) -> Iterator[ChunkStat]:
            left[0] -= 1
            if left[0] == 0:
                for turn in range(3):
                    store.create(f"s{number}-{turn}")
                    store.flush()
                    store.checkpoint()
            return list_of(storage, prefix, start_after)

        monkeypatch.setattr(NfsChunkStorage, "list", list_later)
        for number in range(1, 9):
            left[0] = number
            (report,) = siltstone.recover(folder)
            assert report.state is RecoveryState.HEALTHY
            left[0] = 0


def test_a_log_that_is_truncated_under_a_look(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner truncates between the look at the first frame and the read from there on."""
    folder = Path(shutil.copytree(whole.folder, tmp_path / "copy"))
    first_of = FileLogReader.first
    moved: list[int] = []
    with siltstone.open(folder) as store:

        def first(reader: FileLogReader) -> int:
            index = first_of(reader)
            if not moved:
                store.flush()
                store.checkpoint()
                store.flush()
                moved.append(first_of(reader) - index)
            return index

        monkeypatch.setattr(FileLogReader, "first", first)
        (report,) = siltstone.recover(folder)
    assert moved[0] > 0
    assert report.state is RecoveryState.HEALTHY


def in_tier_1(folder: Path, data: bytes) -> bool:
    """Whether files of the log hold these bytes; each append of the store is in one frame."""
    return any(data in path.read_bytes() for path in (folder / "tier1").rglob("*.log"))


def without(ranges: Ranges, gone: Ranges) -> Ranges:
    """What is left of ``ranges`` without those of ``gone``."""
    for begin, end in gone:
        ranges = [
            part
            for low, high in ranges
            for part in ((low, min(high, begin)), (max(low, end), high))
            if part[0] < part[1]
        ]
    return ranges


def test_each_chunk_of_segments(whole: Whole, harmed: Harmed) -> None:
    """Exactly its bytes are lost that tier 1 does not keep; a recovery puts back the others."""
    kept_count = lost_count = 0
    for name in whole.files("chunks/data"):
        report = harmed(name)
        chunk = name.removeprefix("chunks/")
        ((segment, begin, end),) = [
            (segment, begin, end)
            for segment, runs in whole.runs.items()
            for begin, end, at, _ in runs
            if at == chunk
        ]
        half = (end - begin) // 2
        gone = {
            "deleted": (begin, end),
            "cut": (begin + half // BLOCK_BYTES * BLOCK_BYTES, end),
            "changed": (
                begin + half // BLOCK_BYTES * BLOCK_BYTES,
                min(end, begin + (half // BLOCK_BYTES + 1) * BLOCK_BYTES),
            ),
        }[harmed.harm]
        data = whole.segments[segment]
        appends = whole.appends[segment]
        kept = [
            (max(low, gone[0]), min(high, gone[1]))
            for low, high in appends
            if low < gone[1] and high > gone[0] and in_tier_1(whole.folder, data[low:high])
        ]
        lost = {segment: ranges} if (ranges := without([gone], kept)) else {}
        assert report.state is RecoveryState.DAMAGED
        assert (lost_of(report), report.harm) == (lost, ())
        assert without(kept, kept_of(report).get(segment, [])) == []
        assert without(kept_of(report).get(segment, []), kept) == []
        assert report.needs_recovery == bool(kept)
        before = {segment: [gone]}
        assert check_content(harmed.folder, whole, before) == whole.tables
        if kept:
            old = (harmed.folder / name).read_bytes() if harmed.harm != "deleted" else None
            mended(harmed.folder, report)
            assert check_content(harmed.folder, whole, lost) == whole.tables
            if old is None:
                assert not (harmed.folder / name).exists()
            else:
                assert (harmed.folder / name).read_bytes() == old
        kept_count += bool(kept)
        lost_count += bool(lost)
    assert kept_count
    assert lost_count


def test_each_file_of_index_checkpoints_and_the_table_log(whole: Whole, harmed: Harmed) -> None:
    """Each is named, tier 1 makes up for it, and a recovery writes it again."""
    names = whole.files("chunks/system", "tables-") + whole.files("chunks/system", "index-")
    if harmed.harm != "deleted":
        names = names[:3]
    for name in names:
        report = harmed(name)
        assert report.state is RecoveryState.DAMAGED
        (harm,) = report.harm
        assert name.removeprefix("chunks/") in harm
        assert (lost_of(report), report.lost_version, report.damage) == ({}, None, "")
        assert report.needs_recovery
        if name in names[1:4]:
            mended(harmed.folder, report)
        assert check_content(harmed.folder, whole, {}) == whole.tables


def test_each_other_file_of_long_term_storage(whole: Whole, harmed: Harmed) -> None:
    """Nothing is lost, whatever file it was. Damage is reported, unless the file is not needed."""
    journal = whole.files("chunks/system", "journal-")
    assert len(journal) == 4
    checkpoint = journal[-2]  # the last one says where the log ended when it was closed
    for name in [*journal, "chunks/system/store", *whole.files("chunks/system", "claim")]:
        report = harmed(name)
        damaged = harmed.harm != "deleted"
        assert (lost_of(report), report.lost_version, report.damage) == ({}, None, "")
        assert bool(report.store) == (name == "chunks/system/store")
        if name in journal:
            assert any(name.removeprefix("chunks/") in text for text in report.warnings) == damaged
            assert bool(report.harm) == (damaged and name == checkpoint)
        if report.needs_recovery:
            mended_store(harmed.folder, report)
        assert check_content(harmed.folder, whole, {}) == whole.tables


def mended_store(folder: Path, report: RecoveryReport) -> None:
    if report.state is RecoveryState.DAMAGED:
        mended(folder, report)
        return
    siltstone.recover(folder, accept_loss=True)
    assert not siltstone.recover(folder)[0].needs_recovery


def test_each_file_of_tier_1(whole: Whole, harmed: Harmed) -> None:
    """What is left of the log is kept, and the report says up to where."""
    for name in whole.files("tier1"):
        report = harmed(name)
        assert (lost_of(report), report.harm, report.damage) == ({}, (), "")
        if not report.needs_recovery:
            assert check_content(harmed.folder, whole, {}) == whole.tables
            continue
        assert report.state is RecoveryState.LOST
        if report.reason.startswith("the marker was lost"):
            # That file holds no frame, and the log has another marker.
            (report,) = siltstone.recover(harmed.folder, accept_loss=True)
            assert not report.needs_recovery
            assert "is mended: the marker was lost" in report.warnings[-1]
            assert check_content(harmed.folder, whole, {}) == whole.tables
            continue
        mended(harmed.folder, report)
        lengths = {segment.name: segment.length for segment in report.segments}
        assert lengths != {name: len(data) for name, data in whole.segments.items()}
        tables = check_content(harmed.folder, whole, {}, lengths)
        assert tables["t"].items() < whole.tables["t"].items()
