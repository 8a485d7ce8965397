"""Rules of retention, append times, snapshots, packing, names and attributes, each left out."""

from __future__ import annotations

from tests.simulation.mutant import Mutant

AGE_MUTANTS = (
    Mutant(
        "retention takes bytes inside its limit of bytes",
        "container/retention/plan.py",
        "_border(tables, extent, extent.length - row.bytes_max)",
        "_border(tables, extent, extent.length - row.bytes_max // 2)",
    ),
    Mutant(
        "retention takes bytes inside its limit of age",
        "container/retention/plan.py",
        "        now_ms - row.age_max_ms,\n",
        "        now_ms - row.age_max_ms // 2,\n",
    ),
    Mutant(
        "retention cuts inside appends",
        "container/retention/plan.py",
        "return max(extent.start, rows[0].offset) if rows else extent.start",
        "return max(extent.start, limit)",
    ),
    Mutant(
        "retention cuts nothing",
        "container/retention/plan.py",
        "    if cut <= extent.start:\n",
        "    if cut >= extent.start:\n",
    ),
    Mutant(
        "the rule of the shortest prefix counts",
        "metadata/retention_rules.py",
        "in self._prefixes}, reverse=True)",
        "in self._prefixes})",
    ),
    Mutant(
        "a prefix counts more than the segment itself",
        "metadata/retention_rules.py",
        """        if own is not None:
            return own
        for""",
        "        for",
    ),
    Mutant(
        "rules that were changed stay in force",
        "container/state/replica.py",
        "                self._rules = None\n",
        "                pass\n",
    ),
    Mutant(
        "a border knows the time of the first bytes below it",
        "metadata/time_index.py",
        "            if time_ms > latest_ms:\n                latest_ms = time_ms\n",
        "",
    ),
    Mutant(
        "a border knows the time of bytes after it",
        "metadata/time_index.py",
        "            falls = latest_ms - time_ms >= STEP_MS\n",
        """            falls = latest_ms - time_ms >= STEP_MS
            latest_ms = max(latest_ms, time_ms)
""",
    ),
    Mutant(
        "a part of an append counts as a border",
        "metadata/time_index.py",
        "            if (falls or long or time_ms - last_ms >= STEP_MS) and part.offset >= begin:",
        "            if falls or long or time_ms - last_ms >= STEP_MS:",
    ),
    Mutant(
        "bytes that are joined are as old as their source",
        "metadata/time_index.py",
        "joined = TimedBytes(begin, begin + length, time_ms)",
        "joined = TimedBytes(begin, begin + length, 0)",
    ),
    Mutant(
        "a time is looked for among flushed bytes only",
        "metadata/time_index.py",
        "                border = search.younger(part.time_ms, max(start, found))\n",
        "                border = search.younger(part.time_ms, max(start, part.end))\n",
    ),
    Mutant(
        "a run of a segment is packed although more of it is flushed",
        "segments/pack.py",
        "    return layout.storage_length == run.offset\n",
        "    return True\n",
    ),
    Mutant(
        "a shared chunk counts one reference",
        "segments/pack.py",
        "references=chunk.references + len(living))",
        "references=1)",
    ),
    Mutant(
        "runs of a deleted segment are packed",
        "segments/pack.py",
        "if state is None or state.deleted or state.start_offset >= run.end:",
        "if state is None or state.start_offset >= run.end:",
    ),
    Mutant(
        "the older name stays when a segment gets another one",
        "container/changes/segment_changes.py",
        """            remove_name(name),
            put_name(new_name""",
        "            put_name(new_name",
    ),
    Mutant(
        "an attribute keeps its first value",
        "container/models/segments.py",
        "            after[change.key] = change.value\n",
        "            after.setdefault(change.key, change.value)\n",
    ),
    Mutant(
        "a snapshot shows what is newest",
        "container/state/table_snapshots.py",
        "LivingSnapshot(table, table_id, version, self._tables.snapshot())",
        """LivingSnapshot(table, table_id, version, self._tables.snapshot())
        snapshot._taken.scan = self._tables.scan""",
    ),
    Mutant(
        "a snapshot names a version older than the one that it shows",
        "container/state/table_snapshots.py",
        "version = self._tables.applied_version",
        "version = self._tables.applied_version - 1",
    ),
)
