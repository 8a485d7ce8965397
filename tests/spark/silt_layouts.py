"""Files of ``silt://`` laid out by hand: any bytes, cut anywhere, in chunks of any shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from hypothesis import strategies as st

from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.records.file_manifest import (
    FileManifest,
    ManifestChunk,
    ManifestFile,
    ManifestHead,
    ManifestRun,
    encode_file_manifest,
)
from siltstone.core.storage.block_sums import extend_sums

FAR = 2**62
"""Milliseconds since 1970: no manifest of a test expires."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One run of a layout.

    Attributes:
        length: bytes of the file.
        lead: foreign bytes before them in the chunk.
        chunk: which chunk; chunks hold runs of several places, in any order.
    """

    length: int
    lead: int
    chunk: int


leads = st.sampled_from([0, 0, 0, 1, 7, BLOCK_BYTES - 3, BLOCK_BYTES, BLOCK_BYTES + 1])


@st.composite
def layouts(draw: st.DrawFn, length: int) -> list[Cut]:
    """Any layout of a file of this many bytes."""
    inner = st.integers(1, max(1, length - 1))
    borders = sorted({0, length, *draw(st.lists(inner, max_size=12))} & set(range(length + 1)))
    return [
        Cut(end - begin, draw(leads), draw(st.integers(0, 4))) for begin, end in pairwise(borders)
    ]


def lay_out(folder: Path, data: bytes, cuts: Sequence[Cut], *, verify: bool) -> str:
    """Write chunks and their manifest into a folder; return the path for Hadoop.

    Runs of one chunk lie there in the opposite order, and each chunk is longer than committed.
    """
    assert sum(cut.length for cut in cuts) == len(data)
    ends = [sum(cut.length for cut in cuts[: number + 1]) for number in range(len(cuts))]
    contents: dict[int, bytearray] = {cut.chunk: bytearray() for cut in cuts}
    places: dict[int, int] = {}
    for number, cut in reversed(list(enumerate(cuts))):
        content = contents[cut.chunk]
        content += b"\n" * cut.lead
        places[number] = len(content)
        content += data[ends[number] - cut.length : ends[number]]
    indexes = {chunk: index for index, chunk in enumerate(contents)}
    runs = []
    for number, cut in enumerate(cuts):
        sums = extend_sums([contents[cut.chunk]], 0, 0)
        first, last = places[number], places[number] + cut.length
        touched = sums[first // BLOCK_BYTES : -(-last // BLOCK_BYTES)]
        runs.append(
            ManifestRun(
                length=cut.length,
                chunk=indexes[cut.chunk],
                chunk_offset=first,
                sums=tuple(touched),
            )
        )
    chunks = []
    for chunk, content in contents.items():
        file = folder / f"chunk-{chunk}"
        file.write_bytes(content + b"\nnot committed\n")
        chunks.append(ManifestChunk(uri=file.as_uri(), length=len(content)))
    manifest = FileManifest(
        head=ManifestHead(
            container=0, expires_ms=FAR, made_ms=0, store_id=bytes(16), verify=verify
        ),
        pins=(),
        chunks=tuple(chunks),
        files=(ManifestFile(path="s", segment="s", offset=0, length=len(data), runs=tuple(runs)),),
    )
    (folder / "hand.silt").write_bytes(encode_file_manifest(manifest))
    return f"silt://file{folder}/hand.silt/s"
