"""Every segment of a real RollingStorage is found as the original reads it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from siltstone.migration.legacy.examine import examine
from siltstone.migration.legacy.findings import ImportVerdict, LayoutFindings, Oddity, Reason
from siltstone.migration.legacy.header import encode_header, parse_header
from siltstone.migration.legacy.names import Naming
from siltstone.migration.source.places import FolderPlace
from tests.support.migration.places_of_tests import bytes_of, golden_tree, manifest

SEGMENTS: list[dict[str, Any]] = manifest()["segments"]
REFUSED = {
    "sc/st/fsrc5": Reason.MISSING_LAST_CHUNK,
    "sc/st/nest-a": Reason.NESTED_CONCAT,
}
NOTES = {
    "sc/st/bare": {Oddity.NO_HEADER},
    "sc/st/cat-bare-source": {Oddity.LONG_CHUNK},
    "sc/st/cat-fail-tail": {Oddity.FAILED_CONCAT, Oddity.LAST_CHUNK_SEALED},
    "sc/st/cat-fail-retry": {Oddity.FAILED_CONCAT},
    "sc/st/delete-died": {Oddity.MAYBE_HALF_DELETED},
    "sc/st/rollover-died": {Oddity.LAST_CHUNK_SEALED, Oddity.UNLISTED_CHUNK},
    "sc/st/trunc-inside": {Oddity.TRUNCATED},
    "sc/st/one": set(),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> FolderPlace:
    return FolderPlace(golden_tree(Path(tmp_path_factory.mktemp("golden")) / "tree"))


@pytest.fixture(scope="module")
def found(place: FolderPlace) -> LayoutFindings:
    return examine(place)


def test_no_segment_is_missed_or_invented(found: LayoutFindings) -> None:
    assert len(SEGMENTS) == 48
    assert [one.segment for one in found.segments] == sorted(one["name"] for one in SEGMENTS)
    assert found.naming is Naming.FILES


@pytest.mark.parametrize("segment", SEGMENTS, ids=lambda one: one["name"])
def test_a_segment_is_what_the_original_reads(
    segment: dict[str, Any], place: FolderPlace, found: LayoutFindings
) -> None:
    (finding,) = (one for one in found.segments if one.segment == segment["name"])
    if segment["kind"] == "absent":
        assert finding.verdict is ImportVerdict.ABSENT
        return
    if segment["kind"] == "damaged":
        assert finding.verdict is ImportVerdict.REFUSED
        assert finding.reason is REFUSED[finding.segment]
        return
    assert finding.verdict is ImportVerdict.IMPORTABLE, finding.message
    assert finding.length == segment["length"]
    assert finding.start == segment["first_readable_offset"]
    assert finding.sealed is segment["sealed"]
    data = bytes_of(place, finding)
    assert len(data) == finding.length - finding.start
    assert hashlib.sha256(data).hexdigest() == segment["readable_sha256"]


@pytest.mark.parametrize("segment", NOTES)
def test_oddities_are_told(segment: str, found: LayoutFindings) -> None:
    (finding,) = (one for one in found.segments if one.segment == segment)
    assert {note.oddity for note in finding.notes} == NOTES[segment]


def test_chunks_of_a_segment_that_is_lost_are_strays(found: LayoutFindings) -> None:
    assert found.strays == (
        "sc/st/nest-b$offset.0",
        *(f"sc/st/nest-c$offset.{start}" for start in (0, 30, 60, 90)),
    )


@pytest.mark.parametrize(
    "segment",
    [one for one in SEGMENTS if one["kind"] == "ok" and one["header"]],
    ids=lambda s: s["name"],
)
def test_real_headers_are_written_back_byte_for_byte(segment: dict[str, Any]) -> None:
    raw = segment["header"].encode()
    assert encode_header(parse_header(raw, "x").entries, "x") == raw
