"""Random lives of legacy segments, with deaths: findings are what the original would read."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from siltstone.migration.legacy.examine import examine
from siltstone.migration.legacy.findings import ImportVerdict, LegacyFinding, Reason
from tests.support.migration.places_of_tests import bytes_of, of_model
from tests.support.migration.random_lives import carry_out
from tests.support.migration.rolling_model import (
    AbsentError,
    DiedError,
    RollingModel,
    UnreadableError,
)

NAMES = ("s/a", "s/b", "s/c")
OURS = {
    Reason.NESTED_CONCAT,
    Reason.UNFINISHED_CONCAT,
    Reason.MERGED_ELSEWHERE,
    Reason.SHARED_CHUNK,
    Reason.CYCLIC_CONCAT,
    Reason.DUPLICATE_CHUNK,
}
"""What the original would read wrongly: the same bytes twice, or in the wrong places."""

step = some.tuples(
    some.sampled_from(["create", "write", "seal", "truncate", "concat", "delete"]),
    some.sampled_from(NAMES),
    some.sampled_from(NAMES),
    some.integers(0, 40),
    some.one_of(some.none(), some.integers(0, 6)),
)


@pytest.mark.slow
@settings(max_examples=80)
@given(some.lists(step, max_size=25), some.booleans())
def test_what_is_found_is_what_the_original_reads(
    steps: list[tuple[str, str, str, int, int | None]], replaces: bool
) -> None:
    model = RollingModel(replaces=replaces)
    model.create("s/first", 10)
    for number, (verb, name, other, size, calls) in enumerate(steps, 1):
        model.calls_left = calls
        with suppress(DiedError, AbsentError, UnreadableError):
            carry_out(model, number, verb, name, other, size)
        model.calls_left = None
    place = of_model(model.files)
    findings = {found.segment: found for found in examine(place).segments}
    assert findings.keys() == model.segments()
    for name, finding in findings.items():
        compare(model, name, finding, bytes_of(place, finding))


def compare(model: RollingModel, name: str, finding: LegacyFinding, data: bytes) -> None:
    if finding.verdict is ImportVerdict.REFUSED and finding.reason in OURS:
        return
    try:
        start, length, sealed, expected = model.read(name)
    except AbsentError:
        assert finding.verdict is not ImportVerdict.IMPORTABLE
    except UnreadableError:
        assert finding.verdict is ImportVerdict.REFUSED
    else:
        assert finding.verdict is ImportVerdict.IMPORTABLE, finding
        assert (finding.start, finding.length, finding.sealed) == (start, length, sealed)
        assert data == expected
