"""The contract of long-term storage as a test class, for every binding and every wrapper.

Subclass it in a test file, give the fixture ``service``, and run pytest::

    from siltstone.testing.chunk_storage_contract import ChunkStorageContract


    class TestMyStorage(ChunkStorageContract):
        missing = frozenset({"concat"})  # what the service cannot do; those checks are skipped

        @pytest.fixture
        def service(self, tmp_path: Path) -> ChunkService:
            return MyService(tmp_path)  # open(), outside_read(), outside_names(), outside_write()

A check that does not hold for a service shows that the service cannot carry Siltstone, or that its
binding has a bug. Do not override checks: name what is known in ``deviations``, which has to fail.
``docs/plugins.md`` says which rule each check is for. Nothing but pytest, hypothesis and the
contract itself is imported.
"""

from __future__ import annotations

from siltstone.testing.chunk_checks.abilities import ConcatChecks, SealChecks, SpaceChecks
from siltstone.testing.chunk_checks.buffers import BufferChecks
from siltstone.testing.chunk_checks.closes import CloseChecks
from siltstone.testing.chunk_checks.declarations import CapabilityChecks
from siltstone.testing.chunk_checks.deletes import DeleteChecks
from siltstone.testing.chunk_checks.immediate import ImmediateChecks
from siltstone.testing.chunk_checks.lists import ListChecks
from siltstone.testing.chunk_checks.model import ModelChecks
from siltstone.testing.chunk_checks.names import NameChecks
from siltstone.testing.chunk_checks.outcomes import OutcomeChecks
from siltstone.testing.chunk_checks.overwrites import OverwriteChecks
from siltstone.testing.chunk_checks.processes import ProcessChecks
from siltstone.testing.chunk_checks.races import RaceChecks
from siltstone.testing.chunk_checks.reads import ReadChecks, StatChecks
from siltstone.testing.chunk_checks.stops import StopChecks
from siltstone.testing.chunk_checks.streams import StreamChecks
from siltstone.testing.chunk_checks.subject import ChunkService, StoppableService
from siltstone.testing.chunk_checks.whole_creates import WholeChecks
from siltstone.testing.chunk_checks.writes import CreateChecks, WriteChecks
from siltstone.testing.deviations import Deviation

__all__ = ["ChunkService", "ChunkStorageContract", "Deviation", "StoppableService"]


class ChunkStorageContract(
    CreateChecks,
    StreamChecks,
    WholeChecks,
    WriteChecks,
    OverwriteChecks,
    DeleteChecks,
    ReadChecks,
    ImmediateChecks,
    StatChecks,
    ListChecks,
    NameChecks,
    RaceChecks,
    ConcatChecks,
    SealChecks,
    SpaceChecks,
    CapabilityChecks,
    BufferChecks,
    OutcomeChecks,
    StopChecks,
    ProcessChecks,
    CloseChecks,
    ModelChecks,
):
    """All checks. See the module for how to use it, ``ChunkSubject`` for what may be set."""
