"""The model of collections notices each rule that is left out."""

from __future__ import annotations

import pytest

from tests.model.collection_mutants import MUTANTS, is_seen
from tests.simulation.mutant import Mutant
from tests.support.soak import shared


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutant", shared(MUTANTS), ids=lambda mutant: mutant.name)
def test_a_rule_that_is_left_out_is_seen(mutant: Mutant) -> None:
    assert is_seen(mutant)
