"""The file manifest: round trips, damage, contradictions, and the example on its page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.checksums import crc32c
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.file_manifest import (
    HEAD_BYTES,
    FileManifest,
    ManifestChunk,
    ManifestFile,
    ManifestHead,
    ManifestPin,
    ManifestRun,
    decode_file_manifest,
    decode_manifest_head,
    encode_file_manifest,
)
from tests.support.docs.format_page import example

PAGE = "file-manifest.md"
TIME_MS = 1_700_000_000_123
U64 = st.integers(0, 2**64 - 1)
TEXT = st.text(max_size=40)
MANIFEST = FileManifest(
    head=ManifestHead(
        container=1,
        expires_ms=TIME_MS + 86_400_000,
        made_ms=TIME_MS,
        store_id=bytes.fromhex("6f1c2d3e4a5b4c6d8e9fa0b1c2d3e4f5"),
        verify=True,
    ),
    pins=(
        ManifestPin(
            container=1, lineage=bytes(range(16)), version=1_300, name="system/pins/1-5eed"
        ),
    ),
    chunks=(ManifestChunk(uri="s3a://b/x", length=300_000),),
    files=(
        ManifestFile(
            path="flights/2013",
            segment="flights/2013",
            offset=7,
            length=12,
            runs=(
                ManifestRun(
                    length=12, chunk=0, chunk_offset=262_140, sums=(0x11223344, 0x55667788)
                ),
            ),
        ),
    ),
)


@st.composite
def manifests(draw: st.DrawFn) -> FileManifest:
    chunks = draw(
        st.lists(
            st.builds(ManifestChunk, uri=TEXT, length=st.integers(1, 3 * BLOCK_BYTES)),
            min_size=1,
            max_size=3,
        )
    )
    files = []
    for path in draw(st.lists(TEXT, max_size=3)):
        runs = []
        for _ in range(draw(st.integers(0, 3))):
            index = draw(st.integers(0, len(chunks) - 1))
            begin = draw(st.integers(0, chunks[index].length - 1))
            end = draw(st.integers(begin + 1, chunks[index].length))
            count = -(-end // BLOCK_BYTES) - begin // BLOCK_BYTES
            sums = draw(st.lists(st.integers(0, 2**32 - 1), min_size=count, max_size=count))
            runs.append(
                ManifestRun(length=end - begin, chunk=index, chunk_offset=begin, sums=tuple(sums))
            )
        files.append(
            ManifestFile(
                path=path,
                segment=draw(TEXT),
                offset=draw(U64),
                length=sum(run.length for run in runs),
                runs=tuple(runs),
            )
        )
    head = st.builds(
        ManifestHead,
        container=st.integers(0, 2**32 - 1),
        expires_ms=U64,
        made_ms=U64,
        store_id=st.binary(min_size=16, max_size=16),
        verify=st.booleans(),
    )
    pin = st.builds(
        ManifestPin,
        container=st.integers(0, 9),
        lineage=st.binary(min_size=16, max_size=16),
        version=U64,
        name=TEXT,
    )
    return FileManifest(
        head=draw(head),
        pins=tuple(draw(st.lists(pin, max_size=2))),
        chunks=tuple(chunks),
        files=tuple(files),
    )


@pytest.mark.slow
@given(manifests())
def test_it_comes_back(manifest: FileManifest) -> None:
    raw = encode_file_manifest(manifest)
    assert decode_file_manifest(raw, where="x") == manifest
    assert decode_manifest_head(raw[:HEAD_BYTES], where="x") == manifest.head


def test_the_page_decodes() -> None:
    assert decode_file_manifest(example(PAGE), where=PAGE) == MANIFEST
    assert encode_file_manifest(MANIFEST) == example(PAGE)


def test_every_changed_byte_and_every_cut_is_corrupt() -> None:
    raw = encode_file_manifest(MANIFEST)
    damaged = [raw[:length] for length in range(len(raw))]
    damaged += [raw[:n] + bytes([raw[n] ^ 0x41]) + raw[n + 1 :] for n in range(len(raw))]
    for data in [*damaged, raw + b"x"]:
        with pytest.raises(CorruptDataError) as caught:
            decode_file_manifest(data, where="the object")
        assert caught.value.where == "the object"


@pytest.mark.parametrize(("index", "value"), [(4, 2), (6, 2)], ids=["version", "flags"])
def test_what_a_newer_one_would_say_is_a_format_error(index: int, value: int) -> None:
    raw = bytearray(encode_file_manifest(MANIFEST))
    raw[index] = value
    raw[56:60] = crc32c(raw[:56]).to_bytes(4, "little")
    with pytest.raises(FormatError, match="unknown version"):
        decode_file_manifest(raw, where="x")


@pytest.mark.parametrize(
    "change",
    [
        lambda run: replace(run, chunk=1),
        lambda run: replace(run, sums=run.sums[:1]),
        lambda run: replace(run, chunk_offset=299_990),
        lambda run: replace(run, length=13),
    ],
    ids=["no such chunk", "a sum missing", "beyond the chunk", "another length"],
)
def test_a_run_that_contradicts_the_rest_is_corrupt(
    change: Callable[[ManifestRun], ManifestRun],
) -> None:
    file = MANIFEST.files[0]
    wrong = replace(MANIFEST, files=(replace(file, runs=(change(file.runs[0]),)),))
    with pytest.raises(CorruptDataError, match="run"):
        decode_file_manifest(encode_file_manifest(wrong), where="x")
