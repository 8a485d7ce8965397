from __future__ import annotations

import resource
from pathlib import Path

import pytest

from siltstone.pipelines.kept_outcomes import KeptOutcomes
from siltstone.pipelines.work import OK, ItemOutcome


def test_notes_that_find_no_room_are_told(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    line = "x" * 100
    with KeptOutcomes(kept, {"job": "a"}) as notes:
        notes.keep(ItemOutcome(subject="first", status=OK, length=1))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (kept.stat().st_size + 20, before[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                notes.keep(ItemOutcome(subject=line, status=OK, length=1))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with KeptOutcomes(kept, {"job": "a"}) as notes:
        assert notes.done == {"first": 1}
