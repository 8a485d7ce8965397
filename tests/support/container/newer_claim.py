"""A claim of a newer owner."""

from __future__ import annotations

from tests.support import inside
from tests.support.container.container_world import Owner, World


def claim(made: World, owner: Owner) -> None:
    """Take the log over, and do nothing else."""
    lineage = inside.parts(owner.container).journal.lineage
    epoch = made.new_log().claim(
        lineage=lineage, new=False, above=0, takeover=True, owner="a newer one"
    )
    assert epoch > owner.container.epoch
