"""What every consensus must do, as a test class: subclass it, and give the fixture ``service``.

    class TestMyConsensus(ConsensusContract):
        @pytest.fixture
        def service(self, tmp_path: Path) -> ConsensusService:
            return MyPlace(tmp_path)  # open(environment), and if it may: storage(), over(...)

The suite looks from outside: what one caller did is looked at by another one, and compared with a
list of what was said to be committed. A place on long-term storage also gives its storage: then
each call to it meets each fate, creates land late, and truncations end in the middle. Nothing but
pytest, hypothesis and the contract is imported.
"""

from __future__ import annotations

from siltstone.testing.consensus_checks.commits import BeginChecks, CommitChecks, LinkChecks
from siltstone.testing.consensus_checks.late_creates import LateCreateChecks
from siltstone.testing.consensus_checks.model import ConsensusModelChecks
from siltstone.testing.consensus_checks.outcomes import ConsensusOutcomeChecks
from siltstone.testing.consensus_checks.races import ConsensusRaceChecks
from siltstone.testing.consensus_checks.subject import ConsensusService, StoredConsensusService
from siltstone.testing.consensus_checks.truncations import SweepChecks, TruncationChecks

__all__ = ["ConsensusContract", "ConsensusService", "StoredConsensusService"]


class ConsensusContract(
    BeginChecks,
    CommitChecks,
    LinkChecks,
    TruncationChecks,
    SweepChecks,
    ConsensusRaceChecks,
    LateCreateChecks,
    ConsensusOutcomeChecks,
    ConsensusModelChecks,
):
    """All checks. See the module for how to use it, ``ConsensusSubject`` for what may be set."""
