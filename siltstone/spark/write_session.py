"""The beginning of a write: an import session, and a look at what is to be replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta

from siltstone.container.models.imports import ImportMode, ImportTicket, ReplacedIs
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import SegmentNotFoundError, SegmentSealedError
from siltstone.spark.ownership import PLAN_WAIT_S, container_for, owned
from siltstone.spark.write_options import Outputs, WriteOptions
from siltstone.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSession:
    """An import session, as it travels to the tasks of a write and to its end.

    Attributes:
        ticket: of the session.
        seen: what an overwrite may replace, by name; segments that are not named were not there.
    """

    ticket: ImportTicket
    seen: Mapping[str, ReplacedIs] = field(default_factory=dict)

    def of(self, names: Iterable[str]) -> WriteSession:
        """This session with only what concerns the segments of these names."""
        return replace(self, seen={name: self.seen[name] for name in names if name in self.seen})

    def replaced(self, name: str) -> ReplacedIs:
        """What an overwrite may replace under this name."""
        return self.seen.get(name, ReplacedIs(segment=name))


def open_session(options: WriteOptions, lifetime: timedelta, *, again: bool) -> WriteSession:
    """Claim the container for a moment, open an import session, and look at what is there.

    Args:
        options: of the write.
        lifetime: of the session.
        again: whether nothing of it can be published yet, as of a batch of a stream that is
            planned again: then a segment that takes no bytes is refused at once.

    Raises:
        StoreInUseError: another process owns it; no task was run.
        SegmentSealedError: the segment is sealed.
        SettingsError: the segments might not share a container.
        SiltstoneError: whatever opening a store raises.
    """
    several = options.outputs is not Outputs.ONE
    container = container_for(options.store, options.segment, several=several)
    with closing(SystemEnvironment()) as environment:
        name = f"spark/{environment.uuid().hex()}"
    with owned(options.store, container, PLAN_WAIT_S) as store:
        if options.import_mode is ImportMode.REPLACE:
            ticket = store.open_import(name, options.segment, lifetime=lifetime)
            return WriteSession(ticket=ticket, seen=_seen(store, options))
        if again and not several:
            _check_open(store, options.segment)
        return WriteSession(ticket=store.open_import(name, options.segment, lifetime=lifetime))


def _seen(store: Store, options: WriteOptions) -> dict[str, ReplacedIs]:
    """The segments that an overwrite might replace."""
    if options.outputs is Outputs.ONE:
        try:
            found = [store.segment(options.segment).info()]
        except SegmentNotFoundError:
            found = []
    else:
        found = list(store.list(f"{options.segment}/"))
    return {
        info.name: ReplacedIs(segment=info.name, segment_id=info.segment_id, length=info.length)
        for info in found
    }


def _check_open(store: Store, segment: str) -> None:
    try:
        sealed = store.segment(segment).info().sealed
    except SegmentNotFoundError:
        return
    if sealed:
        raise SegmentSealedError("segment is sealed", segment=segment)
