"""What every tier-1 log must do, as a test class: subclass it, and say how to open a log.

    class TestMyLog(FencedLogContract):
        def open_log(self) -> FencedLog: ...  # a new handle on the one log of the running test

        def crash(self, log: FencedLog) -> None: ...  # end a handle without an ``End`` frame

The suite looks from outside: through a second handle or a reader, not through the method that it
tests. It needs a log of its own for each test. Nothing but pytest and the contract is imported.
"""

from __future__ import annotations

from siltstone.testing.log_checks.appends import AppendChecks, EndChecks
from siltstone.testing.log_checks.claims import ClaimChecks, LineageChecks
from siltstone.testing.log_checks.reads import ReaderChecks, TruncateChecks

__all__ = ["FencedLogContract"]

__all__ = ["FencedLogContract"]


class FencedLogContract(
    AppendChecks, ClaimChecks, LineageChecks, TruncateChecks, ReaderChecks, EndChecks
):
    """The whole contract. A subclass says how to open a log and how to crash a handle."""
