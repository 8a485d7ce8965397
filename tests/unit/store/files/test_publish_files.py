"""Publishing segments as files, without Spark: the manifest leads to exactly these bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.core.checksums import crc32c
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import (
    CapabilityError,
    NotFlushedError,
    OffsetError,
    SegmentNotFoundError,
    SegmentTruncatedError,
)
from siltstone.core.records.file_manifest import (
    FileManifest,
    ManifestFile,
    decode_file_manifest,
)
from siltstone.store.files.name_match import NameMatch
from siltstone.store.files.publish import PublishedFiles


def manifest_of(folder: Path, found: PublishedFiles) -> FileManifest:
    raw = (folder / "chunks" / found.name).read_bytes()
    return decode_file_manifest(raw, where=found.name)


def content(manifest: FileManifest, file: ManifestFile) -> bytes:
    """Read a file like a program that knows nothing about stores."""
    data = bytearray()
    for run in file.runs:
        chunk = manifest.chunks[run.chunk]
        assert chunk.uri.startswith("file:///")
        raw = Path(chunk.uri.removeprefix("file://")).read_bytes()[: chunk.length]
        first = run.chunk_offset // BLOCK_BYTES
        for number, wanted in enumerate(run.sums, first):
            assert crc32c(raw[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES]) == wanted
        data += raw[run.chunk_offset : run.chunk_offset + run.length]
    return bytes(data)


def contents(folder: Path, found: PublishedFiles) -> dict[str, bytes]:
    manifest = manifest_of(folder, found)
    assert [file.path for file in found.files] == [
        f"{found.uri}/{file.path}" for file in manifest.files
    ]
    return {file.segment: content(manifest, file) for file in manifest.files}


@pytest.mark.slow
def test_files_hold_all_that_was_acknowledged_or_what_is_flushed(
    store: siltstone.Store, folder: Path, name: str
) -> None:
    names = [f"{name}/{part}" for part in ("a", "a/b", "_c d", "empty")]
    data = {each: each.encode() * 50_000 for each in names[:3]} | {names[3]: b""}
    for each in names:
        segment = store.create(each)
        if data[each]:
            segment.append(data[each][:1_000])
            segment.flush()
            segment.append(data[each][1_000:])
            segment.flush()
        segment.append(b"tail")
    found = store.publish_files(names, flushed_only=True)
    assert contents(folder, found) == data
    assert {file.segment: file.unflushed for file in found.files} == dict.fromkeys(names, 4)
    by_prefix = store.publish_files([f"{name}/"], match=NameMatch.PREFIX)
    whole = {each: text + b"tail" for each, text in data.items()}
    assert contents(folder, by_prefix) == whole
    by_glob = store.publish_files([f"{name}/?"], match=NameMatch.GLOB)
    assert contents(folder, by_glob) == {names[0]: whole[names[0]]}


def test_a_reader_publishes_next_to_the_owner(
    store: siltstone.Store, folder: Path, segment: siltstone.Segment
) -> None:
    segment.append(b"abc")
    segment.flush()
    with siltstone.open(folder, read_only=True) as reader:
        found = reader.publish_files([segment.name])
    assert contents(folder, found) == {segment.name: b"abc"}
    assert not [finding for finding in store.check() if "files" in finding.where]
    assert not [finding for finding in store.sweep() if "files" in finding.name]


def test_a_reader_refuses_to_leave_out_what_is_not_flushed_unless_it_is_told_to(
    store: siltstone.Store, folder: Path, name: str
) -> None:
    names = [f"{name}/{part}" for part in "ab"]
    for each in names:
        store.create(each).append(b"abc")
        store.flush()
    store.segment(names[1]).append(b"tail")
    pins = sorted((folder / "chunks" / "system" / "pins").glob("*"))
    with siltstone.open(folder, read_only=True) as reader:
        for texts, match in ((names, NameMatch.NAME), ([f"{name}/"], NameMatch.PREFIX)):
            with pytest.raises(NotFlushedError, match="siltstone flush") as refused:
                reader.publish_files(texts, match=match)
            assert (refused.value.segment, refused.value.unflushed) == (names[1], 4)
        assert sorted((folder / "chunks" / "system" / "pins").glob("*")) == pins, "none is left"
        assert contents(folder, reader.publish_files(names[:1])) == {names[0]: b"abc"}
        for found in (
            reader.publish_files(names, flushed_only=True),
            reader.publish_files(names, at={names[1]: 3}),
        ):
            assert contents(folder, found) == dict.fromkeys(names, b"abc")
    assert store.segment(names[1]).info().flushed_length == 3


def test_an_older_length_and_a_later_start(
    store: siltstone.Store, folder: Path, segment: siltstone.Segment
) -> None:
    segment.append(b"0123456789")
    segment.flush()
    segment.append(b"tail")
    segment.truncate(3)
    found = store.publish_files([segment.name], at={segment.name: 7})
    assert contents(folder, found) == {segment.name: b"3456"}
    assert [(file.offset, file.length) for file in found.files] == [(3, 4)]
    segment.append(b"tail")
    for wrong, error in ((2, SegmentTruncatedError), (15, OffsetError), (99, OffsetError)):
        with pytest.raises(error):
            store.publish_files([segment.name], at={segment.name: wrong}, flushed_only=True)
    segment.truncate(16)
    found = store.publish_files([segment.name], flushed_only=True)
    assert [(file.offset, file.length, file.unflushed) for file in found.files] == [(16, 0, 2)]


def test_what_is_wrong_is_refused(store: siltstone.Store, segment: siltstone.Segment) -> None:
    with pytest.raises(ValueError, match="sequence"):
        store.publish_files([])
    with pytest.raises(ValueError, match="sequence"):
        store.publish_files("a")
    for ttl_s in (0, -1, 31 * 86_400):
        with pytest.raises(ValueError, match="ttl"):
            store.publish_files([segment.name], ttl_s=ttl_s)
    with pytest.raises(SegmentNotFoundError):
        store.publish_files(["nobody"])
    with pytest.raises(SegmentNotFoundError, match="glob"):
        store.publish_files(["nobody*"], match=NameMatch.GLOB)
    with pytest.raises(SegmentNotFoundError, match="not read"):
        store.publish_files([segment.name], at={"nobody": 1})
    for at in (5, "5", {segment.name: "5"}, {segment.name: 5.0}, {segment.name: True}):
        with pytest.raises(TypeError, match="at is"):
            store.publish_files([segment.name], at=at)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at must be"):
        store.publish_files([segment.name], at={segment.name: -1})


def test_storage_without_addresses_is_refused(
    store: siltstone.Store, segment: siltstone.Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "siltstone.bindings.nfs.chunk_storage.NfsChunkStorage.uri_of"
    monkeypatch.setattr(place, lambda *_: None)
    with pytest.raises(CapabilityError, match="as files"):
        store.publish_files([segment.name])
