"""The check that compares random runs with a model."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import pytest

from siltstone.testing.chunk_checks.subject import ChunkService, ChunkSubject


class ModelChecks(ChunkSubject):
    """Whatever is done in whatever order, the storage does what a dictionary would do."""

    def test_storage_and_model_agree(self, service: ChunkService) -> None:
        pytest.importorskip("hypothesis", reason="needs siltstone[testing]")
        from siltstone.testing.chunk_checks.machine import run_machine

        run_machine(service, self.model_runs)
