"""Tier 1 and every local disk are gone, and one file of long-term storage with them.

Injected: each file of a store's long-term storage is deleted in turn, then damaged in turn. What
must hold: the report names exactly the bytes that are lost; all others are read as they were
appended; nothing else is shown; and the store continues from there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import siltstone
from siltstone import RecoveryReport
from siltstone.core.records.envelope import RecordKind, claimed_kind
from tests.golden.feature_store import CHUNK_BYTES, make, text
from tests.support.faults.shown_rows import Shown, shown_by

Runs = list[tuple[int, int, str]]
"""Offset, length and chunk of each run of a segment's bytes."""


@dataclass(frozen=True)
class Lost:
    """A store without tier 1 and without local disks.

    Attributes:
        folder: where it lies; only copied.
        shown: what it shows.
        runs: where the readable bytes of each segment lie.
    """

    folder: Path
    shown: Shown
    runs: dict[str, Runs]

    def files(self, kind: str = "") -> list[str]:
        chunks = self.folder / "chunks"
        paths = [path for path in chunks.rglob("*") if path.is_file()]
        return sorted(name for path in paths if kind in (name := str(path.relative_to(chunks))))


def look(folder: Path) -> Shown:
    """Read everything without tier 1."""
    with siltstone.open(folder, recover="read-only") as store:
        return shown_by(store)


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Lost:
    folder = tmp_path_factory.mktemp("lost") / "store"
    make(folder)
    for name in ("tier1", "index"):
        shutil.rmtree(folder / name)
    with siltstone.open(folder, recover="read-only") as store:
        runs: dict[str, Runs] = {}
        for info in store.list():
            found = store.segment(info.name).chunks()
            runs[info.name] = [
                (start, run.start + run.length - start, run.chunk)
                for run in found
                if (start := max(run.start, info.start_offset)) < run.start + run.length
            ]
    return Lost(folder, look(folder), runs)


@pytest.fixture
def copy(lost: Lost, tmp_path: Path) -> Callable[[], Path]:
    def again() -> Path:
        folder = tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(lost.folder, folder)
        return folder

    return again


@contextmanager
def harmed(path: Path, harm: Callable[[Path], None]) -> Iterator[None]:
    """Harm a file for a while."""
    content = path.read_bytes()
    harm(path)
    try:
        yield
    finally:
        path.write_bytes(content)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def named(report: RecoveryReport) -> dict[str, Runs]:
    """What the report says is lost, by segment."""
    return {
        segment.name: [(lost.offset, lost.length, lost.chunk) for lost in segment.lost]
        for segment in report.segments
        if segment.lost
    }


def told(report: RecoveryReport) -> bool:
    """Whether it says that the state is not the newest."""
    return bool(report.damage or report.lost_version is not None)


def test_without_damage_all_that_was_flushed_is_there(lost: Lost) -> None:
    (report,) = siltstone.recover(lost.folder)
    assert (report.state, report.damage, report.lost_version, report.warnings) == (
        "lost",
        "",
        None,
        (),
    )
    assert named(report) == {}
    start, data = lost.shown.segments["tail"]
    assert (start, len(data or b"")) == (0, 600)
    assert "only in tier 1" not in lost.shown.segments
    assert lost.shown.segments["cut"][0] == CHUNK_BYTES + 9
    joined = text("target", 100) + text("source", 2**19) + text("source", 2**19 + 5)
    assert lost.shown.segments["target"] == (0, joined)
    assert lost.shown.tables["t"][b"with"] == b"an append"
    assert b"key 3" not in lost.shown.tables["t"]


def test_each_chunk_that_is_deleted_is_named_with_its_bytes(
    lost: Lost, copy: Callable[[], Path]
) -> None:
    chunks = [*lost.files("data/"), *lost.files("import/")]
    assert len(chunks) > 25
    some = [name for name in chunks if "/source/" not in name] + lost.files("/source/")[:1]
    folder = copy()
    for chunk in some:
        with harmed(folder / "chunks" / chunk, Path.unlink):
            (report,) = siltstone.recover(folder)
            seen = look(folder)
        gone = {name: [run for run in runs if run[2] == chunk] for name, runs in lost.runs.items()}
        assert named(report) == {name: runs for name, runs in gone.items() if runs}, chunk
        assert seen.tables == lost.shown.tables
        for name, whole in lost.shown.segments.items():
            assert seen.segments[name] == ((whole[0], None) if gone[name] else whole), chunk


def test_the_other_bytes_of_a_segment_are_readable(lost: Lost, copy: Callable[[], Path]) -> None:
    folder = copy()
    (_, length, first), *others = lost.runs["chunks"]
    (folder / "chunks" / first).unlink()
    with siltstone.open(folder, recover="read-only") as store:
        segment = store.segment("chunks")
        with pytest.raises(siltstone.LostDataError):
            segment.read(length - 1, 1)
        whole = lost.shown.segments["chunks"][1]
        assert whole is not None
        assert segment.read(length, len(whole)) == whole[length:]
        (warning,) = [text for text in store.stats()[0].warnings if "segment chunks" in text]
        assert f"bytes 0 to {length} are lost" in warning
        assert len(others) == 4


def test_each_chunk_that_is_damaged_is_found_by_a_deep_check(
    lost: Lost, copy: Callable[[], Path]
) -> None:
    folder = copy()
    damaged = [name for name in lost.files("data/") if "/source/" not in name][::3]
    damaged += lost.files("import/")[:1]
    for chunk in damaged:
        flip(folder / "chunks" / chunk)
    with siltstone.open(folder, recover="read-only") as store:
        found = {f.where for f in store.check(deep=True) if f.severity == "damage"}
    assert found == {chunk for chunk in damaged if in_rows(lost, chunk)}
    hit = {n for n, runs in lost.runs.items() if any(run[2] in damaged for run in runs)}
    seen = look(folder)
    for name, whole in lost.shown.segments.items():
        assert seen.segments[name] == ((whole[0], None) if name in hit else whole)


def in_rows(lost: Lost, chunk: str) -> bool:
    """Whether any readable byte lies there; a truncated segment's first chunk has none."""
    return any(run[2] == chunk for runs in lost.runs.values() for run in runs)


@pytest.mark.parametrize("harm", [Path.unlink, flip, cut], ids=["deleted", "damaged", "cut"])
def test_each_system_file_that_is_harmed(
    lost: Lost, copy: Callable[[], Path], harm: Callable[[Path], None]
) -> None:
    """The state before it is used; the report says so whenever anything is missing from it."""
    older = []
    folder = copy()
    newest = siltstone.recover(folder)[0].cut_version
    for name in lost.files("system/"):
        with harmed(folder / "chunks" / name, harm):
            (report,) = siltstone.recover(folder)
            seen = look(folder)
        if seen != lost.shown:
            assert told(report), name
            assert report.lost_version == newest, name
            older.append(name.rpartition("/")[2].partition("-")[0])
        else:
            assert not told(report), name
            assert named(report) == {}, name
        for segment, (start, data) in seen.segments.items():
            if segment in lost.shown.segments and data is not None:
                check_beginning(segment, start, data, lost.shown.segments[segment])
    # The newest batch, and the two chunks of the table log; all else is there twice.
    assert sorted(older) == ["journal", "tables", "tables"]


def check_beginning(name: str, start: int, data: bytes, whole: tuple[int, bytes | None]) -> None:
    assert whole[1] is not None
    assert whole[0] >= start
    kept = data[whole[0] - start :]
    assert kept == whole[1][: len(kept)], name


def test_a_journal_with_a_hole_goes_back_to_what_stands_before_it(
    lost: Lost, copy: Callable[[], Path]
) -> None:
    folder = copy()
    names = lost.files("journal-")
    kinds = [claimed_kind((folder / "chunks" / name).read_bytes()) for name in names]
    assert kinds[-3:] == [RecordKind.CHECKPOINT, RecordKind.CHECKPOINT, RecordKind.JOURNAL_BATCH]
    for name in names[-3:-1]:
        (folder / "chunks" / name).unlink()
    with pytest.raises(siltstone.CorruptDataError):
        siltstone.open(folder)
    (report,) = siltstone.recover(folder, accept_loss=True)
    assert "no whole checkpoint" in report.damage
    assert report.lost_version is not None
    with siltstone.open(folder) as store:
        seen = shown_by(store)
        assert seen.tables == lost.shown.tables
        assert "second owner" not in seen.segments
        store.segment("chunks").append(b"on")
        store.flush()
        assert [f for f in store.check() if f.severity == "damage"] == []


@pytest.mark.parametrize(
    "patterns", [["journal-*"], ["journal-*", "claim"], ["journal-*", "claim", "tables-*"]]
)
def test_without_any_journal_a_container_is_not_taken_for_a_new_one(
    copy: Callable[[], Path], patterns: list[str]
) -> None:
    folder = copy()
    for pattern in patterns:
        for path in (folder / "chunks" / "system").rglob(pattern):
            path.unlink()
    for opened in (
        lambda: siltstone.open(folder),
        lambda: siltstone.open(folder, recover="read-only"),
        lambda: siltstone.recover(folder, accept_loss=True),
    ):
        with pytest.raises(siltstone.CorruptDataError, match="the journal is gone"):
            opened()


@pytest.mark.parametrize("harm", [Path.unlink, flip], ids=["deleted", "damaged"])
def test_the_object_of_the_store_is_written_again(
    lost: Lost, copy: Callable[[], Path], harm: Callable[[Path], None]
) -> None:
    folder = copy()
    place = folder / "chunks" / "system" / "store"
    before = place.read_bytes()
    harm(place)
    (report,) = siltstone.recover(folder)
    assert report.store
    assert place.exists() == (harm is flip)
    (report,) = siltstone.recover(folder, accept_loss=True)
    assert report.done
    kept = [path.read_bytes() for path in place.parent.glob("store-damaged-*")]
    assert len(kept) == (harm is flip)
    assert all(data != before for data in kept)
    with siltstone.open(folder) as store:
        assert store.uuid in (folder / "siltstone.yaml").read_text(encoding="utf-8")
        assert shown_by(store) == lost.shown
    assert siltstone.recover(folder)[0].store == ""


def test_a_store_continues_from_chunks_alone(lost: Lost, copy: Callable[[], Path]) -> None:
    folder = copy()
    (report,) = siltstone.recover(folder, accept_loss=True)
    assert report.done
    with siltstone.open(folder) as store:
        assert shown_by(store) == lost.shown
        assert store.segment("tail").append(b"on") == 600
        store.flush()
        store.checkpoint()
    with siltstone.open(folder, recover="read-only") as store:
        assert store.segment("tail").read(600, 10) == b"on"


def test_a_reader_without_tier_1_changes_nothing(lost: Lost, copy: Callable[[], Path]) -> None:
    folder = copy()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    with siltstone.open(folder, recover="read-only") as store:
        assert store.read_only
        with pytest.raises(siltstone.ReadOnlyError):
            store.segment("tail").append(b"x")
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert after == before
    with pytest.raises(ValueError, match="exclude each other"):
        siltstone.open(folder, recover="read-only", takeover=True)
    with pytest.raises(ValueError, match="recover is"):
        siltstone.open(folder, recover="all")  # type: ignore[arg-type]


def test_a_log_that_cannot_be_reached_is_not_asked(lost: Lost, copy: Callable[[], Path]) -> None:
    folder = copy()
    settings = folder / "siltstone.yaml"
    written = settings.read_text(encoding="utf-8")
    begin = written.index("tier1:\n")
    end = written.index("\n\n", begin)
    # The broker of a region that is gone; nothing listens there.
    log = "tier1:\n  log: kafka\n  kafka:\n    servers: 127.0.0.1:1\n    topic: gone"
    settings.write_text(written[:begin] + log + written[end:], encoding="utf-8")
    assert look(folder) == lost.shown
