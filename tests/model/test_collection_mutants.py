"""The model of collections notices each rule that is left out."""

from __future__ import annotations

import pytest

from tests.model.collection_mutants import MUTANTS, ROOT, is_seen
from tests.simulation.mutant import Mutant
from tests.support.soak import shared


def test_each_rule_to_leave_out_has_its_place() -> None:
    """The code changes; a mutant whose text is gone, or is there twice, tells nothing."""
    for mutant in MUTANTS:
        text = (ROOT / "siltstone" / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, mutant.name


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutant", shared(MUTANTS), ids=lambda mutant: mutant.name)
def test_a_rule_that_is_left_out_is_seen(mutant: Mutant) -> None:
    assert is_seen(mutant)
