"""The command that ends a compaction: one batch in the place of several, with the same sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from siltstone.collections.state.part_names import names_in
from siltstone.collections.state.refusals import check_open
from siltstone.collections.state.uploads import check_batches, check_parts, holds_moved
from siltstone.core.errors import ConditionFailedError
from siltstone.core.records.collection_batch import Batches, CollectionBatch
from siltstone.core.records.collection_state import CollectionState


def replace_batches(
    state: CollectionState,
    now_ms: int,
    *,
    inputs: Sequence[CollectionBatch],
    output: CollectionBatch,
) -> tuple[CollectionState, None]:
    """Put ``output`` in the place of ``inputs``, which it is a shorter form of. May be repeated.

    A refusal does not say that the output was never in a state: an earlier attempt whose outcome
    was unknown may have put it there, and a later compaction have replaced it. So its objects may
    be deleted only if each attempt is known to have had no effect; else the sweep deletes them.

    Args:
        state: the state.
        now_ms: not looked at.
        inputs: batches of a state, end to end.
        output: the same updates, their times advanced to its since. Parts of the inputs may be in
            it as they are.

    Returns:
        The new state.

    Raises:
        ConditionFailedError: the inputs are not there any more, or the since of the output is not
            reached.
        CollectionSchemaError: the schema of a part is not known.
        BatchExpiredError: the writer of a part is not known any more, or gave it up.
        InlineLimitError: rows have to be uploaded, since the state has no more room for them.
        CollectionDroppedError: it was dropped.
        CollectionMovedError: it continues elsewhere.
        ValueError: the output is no shorter form of the inputs: another range, a lower since, more
            rows, or another sum of diffs.
    """
    del now_ms
    check_open(state)
    _check_sums(inputs, output)
    lower, upper = output.lower, output.upper
    span = state.batches.span(lower, upper)
    found = () if span is None else state.batches.items[slice(*span)]
    if found == (output,) or _is_in_an_empty_one(state.batches, output):
        return state, None
    if span is None or found != tuple(inputs):
        raise ConditionFailedError(
            "batches were replaced meanwhile", condition=(lower, upper), current=len(found) or None
        )
    if output.since > state.since:
        raise ConditionFailedError(
            "since is not reached", condition=output.since, current=state.since
        )
    parts = list(output.parts())
    known = {name for batch in inputs for name in names_in(batch)}
    check_parts(state, parts, known=known)
    batches = _with_output(state.batches, span, output)
    check_batches(state, batches)
    writers = holds_moved(state.writers, parts)
    return replace(state, batches=batches, writers=writers), None


def _check_sums(inputs: Sequence[CollectionBatch], output: CollectionBatch) -> None:
    if not inputs or (inputs[0].lower, inputs[-1].upper) != (output.lower, output.upper):
        raise ValueError("the output of a compaction has another range than its inputs")
    if output.since < max(batch.since for batch in inputs):
        raise ValueError("the output of a compaction has a lower since than its inputs")
    if output.rows > sum(batch.rows for batch in inputs):
        raise ValueError("the output of a compaction has more rows than its inputs")
    if output.diff_sum != sum(batch.diff_sum for batch in inputs):
        raise ValueError("the output of a compaction has another sum of diffs than its inputs")


def _is_in_an_empty_one(batches: Batches, output: CollectionBatch) -> bool:
    """Whether nothing is left in the range of an output that is empty."""
    return not output.runs and any(
        not batch.runs and batch.lower <= output.lower and output.upper <= batch.upper
        for batch in batches.items
    )


def _with_output(batches: Batches, span: tuple[int, int], output: CollectionBatch) -> Batches:
    """Replace a span. An output that is empty becomes one with empty batches next to it."""
    start, stop = span
    items = batches.items
    if not output.runs:
        if start and not items[start - 1].runs:
            start -= 1
        if stop < len(items) and not items[stop].runs:
            stop += 1
        output = CollectionBatch(
            lower=items[start].lower,
            upper=items[stop - 1].upper,
            since=max(output.since, *(batch.since for batch in items[start:stop])),
        )
    return batches.replaced(start, stop, (output,))
