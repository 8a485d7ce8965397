"""When a checkpoint of the index is worth what it uploads. Pure.

The index rewrites its files as it goes: after a few small changes it may merge all of a large
level, whose files a checkpoint then has to upload. Checkpoints by age alone would make each update
of a large table costlier than the same update of a small one. So they wait until the table log has
grown in proportion to what was uploaded.
"""

from __future__ import annotations

from siltstone.core.constants import MIB

BYTES_PER_BYTE = 16
"""This many bytes of index files may be uploaded for one byte of the table log."""

FREE_BYTES = MIB
"""An upload this small needs no reason but its age: small stores boot from what is young."""

BATCHES_MAX = 2_000
"""With this many journal batches after it, which a boot reads, a checkpoint is replaced at any
price. They take at least half a day to gather."""


class UploadBudget:
    """What uploads have cost and what growth of the table log has paid back."""

    def __init__(self) -> None:
        self._owed = 0

    def allows(self, grown: int, batches: int) -> bool:
        """Whether an upload may follow.

        Args:
            grown: bytes of the table log after the newest checkpoint.
            batches: journal batches after it.
        """
        return self._owed - BYTES_PER_BYTE * grown <= FREE_BYTES or batches >= BATCHES_MAX

    def spend(self, grown: int, uploaded: int) -> None:
        """Note an upload of ``uploaded`` bytes, which found the table log grown by ``grown``."""
        self._owed = max(0, self._owed - BYTES_PER_BYTE * grown) + uploaded
