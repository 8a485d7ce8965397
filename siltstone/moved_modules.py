"""Modules under names that they had before, for one version: each import of one warns.

Only what is documented or authors of plugins may import: the words and helpers of core that
bindings and logs use, backups and moves of a storage, and the test kits.
``import siltstone`` puts the finder in place.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

MOVED: Final = {
    "siltstone.core.block_reads": "siltstone.core.storage.block_reads",
    "siltstone.core.block_sums": "siltstone.core.storage.block_sums",
    "siltstone.core.chunk_care": "siltstone.core.storage.optional_verbs",
    "siltstone.core.durable_writes": "siltstone.core.storage.durable_writes",
    "siltstone.core.immediate_reads": "siltstone.core.storage.optional_verbs",
    "siltstone.core.log_handle": "siltstone.core.fenced_log",
    "siltstone.core.name_locks": "siltstone.core.storage.key_locks",
    "siltstone.core.streamed_creates": "siltstone.core.storage.optional_verbs",
    "siltstone.core.throttling": "siltstone.core.errors",
    "siltstone.core.uuid_text": "siltstone.core.text",
    "siltstone.core.waits": "siltstone.core.storage.retry_policy",
    "siltstone.core.words": "siltstone.core.constants",
    "siltstone.core.wrapped_chunk_storage": "siltstone.core.storage.wrapper",
    "siltstone.migration.backup_care": "siltstone.migration.backup.admin",
    "siltstone.migration.move_storage": "siltstone.migration.relocate.switch",
    "siltstone.migration.restore_backup": "siltstone.migration.backup.restore",
    "siltstone.migration.verify_backup": "siltstone.migration.backup.verify",
    "siltstone.testing.disk_state": "siltstone.testing.faults.disk_state",
    "siltstone.testing.fault_proxy": "siltstone.testing.faults.fault_proxy",
    "siltstone.testing.faulty_chunk_storage": "siltstone.testing.faults.faulty_chunk_storage",
    "siltstone.testing.faulty_fenced_log": "siltstone.testing.faults.faulty_fenced_log",
    "siltstone.testing.file_layer": "siltstone.testing.faults.file_layer",
    "siltstone.testing.http_faults": "siltstone.testing.faults.http_faults",
    "siltstone.testing.http_messages": "siltstone.testing.faults.http_messages",
    "siltstone.testing.power_cut": "siltstone.testing.faults.power_cut",
    "siltstone.testing.slow_chunk_storage": "siltstone.testing.faults.slow_chunk_storage",
    "siltstone.testing.tcp_relay": "siltstone.testing.faults.tcp_relay",
}
"""Where a module was, and where its names are now."""


class MovedModules:
    """Finds each of them, gives it what the module has that stands for it now, and warns."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See ``importlib.abc.MetaPathFinder``."""
        return ModuleSpec(name, MovedModules) if name in MOVED else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """See ``importlib.abc.Loader``."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """See ``importlib.abc.Loader``."""
        place = MOVED[module.__name__]
        text = f"{module.__name__} is {place} now; its old name goes with the next version"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        names = vars(import_module(place))
        vars(module).update({key: names[key] for key in names if not key.startswith("__")})


def find_moved_modules() -> None:
    """Let imports find them, after everything else. Idempotent."""
    if MovedModules not in sys.meta_path:
        sys.meta_path.append(MovedModules)
