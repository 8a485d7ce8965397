"""Rules of what a close settles, each left out; seen where owners live for seconds."""

from __future__ import annotations

from tests.simulation.mutant import Mutant

LIFE_MUTANTS = (
    Mutant(
        "a close does not finish the flush that runs",
        "container/close/settlement.py",
        "    await parts.segment_flusher.finish()\n",
        "",
        story="short",
    ),
    Mutant(
        "what older owners left is not inherited",
        "container/close/settlement.py",
        "worth = found.inherited or found.flushing",
        "worth = found.flushing",
        story="short",
    ),
    Mutant(
        "a close flushes no table log",
        "container/close/settlement.py",
        "        await parts.table_log_flusher.flush()\n",
        "",
        story="short",
    ),
    Mutant(
        "chunks of cancelled work are not handed over",
        "container/close/owner_end.py",
        "            await parts.segment_flusher.hand_over_abandoned()\n",
        "            pass\n",
        story="short",
    ),
)
