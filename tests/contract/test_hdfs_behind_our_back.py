"""What others do to a folder of HDFS, and how much room they leave, on a real server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import siltstone
from services.hdfs import COPIES, Hdfs
from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage
from siltstone.core.chunk_storage import UNLIMITED
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    ChunkStorageFullError,
    CorruptDataError,
    LostDataError,
    Outcome,
)
from tests.support.services.hdfs_services import HdfsService, new_folder, options_of
from tests.support.services.raw_hdfs import RawHdfs

CONTENT = bytes(range(251)) * 400


def _replaced(raw: RawHdfs, name: str) -> None:
    raw.write(name, bytes(byte ^ 1 for byte in raw.read(name) or b""))


def _shortened(raw: RawHdfs, name: str) -> None:
    raw.write(name, (raw.read(name) or b"")[:-1])


CHANGES: dict[str, tuple[Callable[[RawHdfs, str], object], type[Exception]]] = {
    "replaced": (_replaced, CorruptDataError),
    "shortened": (_shortened, LostDataError),
    "emptied": (lambda raw, name: raw.write(name, b""), LostDataError),
    "deleted": (lambda raw, name: raw.remove(name), LostDataError),
}


@pytest.mark.usefixtures("hdfs_plugin")
def test_a_file_that_was_changed_is_never_read_wrongly(hdfs: Hdfs, tmp_path: Path) -> None:
    path = new_folder()
    raw = RawHdfs(hdfs.endpoint, path)
    file = siltstone.init(tmp_path / "store", binding="hdfs", options=options_of(hdfs, path))
    raw.write("theirs", b"x")
    with siltstone.open(file) as store:
        for name in ("whole", *CHANGES):
            segment = store.create(name)
            for _ in range(2):
                segment.append(CONTENT)
                segment.flush()
        for name, (act, expected) in CHANGES.items():
            segment = store.segment(name)
            first, second = (found.chunk for found in segment.chunks())
            act(raw, second)
            assert segment.read(0, len(CONTENT)) == CONTENT
            for start in (0, len(CONTENT), 2 * len(CONTENT) - 10):
                with pytest.raises(expected) as caught:
                    segment.read(start, 2 * len(CONTENT))
                assert second in str(caught.value)
                assert first not in str(caught.value)
        assert store.segment("whole").read(0, 2 * len(CONTENT)) == CONTENT * 2
    assert raw.read("theirs") == b"x"


def _room(hdfs: Hdfs) -> int:
    """Bytes that the NameNode knows its DataNodes to have room for, a copy of each on every one."""
    told = hdfs.beans("Hadoop:service=NameNode,name=NameNodeInfo")["Free"]
    return int(str(told)) // COPIES


def test_room_is_what_the_datanodes_have_and_the_quota_leaves(hdfs: Hdfs) -> None:
    service = HdfsService(server=hdfs, more={"block_size": MIB})
    storage = HdfsChunkStorage(service.settings)
    silent = HdfsChunkStorage(service.settings.model_copy(update={"webhdfs": ()}))
    assert 0 < storage.free_space() < UNLIMITED
    assert silent.free_space() == UNLIMITED
    storage.create("a", [CONTENT])
    quota = COPIES * 4 * MIB
    service.raw.set_quota(quota)
    left = quota // COPIES - len(CONTENT)
    assert silent.free_space() == left
    # What the DataNodes have changes meanwhile: files that others write reserve whole blocks.
    before, found, after = _room(hdfs), storage.free_space(), _room(hdfs)
    assert min(left, before, after) <= found <= min(left, max(before, after))
    with pytest.raises(ChunkStorageFullError) as caught:
        storage.create("b", [bytes(5 * MIB)])
    assert caught.value.outcome in (Outcome.NOT_APPLIED, Outcome.UNKNOWN)
    if caught.value.outcome is Outcome.NOT_APPLIED:
        assert service.outside_read("b") is None
    storage.create("c", [b"small"])
    assert storage.used_space() >= len(CONTENT) + 5
    storage.close()
    silent.close()
