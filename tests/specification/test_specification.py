"""Claims, log, journal, checkpoints, deletion, collections, volumes: small machines, searched.

No state that a machine can reach breaks an invariant, and without a rule of the protocol some state
does: so the rule is needed, and the search would notice that it is gone. Some rules are hidden by
another one: then both are taken out.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from tests.specification.chunk_life import ChunkLife
from tests.specification.chunk_life_state import ChunkBounds, ChunkRules
from tests.specification.file_log import FileLog
from tests.specification.file_log_state import FileLogBounds, FileLogRules
from tests.specification.object_entries import ObjectEntries
from tests.specification.object_entries_state import EntryBounds, EntryRules
from tests.specification.search import Found, every_state, search
from tests.specification.system_journal import SystemJournal
from tests.specification.system_journal_state import JournalBounds, JournalRules
from tests.specification.volume_garbage import VolumeGarbage
from tests.specification.volume_garbage_state import GarbageBounds, GarbageRules
from tests.specification.volume_sync import VolumeSync
from tests.specification.volume_sync_state import MARK, SyncBounds, SyncRules

Bounds = dict[str, int]
Machine = tuple[type[Any], type[Any], type[Any]]

FILE_LOG: Machine = (FileLog, FileLogRules, FileLogBounds)
JOURNAL: Machine = (SystemJournal, JournalRules, JournalBounds)
CHUNK: Machine = (ChunkLife, ChunkRules, ChunkBounds)
ENTRIES: Machine = (ObjectEntries, EntryRules, EntryBounds)
SYNC: Machine = (VolumeSync, SyncRules, SyncBounds)
GARBAGE: Machine = (VolumeGarbage, GarbageRules, GarbageBounds)

MACHINES = (FILE_LOG, JOURNAL, CHUNK, ENTRIES, SYNC, GARBAGE)


def searched(machine: Machine, bounds: Bounds, *without: str) -> Found:
    made, rules, limits = machine
    return search(made(rules(**dict.fromkeys(without, False)), limits(**bounds)))


BEGUN = {"ready": 1, "begins": 0, "opens": 0, "unknown": 0, "refreshes": 0}
TWO = {"owners": 2}
READER = {"owners": 2, "evictions": 1, "looks": 1}

WHOLE: list[tuple[Machine, Bounds, int]] = [
    (FILE_LOG, {"owners": 2, "frames": 2}, 2_000),
    (FILE_LOG, {**READER, "frames": 2}, 17_000),
    (FILE_LOG, {"owners": 3}, 35_000),
    (JOURNAL, {}, 21_000),
    (JOURNAL, {"owners": 1, "damage": 1}, 900),
    (JOURNAL, {"owners": 1, "unknown": 1}, 2_900),
    (JOURNAL, {"owners": 1, "flushes": 2, "checkpoints": 2, "damage": 1}, 11_000),
    (CHUNK, {"owners": 1, "appends": 2, "writes": 2, "drops": 0}, 11_000),
    (CHUNK, {"owners": 1, "appends": 1, "writes": 2, "drops": 1, "unknown": 0, "pins": 1}, 2_900),
    (CHUNK, {"owners": 2, "appends": 1, "writes": 2, "drops": 0}, 53_000),
    (CHUNK, {"owners": 2, "appends": 2, "writes": 2, "drops": 0, "unknown": 0}, 30_000),
    (ENTRIES, {"unknown": 0, "commits": 3}, 31_000),
    (ENTRIES, {**BEGUN, "processes": 3, "links": 2}, 7_700),
    (SYNC, {"uploads": 3}, 30_000),
    (SYNC, {"marks": 1}, 60_000),
    (SYNC, {"lite": 1}, 19_000),
    (SYNC, {"cuts": 1}, 30_000),
    (GARBAGE, {"forks": 0}, 56_000),
    (GARBAGE, {"pushes": 1, "unknown": 0}, 33_000),
    (GARBAGE, {"pushes": 1, "clients": 1, "lists": 1}, 50_000),
    (GARBAGE, {"forks": 0, "pushes": 1, "unknown": 0, "collectors": 2}, 22_000),
]
"""What is searched in each run, and at least how many states there are."""

LARGE: list[tuple[Machine, Bounds, int]] = [
    (FILE_LOG, {"owners": 3, "evictions": 1, "looks": 1}, 230_000),
    (JOURNAL, {"unknown": 1}, 320_000),
    (JOURNAL, {"damage": 1}, 93_000),
    (JOURNAL, {"flushes": 2}, 100_000),
    (JOURNAL, {"checkpoints": 2}, 100_000),
    (ENTRIES, {}, 72_000),
    (ENTRIES, {"ready": 1, "begins": 0, "commits": 3}, 460_000),
    (ENTRIES, {"ready": 1, "begins": 0, "processes": 3}, 690_000),
    (ENTRIES, {"processes": 3, "opens": 2, "unknown": 0}, 300_000),
    (SYNC, {"commits": 3, "uploads": 3}, 360_000),
    (SYNC, {"marks": 2, "unknown": 2}, 380_000),
    (SYNC, {"marks": 1, "lite": 1}, 170_000),
    (SYNC, {"clients": 1, "lite": 1, "commits": 3, "uploads": 4, "unknown": 2}, 710_000),
    (SYNC, {"cuts": 1, "uploads": 3}, 110_000),
    (GARBAGE, {"pushes": 1}, 210_000),
    (GARBAGE, {"unknown": 0}, 770_000),
    (GARBAGE, {"clients": 1}, 660_000),
    (GARBAGE, {"forks": 0, "collectors": 2, "pushes": 1}, 200_000),
    (GARBAGE, {"forks": 0, "collectors": 2, "unknown": 0}, 730_000),
    (GARBAGE, {"clients": 1, "collectors": 2, "pushes": 1, "unknown": 0}, 740_000),
    (GARBAGE, {"clients": 1, "forks": 2, "pushes": 1, "unknown": 0}, 260_000),
    (GARBAGE, {"forks": 0, "lists": 1}, 71_000),
]
"""The same, for minutes each."""

ALONE: Bounds = {"owners": 1, "flushes": 2, "checkpoints": 2}
SMALL: Bounds = {"owners": 1, "appends": 1, "writes": 1, "drops": 1}
PINS: Bounds = {"owners": 1, "appends": 1, "writes": 2, "drops": 1, "unknown": 0, "pins": 1}
CLIENT: Bounds = {"clients": 1}
COLLECTED: Bounds = {"clients": 1, "pushes": 1, "forks": 0, "unknown": 0}
FORKED: Bounds = {"pushes": 1, "unknown": 0}

NEEDED: list[tuple[Machine, Bounds, tuple[str, ...]]] = [
    (FILE_LOG, {**TWO, "sync_failures": 0, "power_cuts": 0}, ("marker_checked_after_sync",)),
    (FILE_LOG, {**TWO, "sync_failures": 0, "power_cuts": 0}, ("marker_before_reading",)),
    (FILE_LOG, {**TWO, "sync_failures": 0, "power_cuts": 0}, ("file_durable_before_frames",)),
    (FILE_LOG, TWO, ("last_frame_copied",)),
    (FILE_LOG, TWO, ("header_synced_before_frames",)),
    (FILE_LOG, TWO, ("failed_sync_poisons",)),
    (FILE_LOG, {**TWO, "frames": 2}, ("frames_beyond_statement_void",)),
    (FILE_LOG, {**TWO, "frames": 2}, ("one_frame_in_flight",)),
    (FILE_LOG, {"owners": 3}, ("header_alone_passed_over",)),
    (FILE_LOG, {"owners": 3, "evictions": 1, "looks": 1}, ("later_claim_checked",)),
    (FILE_LOG, READER, ("kernel_tells_each_descriptor",)),
    (FILE_LOG, READER, ("reader_checks_marker",)),
    (FILE_LOG, READER, ("reader_looks_past_cache",)),
    (FILE_LOG, {**READER, "sync_failures": 0}, ("reader_syncs", "reader_looks_past_cache")),
    (FILE_LOG, TWO, ("older_files_synced", "last_frame_copied")),
    (FILE_LOG, TWO, ("marker_locked", "files_created_exclusively")),
    (
        FILE_LOG,
        {"owners": 3},
        ("marker_synced", "marker_synced_before_reading_slots", "epoch_above_file_names"),
    ),
    (JOURNAL, {}, ("recovers_after_claim",)),
    (JOURNAL, {}, ("batch_states_what_it_covers",)),
    (JOURNAL, {}, ("appends_hold_safe_index",)),
    (JOURNAL, {}, ("truncates_only_what_is_durable",)),
    (JOURNAL, {}, ("truncation_stated",)),
    (JOURNAL, {}, ("checkpoint_alone",)),
    (JOURNAL, {}, ("newest_epoch_counts",)),
    (JOURNAL, {"damage": 1}, ("checkpoint_states_late",)),
    (JOURNAL, {"damage": 1}, ("first_checkpoint_twice",)),
    (JOURNAL, {"flushes": 2}, ("closes_older_file",)),
    (JOURNAL, {"unknown": 1}, ("unknown_write_repeated",)),
    (JOURNAL, {"owners": 1}, ("index_not_ahead",)),
    (JOURNAL, {"owners": 1}, ("keeps_what_is_written",)),
    (
        JOURNAL,
        {"owners": 1, "flushes": 2, "unknown": 1, "checkpoints": 0},
        ("chunk_not_written_after_unknown",),
    ),
    (JOURNAL, {**ALONE, "damage": 1}, ("trims_below_older_checkpoint",)),
    (JOURNAL, {**ALONE, "damage": 1}, ("keeps_two_checkpoints",)),
    (CHUNK, SMALL, ("ids_reserved",)),
    (CHUNK, SMALL, ("bytes_before_commit",)),
    (CHUNK, SMALL, ("unknown_append_ends_owner",)),
    (CHUNK, SMALL, ("drop_covered",)),
    (CHUNK, {"owners": 1, "appends": 2, "writes": 2, "drops": 0}, ("names_burnt",)),
    (CHUNK, {"owners": 1, "appends": 3, "writes": 3, "drops": 0}, ("not_written_after_unknown",)),
    (
        CHUNK,
        {"owners": 2, "appends": 2, "writes": 2, "drops": 0, "unknown": 0},
        ("own_epoch_only",),
    ),
    (CHUNK, {"owners": 2, "appends": 1, "writes": 2, "drops": 0}, ("log_fenced",)),
    (CHUNK, PINS, ("pins_kept",)),
    (CHUNK, PINS, ("pin_before_open",)),
    (ENTRIES, {**BEGUN, "commits": 3}, ("anchor_after_create",)),
    (ENTRIES, {**BEGUN, "commits": 3, "unknown": 1, "refreshes": 1}, ("anchor_after_reads",)),
    (ENTRIES, {**BEGUN, "refreshes": 1}, ("anchor_after_absence",)),
    (ENTRIES, {**BEGUN, "refreshes": 1}, ("rollups_before_entries",)),
    (ENTRIES, {**BEGUN, "opens": 1}, ("first_entry_stays",)),
    (
        ENTRIES,
        {"begins": 2, "opens": 0, "unknown": 0, "refreshes": 0},
        ("first_entry_stays", "opens_after_begin"),
    ),
    (ENTRIES, {**BEGUN, "processes": 3, "links": 2, "opens": 1}, ("anchor_before_entry",)),
    (ENTRIES, BEGUN, ("newest_keeps_anchor",)),
    (ENTRIES, {**BEGUN, "unknown": 1}, ("token_compared",)),
    (SYNC, CLIENT, ("end_noted",)),
    (SYNC, CLIENT, ("noted_before_create",)),
    (SYNC, {**CLIENT, "cuts": 1, "unknown": 0}, ("note_synced",)),
    (SYNC, CLIENT, ("name_filled",)),
    (SYNC, CLIENT, ("unknown_upload_repeated",)),
    (SYNC, {"commits": 3, "uploads": 3}, ("names_burnt",)),
    (SYNC, {}, ("accept_waits",)),
    (SYNC, {}, ("accept_checks_queue",)),
    (SYNC, CLIENT, ("reset_waits",)),
    (SYNC, {**CLIENT, "marks": 1}, ("marks_passed",)),
    (SYNC, {}, ("only_marks_passed",)),
    (SYNC, {}, ("records_stay",)),
    (SYNC, {}, ("records_compared",)),
    (GARBAGE, COLLECTED, ("spares_below_mark",)),
    (GARBAGE, FORKED, ("marks_all_first",)),
    (GARBAGE, COLLECTED, ("lists_before_mark",)),
    (GARBAGE, FORKED, ("marked_logs_only",)),
    (GARBAGE, COLLECTED, ("uploads_anew",)),
    (GARBAGE, FORKED, ("fork_marked",)),
    (GARBAGE, FORKED, ("fork_mark_keeps",)),
    (GARBAGE, {**FORKED, "clients": 1}, ("fork_above_horizon",)),
    (GARBAGE, {**FORKED, "clients": 1}, ("horizon_looked_at_again",)),
]

NOT_SHOWN: dict[str, str] = {
    "marker_names_claim": "two claims of one epoch do not get past the lock and the exclusive file",
    "truncation_bounded_by_record": "the record is a short cut: the listing finds the journal too",
    "composed_in_turn": "a record that was composed early would state less than is true",
    "deletion_stated": "what an older owner found needless stays so; it shows the fence",
    "keeps_chunks_of_batches": "needs more flushes between two checkpoints than fit in here",
    "keeps_present_layout": "the newest checkpoint and the batches after it name the same chunks",
}
"""Rules whose need the states within these bounds do not show, and what stands in the way."""


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "bounds", "states"), WHOLE)
def test_no_state_breaks_an_invariant(machine: Machine, bounds: Bounds, states: int) -> None:
    found = searched(machine, bounds)
    assert found.violation is None, found.trace
    assert found.states >= states


@pytest.mark.soak
@pytest.mark.parametrize(("machine", "bounds", "states"), LARGE)
def test_no_state_of_a_large_search_breaks_an_invariant(
    machine: Machine, bounds: Bounds, states: int
) -> None:
    found = searched(machine, bounds)
    assert found.violation is None, found.trace
    assert found.states >= states


@pytest.mark.parametrize(("machine", "bounds", "without"), NEEDED)
def test_without_a_rule_a_state_does(
    machine: Machine, bounds: Bounds, without: tuple[str, ...]
) -> None:
    found = searched(machine, bounds, *without)
    assert found.violation is not None
    known = {"V1", "V2", "V3", "V4", "V5"}
    known |= {"I3", "I4", "I8", "I9", "I13", "I16", "C1", "C2", "C7"}
    assert found.violation.invariant in known
    assert "does not hold" in found.trace


def test_each_rule_is_taken_out_or_said_not_to_be_shown() -> None:
    rules = {field.name for _, made, _ in MACHINES for field in fields(made)}
    taken = {rule for _, _, without in NEEDED for rule in without}
    assert taken | set(NOT_SHOWN) == rules
    assert not taken & set(NOT_SHOWN)


def test_the_search_is_large_enough() -> None:
    sizes = [(machine, states) for machine, _, states in WHOLE + LARGE]
    for group in ((FILE_LOG, JOURNAL, CHUNK), (ENTRIES,), (SYNC, GARBAGE)):
        assert sum(states for machine, states in sizes if machine in group) >= 1_000_000


def test_pushes_pass_marks_and_collectors_delete() -> None:
    sync = VolumeSync(SyncRules(), SyncBounds(clients=1, marks=1))
    logs = {state.log for state in every_state(sync)}
    assert any(len(log) == 3 and log[1] == MARK for log in logs)
    garbage = VolumeGarbage(GarbageRules(), GarbageBounds(**COLLECTED))
    assert any(len(state.bundles) < state.numbers for state in every_state(garbage))
