"""What an owner is given when its rows say that it writes a layout of another program.

It belongs to the migration that began that, which lies above the store. So it is found by its name,
as plugins are, and a store that writes no layout loads nothing of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from siltstone.container.flush.write_through_hooks import WriteThroughHooks, WriteThroughOwner

WRITER: Final = "siltstone.migration.legacy.write_through.hooks"


def open_hooks(owner: WriteThroughOwner) -> WriteThroughHooks:
    """See ``OpenHooks``."""
    hooks: WriteThroughHooks = import_module(WRITER).open_hooks(owner)
    return hooks
