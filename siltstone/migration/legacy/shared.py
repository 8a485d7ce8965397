"""Chunks that several headers list: the segment they belong to, or that it is unknown. Pure.

A concat moves a source's chunks into the target's header and then deletes the source's own. When
that deletion failed, both list them; the target has them since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from siltstone.migration.legacy.findings import ImportVerdict, LegacyFinding, Reason
from siltstone.migration.legacy.names import Naming, is_chained, read_name, segment_of_chunk


def settle_shared(findings: Sequence[LegacyFinding]) -> list[LegacyFinding]:
    """Refuse segments whose chunks belong to another one, or to none for certain."""
    users: dict[str, list[str]] = {}
    for finding in findings:
        for piece in finding.pieces:
            users.setdefault(piece.key, []).append(finding.segment)
    refusals: dict[str, tuple[Reason, str]] = {}
    merged: dict[str, tuple[str, str]] = {}
    for key, segments in users.items():
        if len(segments) < 2:
            continue
        owners = [segment for segment in segments if _made_by(key, segment)]
        targets = [segment for segment in segments if segment not in owners]
        if len(targets) > 1 or not owners:
            for segment in segments:
                text = f"{key} is listed by {', '.join(sorted(segments))}"
                refusals[segment] = (Reason.SHARED_CHUNK, text)
        elif targets:
            merged[owners[0]] = (targets[0], key)
    for source, (target, key) in merged.items():
        if source in refusals:
            continue
        if source in _behind(target, merged):
            text = f"{source} and {target} list chunks of one another"
            refusals[source] = (Reason.CYCLIC_CONCAT, text)
        else:
            text = f"it was merged into {target}, whose header lists {key}"
            refusals[source] = (Reason.MERGED_ELSEWHERE, text)
    return [
        _refused(finding, *refusals[finding.segment]) if finding.segment in refusals else finding
        for finding in findings
    ]


def _made_by(key: str, segment: str) -> bool:
    """Whether the name of a file is one that the segment itself gives to chunks."""
    if is_chained(segment, key):
        return True
    names = [key]
    on_hdfs = read_name(key, Naming.HDFS)
    if on_hdfs is not None:
        names.append(on_hdfs.name)
    return any(name == segment or (segment_of_chunk(name) or ("",))[0] == segment for name in names)


def _behind(segment: str, merged: dict[str, tuple[str, str]]) -> Iterator[str]:
    """Where the segment itself went, and so on."""
    seen = set()
    while segment in merged and segment not in seen:
        seen.add(segment)
        segment = merged[segment][0]
        yield segment


def _refused(finding: LegacyFinding, reason: Reason, message: str) -> LegacyFinding:
    return replace(
        finding, verdict=ImportVerdict.REFUSED, reason=reason, message=message, pieces=()
    )
