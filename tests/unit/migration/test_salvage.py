"""Salvage of whole stores: the verdicts, and which bytes come back in the new store.

Injected: a deleted chunk, a damaged one, a journal with a hole, no metadata at all, SIGKILL in the
middle. What must hold: only what a checkpoint proves is called exact, bytes that come back were
appended, and the older store is unchanged.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import siltstone
from siltstone.container.recovery.lost_chunks import chunk_lengths
from siltstone.core.chunk_names import data_chunk, segment_folder
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.migration.salvage import SalvagedSegment, SalvageReport, Verdict, salvage_store
from tests.golden.feature_store import CHUNK_BYTES, make, text
from tests.support.migration.salvaged_store import chunks, made


@dataclass(frozen=True)
class Older:
    """A store without tier 1.

    Attributes:
        folder: where it is; tests only copy it.
        shown: start and bytes of each segment.
    """

    folder: Path
    shown: dict[str, tuple[int, bytes]]


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Older:
    folder = tmp_path_factory.mktemp("older") / "store"
    make(folder)
    for name in ("tier1", "index"):
        shutil.rmtree(folder / name)
    with siltstone.open(folder, recover="read-only") as store:
        shown = {
            info.name: (
                info.start_offset,
                store.segment(info.name).read(info.start_offset, info.length),
            )
            for info in store.list()
        }
    return Older(folder, shown)


@pytest.fixture
def copy(older: Older, tmp_path: Path) -> Path:
    shutil.copytree(older.folder, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return made(tmp_path / "new")


def by_name(report: SalvageReport) -> dict[str, SalvagedSegment]:
    found = {segment.name: segment for segment in report.segments}
    assert len(found) == len(report.segments)
    return found


def contents(folder: Path) -> dict[str, bytes]:
    """All bytes of all segments except those made from tables."""
    with siltstone.open(folder, read_only=True) as store:
        assert all(info.sealed for info in store.list())
        return {
            info.name: store.segment(info.name).read(0, max(1, info.length))
            for info in store.list()
            if not info.name.endswith(".table")
        }


def digest(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
def test_with_whole_metadata_all_is_exact(older: Older, new: Path) -> None:
    before = digest(older.folder)
    report = salvage_store(older.folder, new)
    assert report.doubts == {}
    assert {s.verdict for s in report.segments} == {Verdict.EXACT}
    assert contents(new) == {f"salvage/{name}": data for name, (_, data) in older.shown.items()}
    with siltstone.open(new, read_only=True) as store:
        attributes = store.segment("salvage/cut").info().attributes
        assert attributes["salvage.offset"] == str(CHUNK_BYTES + 9)
        assert attributes["salvage.verdict"] == "exact"
    assert digest(older.folder) == before


@pytest.mark.slow
@pytest.mark.parametrize("what", ["deleted", "damaged"])
def test_a_lost_chunk_costs_its_bytes_and_nothing_else(
    older: Older, copy: Path, new: Path, what: str
) -> None:
    chunk = chunks(copy, "chunks/*.chunk")[1]
    if what == "deleted":
        chunk.unlink()
    else:
        data = bytearray(chunk.read_bytes())
        data[100] ^= 4
        chunk.write_bytes(data)
    report = salvage_store(copy, new)
    found = by_name(report)
    hurt = found.pop("chunks")
    assert {segment.verdict for segment in found.values()} == {Verdict.EXACT}
    assert hurt.verdict is Verdict.GUESSED
    ((missing),) = hurt.missing
    assert (missing.offset, missing.length) == (CHUNK_BYTES, CHUNK_BYTES)
    assert chunk.name in missing.reason
    whole = older.shown["chunks"][1]
    back = contents(new)
    assert back[f"salvage/chunks@{0:020d}"] == whole[:CHUNK_BYTES]
    assert back[f"salvage/chunks@{2 * CHUNK_BYTES:020d}"] == whole[2 * CHUNK_BYTES :]
    assert "salvage/chunks" not in back


@pytest.mark.slow
def test_after_an_older_checkpoint_the_names_of_chunks_say_what_there_is(
    older: Older, copy: Path, new: Path
) -> None:
    for path in chunks(copy, "journal-*")[-3:-1]:
        path.unlink()
    report = salvage_store(copy, new)
    assert report.doubts[0]
    found = by_name(report)
    grown, late = found["chunks"], found["second owner"]
    assert (grown.verdict, grown.proven) == (Verdict.PREFIX, 3 * CHUNK_BYTES + 7)
    assert (late.verdict, late.proven) == (Verdict.PREFIX, None)
    others = {
        segment.verdict for name, segment in found.items() if name not in ("chunks", late.name)
    }
    assert others == {Verdict.EXACT}
    back = contents(new)
    for name in ("chunks", "second owner", "target", "brought", "small/00"):
        assert back[f"salvage/{name}"] == older.shown[name][1], name


@pytest.mark.slow
def test_chunks_younger_than_the_newest_state_come_back(tmp_path: Path, new: Path) -> None:
    older = made(tmp_path / "older")
    with (older / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write(f"\nsegments:\n  chunk_size: {CHUNK_BYTES}\n")
    whole = text("grown", 2 * CHUNK_BYTES)
    with siltstone.open(older) as store:
        segment = store.create("grown")
        segment.append(whole[:CHUNK_BYTES])
        store.create("dropped").append(text("dropped", CHUNK_BYTES))
        store.flush()
        store.segment("dropped").delete()
        store.flush()
        store.checkpoint()
    (known,) = chunks(older, "grown/*.chunk")
    # A chunk of a flush after the last update of the tables, and one of a flush in doubt.
    for start, chunk_id, data in (
        (CHUNK_BYTES, 2**40, whole[CHUNK_BYTES:]),
        (0, 2**41, whole[:100]),
    ):
        path = older / "chunks" / data_chunk(0, 2, "grown", start, chunk_id)
        path.write_bytes(data)
    assert known.exists()
    for name in ("tier1", "index"):
        shutil.rmtree(older / name)
    report = salvage_store(older, new)
    assert report.doubts == {}
    found = by_name(report)
    assert set(found) == {"grown"}
    assert found["grown"].proven == CHUNK_BYTES
    assert found["grown"].verdict is Verdict.PREFIX
    assert contents(new) == {"salvage/grown": whole}


@pytest.mark.slow
def test_without_metadata_nothing_is_exact_and_nothing_is_invented(
    older: Older, copy: Path, new: Path
) -> None:
    shutil.rmtree(copy / "chunks" / "system")
    found = by_name(salvage_store(copy, new))
    assert {
        name: segment.verdict.value for name, segment in found.items() if "/c0/" not in name
    } == {
        "chunks": "prefix",
        "cut": "prefix",
        "second owner": "prefix",
        "small/00": "guessed",
        "source": "prefix",
    }
    assert {s.verdict for name, s in found.items() if "/c0/" in name} == {Verdict.GUESSED}
    back = contents(new)
    assert back["salvage/cut"] == text("cut", 2 * CHUNK_BYTES)
    assert back["salvage/source"] in older.shown["target"][1]
    (shared,) = chunks(copy, "_shared/*")
    assert back[f"salvage/{shared.relative_to(copy / 'chunks')}"] == shared.read_bytes()


def by_hand(folder: Path, *files: tuple[int, str, int, int, bytes]) -> Path:
    """Long-term storage with only these chunks: epoch, segment, start, id and bytes of each."""
    made(folder)
    shutil.rmtree(folder / "chunks" / "system")
    for epoch, name, start, chunk_id, data in files:
        path = folder / "chunks" / data_chunk(0, epoch, name, start, chunk_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


@pytest.mark.slow
def test_chunks_of_several_epochs(tmp_path: Path, new: Path) -> None:
    long_name = "n" * 150
    store = by_hand(
        tmp_path / "older",
        (1, "taken over", 0, 1, b"acknowledged" + b"never"),
        (2, "taken over", 12, 1_000, b" and again"),
        (1, "unsure", 0, 2, b"0123456789"),
        (2, "unsure", 4, 1_001, b"x"),
        (1, long_name, 0, 3, b"hashed"),
    )
    found = by_name(salvage_store(store, new))
    assert found["taken over"].verdict is Verdict.PREFIX
    assert found["unsure"].verdict is Verdict.GUESSED
    assert "reaches beyond the end" in found["unsure"].why[0]
    hashed = found[segment_folder(long_name)]
    assert (hashed.verdict, "hash" in hashed.why[0]) == (Verdict.GUESSED, True)
    back = contents(new)
    assert back["salvage/taken over"] == b"acknowledged and again"
    assert back["salvage/unsure"] == b"0123x56789"


KILLED = """
import os, signal, sys
from siltstone.store.handles.async_segment import AsyncSegment
from siltstone.migration.salvage import salvage_store

verb, left = sys.argv[3], int(sys.argv[4])
real = getattr(AsyncSegment, verb)

async def killed(self, *args, **kwargs):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return await real(self, *args, **kwargs)

setattr(AsyncSegment, verb, killed)
salvage_store(sys.argv[1], sys.argv[2])
"""


@pytest.mark.slow
def test_a_killed_salvage_is_repeated(older: Older, new: Path) -> None:
    before = digest(older.folder)
    kills = 0
    for verb, count in (("append", 2), ("append", 9), ("seal", 3), ("append", 8), ("seal", 30)):
        arguments = [str(older.folder), str(new), verb, str(count)]
        ran = subprocess.run(
            [sys.executable, "-c", KILLED, *arguments],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        assert ran.returncode in (-signal.SIGKILL, 0)
        kills += ran.returncode != 0
    assert kills >= 4
    report = salvage_store(older.folder, new)
    assert report.done == len(older.shown) + len(report.tables)
    assert contents(new) == {f"salvage/{name}": data for name, (_, data) in older.shown.items()}
    assert salvage_store(older.folder, new).copied == 0
    assert digest(older.folder) == before


@pytest.mark.slow
def test_what_is_not_of_this_salvage_is_left_alone(older: Older, new: Path) -> None:
    with siltstone.open(new) as store:
        store.create("salvage/sealed").append(b"somebody's")
    with pytest.raises(siltstone.SegmentExistsError, match="not of this salvage"):
        salvage_store(older.folder, new)
    with siltstone.open(new) as store:
        assert store.segment("salvage/sealed").read(0, 99) == b"somebody's"


def test_a_store_is_not_salvaged_into_itself(tmp_path: Path) -> None:
    store = made(tmp_path / "one")
    with pytest.raises(siltstone.StoreError, match="into itself"):
        salvage_store(store, store)


@pytest.mark.slow
def test_what_an_owner_drops_meanwhile_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = siltstone.init(tmp_path / "store")
    with settings.open("a", encoding="utf-8") as file:
        file.write("garbage:\n  delay: 0s\n")
    with siltstone.open(settings) as store:
        store.create("a").append(b"first life")
        store.flush()

        async def lengths(storage: AsyncChunkStorage, container: int) -> dict[str, int]:
            found = await chunk_lengths(storage, container)
            store.segment("a").delete()
            store.create("a").append(b"second")
            for _ in range(2):
                store.flush()
                store.collect()
                store.checkpoint()
            assert found.keys() != (await chunk_lengths(storage, container)).keys()
            return found

        with monkeypatch.context() as patch:
            patch.setattr("siltstone.migration.salvage.discovery.chunk_lengths", lengths)
            with pytest.raises(siltstone.StoreInUseError, match="an owner changes what is looked"):
                salvage_store(settings)
        (segment,) = salvage_store(settings).segments
        assert (segment.verdict, segment.missing) == (Verdict.EXACT, ())
