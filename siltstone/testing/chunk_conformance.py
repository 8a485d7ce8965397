"""The suite as ``siltstone doctor --conformance`` runs it, on a store's own long-term storage.

The caller gives the fixture ``scratch_service`` and sets what is to be set on the class.
"""

from __future__ import annotations

import pytest

from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract

__all__ = ["TestConformance"]


class TestConformance(ChunkStorageContract):
    """All checks, with sizes for a service that is paid for."""

    is_alone = False
    listed_count = 1_025
    large_bytes = 1 << 20
    model_runs = 15

    @pytest.fixture
    def service(self, scratch_service: ChunkService) -> ChunkService:
        """A part of the service that nothing else uses, empty for each check."""
        return scratch_service
