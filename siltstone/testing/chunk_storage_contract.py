"""The contract of long-term storage as a test class, for every binding and every wrapper.

Subclass it in a test file, give the fixture ``service``, and run pytest::

    from siltstone.testing.chunk_storage_contract import ChunkStorageContract


    class TestMyStorage(ChunkStorageContract):
        missing = frozenset({"concat"})  # what the service can not do; those checks are skipped

        @pytest.fixture
        def service(self, tmp_path: Path) -> ChunkService:
            return MyService(tmp_path)  # open(), outside_read(), outside_names(), outside_write()

A check that does not hold for a service shows that the service can not carry Siltstone, or that its
binding has a bug. Do not override checks. Nothing but pytest and the contract itself is imported.
"""

from __future__ import annotations

from siltstone.testing.chunk_checks.abilities import (
    CapabilityChecks,
    CloseChecks,
    ConcatChecks,
    SealChecks,
    SpaceChecks,
)
from siltstone.testing.chunk_checks.listing import ListChecks
from siltstone.testing.chunk_checks.naming import NameChecks
from siltstone.testing.chunk_checks.racing import RaceChecks
from siltstone.testing.chunk_checks.reading import ReadChecks, StatChecks
from siltstone.testing.chunk_checks.subject import ChunkService
from siltstone.testing.chunk_checks.writing import CreateChecks, DeleteChecks, WriteChecks

__all__ = ["ChunkService", "ChunkStorageContract"]


class ChunkStorageContract(
    CreateChecks,
    WriteChecks,
    DeleteChecks,
    ReadChecks,
    StatChecks,
    ListChecks,
    NameChecks,
    RaceChecks,
    ConcatChecks,
    SealChecks,
    SpaceChecks,
    CapabilityChecks,
    CloseChecks,
):
    """All checks. See the module for how to use it, ``ChunkSubject`` for what may be set."""
