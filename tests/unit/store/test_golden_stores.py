"""Stores of each version open in this one with exactly their content."""

from __future__ import annotations

import io
import json
import lzma
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.core.checksums import crc32c
from siltstone.core.records.envelope import MAGIC, TRAILER_BYTES, RecordKind, claimed_kind
from siltstone.core.records.frame import MAGIC as FRAME_MAGIC
from siltstone.core.records.frame import decode_frame
from tests.golden.feature_store import content
from tests.golden.make import ARCHIVE, FOLDER, WHOLE, WITHOUT_LOG
from tests.support.docs.format_page import example

# The settings of the first store have a key that is now a constant.
pytestmark = pytest.mark.filterwarnings("ignore:.*checkpoint.age. no longer:FutureWarning")

VERSIONS = sorted(path.parent.name for path in FOLDER.glob(f"*/{ARCHIVE}"))
NEWER = 200


def expected(version: str, name: str) -> Any:
    return json.loads((FOLDER / version / name).read_text(encoding="utf-8"))


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(version: str, tmp_path: Path) -> Path:
    packed = lzma.decompress((FOLDER / version / ARCHIVE).read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tmp_path / "store", filter="data")
    return tmp_path / "store"


def test_this_version_has_one() -> None:
    assert siltstone.__version__ in VERSIONS


def test_a_reader_shows_what_it_held(version: str, folder: Path) -> None:
    with siltstone.open(folder, read_only=True) as store:
        assert content(store) == expected(version, WHOLE)
        assert [f for f in store.check(deep=True) if f.severity == "damage"] == []


def test_an_owner_continues_with_it(version: str, folder: Path) -> None:
    with siltstone.open(folder) as store:
        whole = expected(version, WHOLE)
        assert content(store) == whole
        length = whole["segments"]["tail"]["length"]
        assert store.segment("tail").append(b"on") == length
        # The writer's last append is repeated and takes place once.
        assert store.segment("once").writer("w").append(b"once", sequence=2) == len(b"exactly ")
        store.flush()
        store.checkpoint()
    with siltstone.open(folder, read_only=True) as store:
        assert store.segment("tail").read(length, 9) == b"on"


@pytest.mark.slow
def test_so_does_a_recovery_without_its_log(version: str, folder: Path) -> None:
    shutil.rmtree(folder / "tier1")
    with siltstone.open(folder, recover="read-only") as store:
        assert content(store) == expected(version, WITHOUT_LOG)
    siltstone.recover(folder, accept_loss=True)
    with siltstone.open(folder, read_only=True) as store:
        assert content(store) == expected(version, WITHOUT_LOG)


def newer(data: bytes) -> bytes:
    """The first record of some bytes, as a newer version would have written it."""
    changed = bytearray(data)
    changed[5] = NEWER
    length = 12 + int.from_bytes(changed[8:12], "little")
    changed[length : length + TRAILER_BYTES] = crc32c(changed[:length]).to_bytes(4, "little")
    return bytes(changed)


def records(folder: Path) -> Iterator[tuple[Path, RecordKind]]:
    """The newest file of each kind of record on long-term storage."""
    found: dict[RecordKind, Path] = {}
    for path in sorted((folder / "chunks" / "system").rglob("*")):
        if path.is_file() and path.read_bytes()[:4] == MAGIC:
            kind = claimed_kind(path.read_bytes())
            assert kind is not None
            found[RecordKind(kind)] = path
    yield from ((path, kind) for kind, path in found.items())


@pytest.mark.parametrize(
    "kind", [RecordKind.STORE_MANIFEST, RecordKind.CHECKPOINT, RecordKind.JOURNAL_BATCH]
)
def test_a_store_with_a_newer_record_is_refused_and_stays_as_it_is(
    folder: Path, kind: RecordKind
) -> None:
    (path,) = (path for path, found in records(folder) if found is kind)
    path.write_bytes(newer(path.read_bytes()))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    record = kind.name.lower().replace("_", " ")
    for opened in (
        lambda: siltstone.open(folder),
        lambda: siltstone.open(folder, read_only=True),
        lambda: siltstone.open(folder, recover="read-only"),
        lambda: siltstone.recover(folder, accept_loss=True),
    ):
        with pytest.raises(siltstone.FormatError) as caught:
            opened()
        assert (caught.value.record, caught.value.found) == (record, NEWER)
        assert caught.value.known is not None
        assert path.name in str(caught.value)
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    kept = {path: data for path, data in after.items() if "chunks" in path.parts}
    assert kept == {path: data for path, data in before.items() if "chunks" in path.parts}


def newer_header(data: bytearray) -> None:
    """Let the header of a log file be one of a newer version."""
    length = len(example("log-file.md"))
    data[5] = NEWER
    data[length - 4 : length] = crc32c(data[: length - 4]).to_bytes(4, "little")


def newer_frame(data: bytearray) -> None:
    """Let the last frame of a log file be one of a newer version."""
    start = data.rindex(FRAME_MAGIC)
    frame = decode_frame(data[start:])
    assert frame is not None
    end = start + frame.size - 4
    data[start + 5] = NEWER
    data[end : end + 4] = crc32c(data[start:end]).to_bytes(4, "little")


def newer_marker(data: bytearray) -> None:
    """Let both slots of the marker be of a newer version."""
    length = len(example("marker.md"))
    for start in (0, 512):
        end = start + length - 4
        data[start + 5] = NEWER
        data[end : end + 4] = crc32c(data[start:end]).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("record", "change", "file"),
    [
        ("log file", newer_header, "*.log"),
        ("frame", newer_frame, "*.log"),
        ("marker slot", newer_marker, "marker"),
    ],
)
def test_a_log_with_a_newer_record_is_refused_and_stays_as_it_is(
    folder: Path, record: str, change: Callable[[bytearray], None], file: str
) -> None:
    files = sorted((folder / "tier1" / "c0").glob(file))
    path = next(path for path in reversed(files) if path.read_bytes()[:4] != bytes(4))
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    for read_only in (True, False):
        with pytest.raises(siltstone.FormatError) as caught:
            siltstone.open(folder, read_only=read_only)
        assert (caught.value.record, caught.value.found) == (record, NEWER)
    assert path.read_bytes() == data
