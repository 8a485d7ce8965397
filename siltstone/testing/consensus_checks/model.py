"""The check of a consensus that compares random runs with a list."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import pytest

from siltstone.testing.consensus_checks.subject import ConsensusService, ConsensusSubject


class ConsensusModelChecks(ConsensusSubject):
    """Whatever callers do in whatever order, one list tells what there is."""

    def test_consensus_and_model_agree(self, service: ConsensusService) -> None:
        pytest.importorskip("hypothesis", reason="needs siltstone[testing]")
        from siltstone.testing.consensus_checks.machine import run_machine

        run_machine(service, self.model_runs)
