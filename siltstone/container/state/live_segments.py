"""The state rows of all segments that there are."""

from __future__ import annotations

from collections.abc import Iterator

from siltstone.container.state.replica import Replica
from siltstone.core.records.segment_state import SegmentState


def living_states(replica: Replica) -> Iterator[SegmentState]:
    """The states of all living segments, in the order of names."""
    for page in replica.rows.segment_pages():
        for _, segment_id in page:
            state = replica.rows.state(segment_id)
            if state is not None and not state.deleted:
                yield state
