"""``doctor``: a sound store is reported as such, and each fault has its line."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.container.models.log_views import FrameView
from siltstone.core.constants import container_of
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkAccessDeniedError
from siltstone.core.records.log_file_header import (
    FRAMES_OFFSET,
    HEADER_BYTES,
    decode_log_file_header,
)
from siltstone.store.admin import doctor as doctor_module
from siltstone.store.admin.inspection import open_inspection
from tests.support.command import Command


def _by_name(command: Command) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    ran = command("doctor", "--json")
    return ran.code, {(value["area"], value["name"]): value for value in ran.values}


@pytest.fixture
def written(folder: Path) -> Path:
    with siltstone.open(folder) as store:
        for name in ("{a}", "{b}"):
            store.create(name).append(b"bytes")
    return folder


@pytest.mark.slow
def test_a_whole_store_is_well(command: Command, written: Path) -> None:
    before = sorted(path for path in (written / "chunks").rglob("*") if path.is_file())
    code, found = _by_name(command)
    assert code == 0
    assert not [value for value in found.values() if value["outcome"] == "failed"]
    assert {area for area, _ in found} == {
        "storage",
        "clock",
        "log",
        "container",
        "space",
        "leftovers",
        "collections",
    }
    assert found["clock", "long-term storage"]["outcome"] == "ok"
    assert "not held" in found["log", "container 1"]["detail"]
    assert sorted(path for path in (written / "chunks").rglob("*") if path.is_file()) == before
    with siltstone.open(written):
        assert "pid=" in _by_name(command)[1]["log", "container 0"]["detail"]
    assert command("doctor").out.startswith("ok ")


@pytest.mark.slow
def test_a_lost_log_is_told(command: Command, written: Path) -> None:
    shutil.rmtree(written / "tier1" / "c1")
    code, found = _by_name(command)
    assert code == 1
    lost = found["log", "container 1"]
    assert (lost["outcome"], "siltstone recover" in lost["detail"]) == ("failed", True)
    assert found["log", "container 0"]["outcome"] == "ok"


@pytest.mark.slow
def test_a_log_without_the_newest_frame_that_counts_is_told(
    command: Command, written: Path
) -> None:
    with siltstone.open(written) as store:
        store.segment("{a}").append(b"more")
        store.flush()
    where = container_of("{a}", 2)
    with open_inspection(written) as inspection:
        journal_state = asyncio.run(inspection.journal_state(where))
        frames = list(inspection.frames(where))
    assert journal_state is not None
    cut_before(written / "tier1" / f"c{where}", journal_state.newest_index, frames)
    shutil.rmtree(written / "index")
    code, found = _by_name(command)
    assert command("ls").code == 6
    assert code == 1
    assert found["container", f"container {where}"]["outcome"] == "failed"


def cut_before(folder: Path, index: int, frames: list[FrameView]) -> None:
    """Let the log end before a frame of its newest owner."""
    newest = [frame for frame in frames if frame.epoch == frames[-1].epoch]
    assert newest[0].index <= index
    file = folder / f"e{newest[0].epoch:020d}-00000000.log"
    header = decode_log_file_header(file.read_bytes()[:HEADER_BYTES])
    assert header is not None
    kept = sum(frame.size for frame in newest if frame.index < index)
    end = FRAMES_OFFSET + header.copy_length + kept
    data = file.read_bytes()
    file.write_bytes(data[:end] + bytes(len(data) - end))


@pytest.mark.slow
def test_storage_that_cannot_be_written(command: Command, written: Path) -> None:
    (written / "chunks" / "system" / "doctor").write_text("no folder")
    code, found = _by_name(command)
    assert code == 1
    assert found["storage", "create is exclusive"]["outcome"] == "failed"


@pytest.mark.slow
def test_storage_that_refuses_every_chunk_says_why_once(
    command: Command, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: NfsChunkStorage, name: str, buffers: object) -> None:
        raise ChunkAccessDeniedError("read-only", chunk=name, operation="create")

    monkeypatch.setattr(NfsChunkStorage, "create", refuse)
    monkeypatch.setattr(NfsChunkStorage, "create_whole", refuse)
    code, found = _by_name(command)
    assert code == 1
    failed = [name for name, value in found.items() if value["outcome"] == "failed"]
    assert failed == [("storage", "create is exclusive")]
    assert "read-only" in found[failed[0]]["detail"]
    for name in (("storage", "ranges"), ("storage", "deletion"), ("clock", "long-term storage")):
        assert found[name]["outcome"] == "skipped"
        assert found[name]["detail"] == "no chunk can be created"


@pytest.mark.slow
def test_leftovers_are_told_and_removed(command: Command, written: Path) -> None:
    left = written / "chunks" / "system" / "doctor" / "0123" / "x"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"x")
    os.utime(left, (1_000_000_000, 1_000_000_000))
    (written / "tier1" / "c0-aside-1").mkdir()
    code, found = _by_name(command)
    assert code == 0
    assert found["leftovers", "interrupted doctors"]["detail"] == "1 chunk deleted"
    assert not left.exists()
    assert found["leftovers", "logs set aside"]["outcome"] == "warning"


@pytest.mark.slow
def test_wrong_clocks_and_little_room(
    command: Command, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_module, "ROOM_BYTES", 2**62)
    environment = SystemEnvironment
    real = environment.time
    monkeypatch.setattr(environment, "time", lambda self: real(self) - 100.0)
    code, found = _by_name(command)
    assert code == 0
    assert found["space", "tier 1"]["outcome"] == "warning"
    assert found["clock", "long-term storage"]["outcome"] == "warning"
    assert "ahead of this clock" in found["log", "container 0"]["detail"]
