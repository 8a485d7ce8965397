"""The system journal: batches, checkpoints, replay, and the layouts of the system segments."""

from __future__ import annotations

from siltstone.journal.journal import Journal
from siltstone.journal.journal_state import JournalState, list_epochs, read_journal
from siltstone.journal.pinned_layout import PinnedLayoutStore
from siltstone.journal.pinned_state import apply_change
from siltstone.journal.retention import DurableCheckpoint, plan_deletion

__all__ = [
    "DurableCheckpoint",
    "Journal",
    "JournalState",
    "PinnedLayoutStore",
    "apply_change",
    "list_epochs",
    "plan_deletion",
    "read_journal",
]
