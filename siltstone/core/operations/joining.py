"""What a concat rests on: which segment goes behind which, where, and from where on."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.errors import OffsetError, SegmentNotSealedError, SegmentSealedError
from siltstone.core.layout_store import LayoutChange
from siltstone.core.operations.context import Context
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """A concat on its way.

    Attributes:
        target_id: gets the bytes.
        source_id: gives them; sealed, and flushed to its end.
        offset: where they begin in the target: its flushed length.
        start: where they begin in the source: its start.
        hidden: the source is one that nobody ever saw: an import's, whose state says deleted.
    """

    target_id: int
    source_id: int
    offset: int
    start: int
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The rows of both segments.

    Attributes:
        target: layout of the target.
        source: layout of the source.
        source_state: state of the source; the concat holds only while it stays the same.
    """

    target: Layout
    source: Layout
    source_state: SegmentState


def checked(context: Context, joining: Joining) -> Ends:
    """The rows of both segments, if the concat may go on.

    Raises:
        SegmentNotFoundError: one of the two was deleted.
        SegmentNotSealedError: the source is not sealed.
        SegmentSealedError: the target is sealed.
        OffsetError: one of the two has changed.
    """
    target_state = context.live_state(joining.target_id)
    source_state = _source_state(context, joining)
    target = context.layouts.layout(joining.target_id)
    source = context.layouts.layout(joining.source_id)
    if source_state.sealed_length is None:
        raise SegmentNotSealedError("source is not sealed", segment=source_state.name)
    if target_state.sealed_length is not None:
        raise SegmentSealedError("target is sealed", segment=target_state.name)
    if source.storage_length != source_state.sealed_length:
        raise OffsetError(
            "source is not flushed",
            segment=source_state.name,
            expected=source_state.sealed_length,
            actual=source.storage_length,
        )
    if source_state.start_offset != joining.start:
        raise truncated(source_state, joining)
    if target.storage_length != joining.offset:
        raise OffsetError(
            "target has another flushed length",
            segment=target_state.name,
            expected=target.storage_length,
            actual=joining.offset,
        )
    return Ends(target=target, source=source, source_state=source_state)


async def commit_joining(context: Context, joining: Joining, change: LayoutChange) -> None:
    """Commit ``change``, or say which of the two has changed. Raises what ``checked`` raises."""
    if await context.commit(change):
        return
    context.live_state(joining.target_id)
    raise truncated(_source_state(context, joining), joining)


def _source_state(context: Context, joining: Joining) -> SegmentState:
    if not joining.hidden:
        return context.live_state(joining.source_id)
    state = context.layouts.state(joining.source_id)
    if state is None:
        raise context.not_found(joining.source_id)
    return state


def truncated(source: SegmentState, joining: Joining) -> OffsetError:
    """The error for a source whose start has moved: what was truncated must not come back."""
    return OffsetError(
        "source was truncated meanwhile",
        segment=source.name,
        expected=source.start_offset,
        actual=joining.start,
    )
