"""What docs/settings.md says about bounds that are not settings."""

from __future__ import annotations

import re
from pathlib import Path

from siltstone.container.changes.concat import SMALL_BYTES
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.segments.concat import CONCAT_EXTENTS_MAX
from siltstone.segments.concat_staging import PLACED_PER_SLICE
from siltstone.segments.repack import REPACK_EXTENTS_MAX
from siltstone.store.settings.units import format_size

PAGE = Path(__file__).resolve().parents[3] / "docs" / "settings.md"


def test_fixed_limits_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Fixed limits")[2].partition("\n## ")[0]
    assert re.findall(r"`(\w+)`", text) == [
        str(ROWS_PER_SLICE),
        str(CONCAT_EXTENTS_MAX),
        str(PLACED_PER_SLICE),
        format_size(SMALL_BYTES),
        str(REPACK_EXTENTS_MAX),
    ]
