"""The doctor: whether what a store needs is there and does what it should. Claims nothing."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from siltstone.container.models.log_views import condition_of
from siltstone.container.state.boot_state import boot_state_of, check_lineage, check_log
from siltstone.core.constants import GIB
from siltstone.core.errors import (
    LogLostError,
    LogTruncatedError,
    SiltstoneError,
    StoreNotFoundError,
)
from siltstone.core.records.frame import Frame
from siltstone.core.records.piece import (
    ControlKind,
    ControlPiece,
    decode_pieces,
    decode_time_record,
)
from siltstone.core.storage.first_look import first_look_at_log
from siltstone.core.text import counted
from siltstone.store.admin.inspection import Inspection, open_inspection
from siltstone.store.admin.storage_probes import (
    NOTHING_CREATED,
    PROBES_PREFIX,
    Probe,
    StorageProbes,
    remove_leftovers,
)
from siltstone.store.local_index import check_local_index

SKEW_S = 5.0
"""More than synchronised clocks differ."""
ROOM_BYTES = GIB
NEWEST_COUNT = 4
"""The newest frames; the last one may be an owner's end marker, which has no time."""
LEFT_S = 3600.0
"""No doctor works for this long."""


def diagnose(path: Path | str) -> Iterator[Probe]:
    """Probe the store whose settings file, or folder, is ``path``.

    On long-term storage some small chunks and one of 8 MiB are made below ``system/doctor/`` and
    deleted again. Nothing is claimed, and nothing that belongs to the store is touched.

    Raises:
        StoreNotFoundError: there is no settings file, or no store on long-term storage.
        SettingsError: the settings file is wrong.
        FormatError: a newer version made the store.
    """
    with open_inspection(path) as inspection:
        other = inspection.assembly.new_storage()
        try:
            environment = inspection.assembly.environment
            probes = StorageProbes(inspection.storage, other, environment)
            yield from probes.run()
            yield from Doctor(inspection, creates_nothing=probes.creates_nothing).rest()
        finally:
            other.close()


class Doctor:
    """All probes but those of long-term storage itself.

    Args:
        inspection: of the store.
        creates_nothing: the probes before could create no chunk, and have said why.
    """

    def __init__(self, inspection: Inspection, *, creates_nothing: bool) -> None:
        self._inspection = inspection
        self._creates_nothing = creates_nothing
        self._assembly = inspection.assembly
        self._storage = inspection.storage
        self._environment = inspection.assembly.environment

    def rest(self) -> Iterator[Probe]:
        """Yield the outcome of each probe."""
        yield self._outcome("clock", "long-term storage", self._clock)
        for index in self._inspection.containers:
            log = self._outcome("log", f"container {index}", partial(self._log, index))
            yield log
            if log.outcome != "failed":
                opens = partial(asyncio.run, self._opens(index))
                yield self._outcome("container", f"container {index}", opens)
        for name, folder in self._folders():
            yield self._outcome("space", name, partial(self._space, folder))
        yield self._outcome("leftovers", "interrupted doctors", self._leftovers)
        yield self._outcome("leftovers", "logs set aside", self._set_aside)

    def _outcome(self, area: str, name: str, probe: Callable[[], tuple[str, str]]) -> Probe:
        try:
            outcome, detail = probe()
        except (SiltstoneError, OSError) as error:
            outcome, detail = "failed", str(error)
        return Probe(area=area, name=name, outcome=outcome, detail=detail)

    # --- clock ------------------------------------------------------------------------------------

    def _clock(self) -> tuple[str, str]:
        """Compare this machine's clock with that of the service, by a chunk that is made now."""
        if self._creates_nothing:
            return "skipped", NOTHING_CREATED
        name = f"{PROBES_PREFIX}{self._environment.random_bytes(8).hex()}/clock"
        before = self._environment.time()
        self._storage.create(name, [b"clock"])
        try:
            modified = self._storage.stat(name).modified_s
        finally:
            self._storage.delete(name)
        after = self._environment.time()
        if not modified:
            return "skipped", "the service tells no times"
        skew = min(modified - before, 0.0) + max(modified - after, 0.0)
        detail = f"its clock is {round(skew, 1) + 0.0:+} s from this one"
        return ("warning" if abs(skew) > SKEW_S else "ok"), detail

    # --- logs -------------------------------------------------------------------------------------

    def _log(self, index: int) -> tuple[str, str]:
        """Whether tier 1 has what long-term storage relies on, and which owner holds it."""
        log = self._assembly.new_log(index)
        try:
            holder = first_look_at_log(index, log.holder)
            condition = condition_of(log)
            reader = log.open_read()
            try:
                first = reader.first()
                journal_state = asyncio.run(self._inspection.journal_state(index))
                if journal_state is None:
                    return "ok", "never opened"
                boot_state = boot_state_of(journal_state.checkpoint.lineage, journal_state)
                check_lineage(boot_state, reader.lineage())
                end = reader.end()
                check_log(boot_state, reader.epoch(), first, end + 1)
                ahead_s = self._ahead(reader.read(max(reader.first(), end - NEWEST_COUNT)))
            finally:
                reader.close()
        except LogLostError as error:
            return "failed", f"{error}; siltstone recover tells what is left"
        except LogTruncatedError:
            return "ok", "an owner is at work"
        finally:
            log.close()
        held = f"held: {holder.description}" if holder.alive else "not held"
        detail = f"epoch {holder.epoch}, frames {first} to {end}, {held}"
        if condition.damage:
            return "failed", f"{condition.damage}; siltstone recover continues with what it holds"
        if condition.refusals:
            refusals = "; ".join(condition.refusals)
            return "failed", f"{detail}; the next claim would be refused: {refusals}"
        if condition.warnings:
            return "warning", f"{detail}; {'; '.join(condition.warnings)}"
        if ahead_s > SKEW_S:
            return "warning", f"{detail}; its newest frame is {ahead_s:.0f} s ahead of this clock"
        return "ok", detail

    async def _opens(self, index: int) -> tuple[str, str]:
        """Open a container as a reader does; then ask what an owner asks besides."""
        try:
            reader = await self._assembly.open_reader(index)
        except StoreNotFoundError:
            return "ok", "never opened"
        try:
            stats = reader.stats()
        finally:
            await reader.close()
        if not (await self._assembly.holder(index)).alive:
            check_local_index(self._assembly.settings.index_folder / f"c{index}", stats)
        detail = f"opens at table version {stats.table_version}"
        if stats.warnings:
            return "warning", f"{detail}; {'; '.join(stats.warnings)}"
        return "ok", detail

    def _ahead(self, frames: Iterator[Frame]) -> float:
        """How far the newest frame's time lies in the future, in seconds."""
        made_ms = 0
        for frame in frames:
            where = f"frame {frame.index}"
            for piece in decode_pieces(frame.body, frame.count, where=where):
                if isinstance(piece, ControlPiece) and piece.control is ControlKind.TIME:
                    made_ms = max(made_ms, decode_time_record(piece.payload, where=where))
        return made_ms / 1000 - self._environment.time()

    # --- this machine -----------------------------------------------------------------------------

    def _folders(self) -> Iterator[tuple[str, Path]]:
        """Folders of this machine that the store writes to."""
        settings = self._assembly.settings
        for name, options in (
            ("tier 1", settings.log_options),
            ("long-term storage", settings.binding_options),
        ):
            path = options.get("path")
            if isinstance(path, str):
                yield name, Path(path)
        yield "index", settings.index_folder

    def _space(self, folder: Path) -> tuple[str, str]:
        known = next(place for place in (folder, *folder.parents) if place.exists())
        usage = shutil.disk_usage(known)
        share = usage.free * 100 // max(1, usage.total)
        detail = f"{counted(usage.free, 'byte')} free, {share}%, at {folder}"
        return ("warning" if usage.free < ROOM_BYTES else "ok"), detail

    def _leftovers(self) -> tuple[str, str]:
        count = remove_leftovers(self._storage, before_s=self._environment.time() - LEFT_S)
        return "ok", f"{counted(count, 'chunk')} deleted" if count else "none"

    def _set_aside(self) -> tuple[str, str]:
        path = self._assembly.settings.log_options.get("path")
        if not isinstance(path, str):
            return "skipped", "the log has no folder"
        kept = sorted(place.name for place in Path(path).glob("c*-aside-*"))
        if not kept:
            return "ok", "none"
        return "warning", f"{', '.join(kept)} in {path}: remove them when they are no longer needed"
