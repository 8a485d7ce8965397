"""A look at everything that a container holds, from this process."""

from __future__ import annotations

from siltstone.core.environment import SystemEnvironment
from siltstone.core.posix import SystemFileCalls
from siltstone.tier1.file.chain import build_view
from siltstone.tier1.file.folder import LogFolder
from siltstone.tier1.file.marker import marker_epoch
from tests.support.faults.place import STILL, Place
from tests.support.kill.ledger import Ledger, damage

OPENS_WITHIN_S = 30.0


async def look(place: Place, ledger: Ledger, *, own: bool) -> None:
    """Open the container as owner or read-only, and compare all of it with the ledger."""
    environment = SystemEnvironment()
    if not own and claim_died(place):
        await (await place.read_only(environment)).close()
        own = True
    try:
        store = await (place.own(environment, STILL) if own else place.read_only(environment))
        try:
            await ledger.look(store)
            if own:
                assert await damage(store) == []
        finally:
            await store.close()
    finally:
        environment.close()


def claim_died(place: Place) -> bool:
    """Whether a claim died between its marker and its header.

    Then a new reader shows all but the last frame, since the next owner decides about that one; so
    only an owner can be asked for everything.
    """
    folder = LogFolder(SystemFileCalls(), str(place.log_folder), 0)
    return marker_epoch(folder) > build_view(folder).epoch
