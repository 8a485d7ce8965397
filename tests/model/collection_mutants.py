"""Breaks a rule of collections on purpose, one at a time, and sees whether the model notices.

``python -m tests.model.collection_mutants`` prints a line for each; with words after it, only for
those whose names hold one of them. The test in ``test_collection_mutants.py`` does the same.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.simulation.mutant import Mutant

ROOT = Path(__file__).parents[2]
PLAY = "from tests.model.test_collection_states import play; play(4000, 60, shrinks=False)"
STATE = "collections/state/"

MUTANTS = (
    Mutant(
        "an append does not ask for the upper",
        f"{STATE}appends.py",
        "    if lower != current:\n",
        "    if False:\n",
    ),
    Mutant(
        "a repeated sequence is appended again",
        f"{STATE}appends.py",
        "    if row is not None and row.sequence == append.sequence:\n",
        "    if False:\n",
    ),
    Mutant(
        "times outside of an append are taken",
        f"{STATE}appends.py",
        "        if not lower <= part.time_min <= part.time_max < upper:\n",
        "        if not part.time_min <= part.time_max < upper:\n",
    ),
    Mutant(
        "the time of a commit is below the upper",
        f"{STATE}appends.py",
        "time = max(current, now_ms) if",
        "time = now_ms if",
    ),
    Mutant(
        "a part is appended twice",
        f"{STATE}uploads.py",
        "beyond[part.writer] = max(beyond.get(part.writer, 0), part.born + 1)",
        "beyond[part.writer] = max(beyond.get(part.writer, 0), part.born)",
    ),
    Mutant(
        "a part of a forgotten writer is appended",
        f"{STATE}uploads.py",
        "        if row is None:\n            raise",
        "        if row is None:\n            continue\n            raise",
    ),
    Mutant(
        "a new id of a writer has the hold of the old one",
        f"{STATE}writers.py",
        "row = replace(row, id=writer_id, hold=state.seqno + 1, who=cut_who(who))",
        "row = replace(row, id=writer_id, hold=row.hold or state.seqno + 1)",
    ),
    Mutant(
        "since passes readers",
        f"{STATE}frontiers.py",
        "        held = min(held, reader.since)\n",
        "        pass\n",
    ),
    Mutant(
        "since passes bookmarks",
        f"{STATE}frontiers.py",
        "        held = min(held, mark.since)\n",
        "        pass\n",
    ),
    Mutant(
        "since reaches the upper",
        f"{STATE}frontiers.py",
        "asked = max(0, upper - state.history)",
        "asked = upper",
    ),
    Mutant(
        "a reader goes back",
        f"{STATE}readers.py",
        "since=max(row.since, since),",
        "since=since,",
    ),
    Mutant(
        "a reader begins below the since",
        f"{STATE}readers.py",
        "        check_kept(state, since)\n",
        "",
    ),
    Mutant(
        "a row is dropped although a command has just renewed it",
        f"{STATE}next_state.py",
        "writers=_living(after.writers, now_ms, own_writers)",
        "writers={k: r for k, r in after.writers.items() "
        "if not lease_ended(before.writers.get(k, r), now_ms) or k in own_writers}",
    ),
    Mutant(
        "rows of the process itself are dropped",
        f"{STATE}next_state.py",
        " and key not in own}",
        "}",
    ),
    Mutant(
        "a wrong clock keeps a row for ever",
        f"{STATE}next_state.py",
        " or now_ms < row.renewed_ms - CLOCK_JUMP_MS",
        "",
    ),
    Mutant(
        "a bookmark is moved without its token",
        f"{STATE}bookmarks.py",
        "    if actual != expected:\n",
        "    if actual is None and expected is not None:\n",
    ),
    Mutant(
        "a compaction replaces what came meanwhile",
        f"{STATE}merges.py",
        "    if span is None or found != tuple(inputs):\n",
        "    if span is None:\n",
    ),
    Mutant(
        "a rollup is linked next to another one",
        f"{STATE}rollups.py",
        "newest.seqno >= rollup.seqno:",
        "newest.seqno > rollup.seqno:",
    ),
    Mutant(
        "garbage does not wait for readers",
        f"{STATE}garbage_plan.py",
        "    holds = [row.hold for row in state.readers.values()]\n",
        "    holds: list[int] = []\n",
    ),
    Mutant(
        "garbage does not wait for writers",
        f"{STATE}garbage_plan.py",
        "    holds.extend(row.hold for row in state.writers.values() if row.hold)\n",
        "",
    ),
    Mutant(
        "parts that move to another batch are garbage",
        f"{STATE}garbage_plan.py",
        "        parts.difference_update(names_in(batch))\n",
        "        pass\n",
    ),
    Mutant(
        "a sweep takes what may still be appended",
        f"{STATE}sweep_plan.py",
        "if name not in named and (name.writer not in holds or name.born < holds[name.writer])",
        "if name not in named",
    ),
    Mutant(
        "a sweep takes what older states name",
        f"{STATE}sweep_plan.py",
        "    named = _named(states)\n",
        "    named = _named(states[-1:])\n",
    ),
    Mutant(
        "a rollup that is named is swept",
        f"{STATE}sweep_plan.py",
        " and key not in named]",
        "]",
    ),
    Mutant(
        "the floor itself is forgotten",
        f"{STATE}rollups.py",
        "if seqno >= below}",
        "if seqno > below}",
    ),
    Mutant(
        "a drop keeps readers",
        f"{STATE}lives.py",
        "batches=batches, readers={}, writers={}, bookmarks={}",
        "batches=batches, writers={}, bookmarks={}",
    ),
    Mutant(
        "a diff leaves batches out that were replaced in one entry",
        f"{STATE}diffs.py",
        "        at, to = end, stop\n",
        "        at, to = end + 1, stop + 1\n",
    ),
)


def is_seen(mutant: Mutant) -> bool:
    """Whether the model fails with this rule left out."""
    with TemporaryDirectory(prefix="siltstone-mutant-") as name:
        folder = Path(name)
        shutil.copytree(ROOT / "siltstone", folder / "siltstone")
        (folder / "tests").symlink_to(ROOT / "tests")
        file = folder / "siltstone" / mutant.file
        text = file.read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, f"{mutant.name}: {text.count(mutant.old)} places"
        file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        ended = subprocess.run(
            [sys.executable, "-c", PLAY],
            cwd=name,
            env={**os.environ, "PYTHONPATH": name},
            capture_output=True,
            check=False,
        )
        assert not re.search(rb"(Name|Syntax|Import|Attribute)Error", ended.stderr), ended.stderr
        return b"state = StateMachine()" in ended.stderr


def main() -> None:
    """Print a table of those that the command line names."""
    for mutant in MUTANTS:
        if sys.argv[1:] and not any(word in mutant.name for word in sys.argv[1:]):
            continue
        sys.stdout.write(f"{'seen' if is_seen(mutant) else 'NOT SEEN':>8}  {mutant.name}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
