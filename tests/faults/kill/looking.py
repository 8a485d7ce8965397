"""A look at everything that a container holds, from this process."""

from __future__ import annotations

from siltstone.core.environment import SystemEnvironment
from tests.faults.kill.ledger import Ledger, damage
from tests.faults.place import STILL, Place

OPENS_WITHIN_S = 30.0


async def look(place: Place, ledger: Ledger, *, own: bool) -> None:
    """Open the container as owner or read-only, and compare all of it with the ledger."""
    environment = SystemEnvironment()
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
