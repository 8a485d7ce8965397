"""What may happen to a file log; the rules of ``tier1/file``, each with its switch."""

from __future__ import annotations

from itertools import product
from typing import Any

from tests.specification.file_log_disk import (
    evictions,
    file_after_cut,
    is_dirty,
    is_sure,
    settled,
    slot_after_cut,
    synced,
    with_file,
)
from tests.specification.file_log_state import (
    DEAD,
    DIRTY,
    DURABLE,
    FENCING,
    FLUSHED,
    HEADED,
    LOOKED,
    LOST,
    MADE,
    MARKED,
    PEEKED,
    READ,
    READY,
    STATED,
    SYNCED,
    UNBORN,
    WRITTEN,
    File,
    FileLogBounds,
    FileLogRules,
    Marker,
    Owner,
    Reader,
    State,
    View,
    named,
    newest_slot,
    on_disk,
    view_of,
)
from tests.specification.file_log_state import shown as shown_parts
from tests.specification.owned import OwnedMachine
from tests.specification.search import Steps, Violation


class FileLog(OwnedMachine):
    """The machine."""

    def __init__(self, rules: FileLogRules, bounds: FileLogBounds) -> None:
        super().__init__()
        self.rules = rules
        self.bounds = bounds
        self._views: dict[tuple[File, ...], View] = {}
        self._disks: dict[tuple[File, ...], View] = {}

    def initial(self) -> State:
        bounds = self.bounds
        return State(
            files=(File(),) * bounds.owners,
            marker=Marker(),
            owners=(Owner(),) * bounds.owners,
            reader=Reader(),
            committed=(),
            claimed=0,
            left=(bounds.sync_failures, bounds.power_cuts, bounds.evictions, bounds.looks),
        )

    def view(self, files: tuple[File, ...]) -> View:
        """The log as processes see it."""
        found = self._views.get(files)
        if found is None:
            found = self._views[files] = view_of(files, self.rules)
        return found

    def broken(self, state: State) -> Violation | None:
        committed = state.committed
        if not committed:
            return None
        disk = self._disks.get(state.files)
        if disk is None:
            disk = self._disks[state.files] = view_of(on_disk(state.files), self.rules)
        for view, where in ((self.view(state.files), "shows"), (disk, "has on the disk")):
            if view.damaged or view.frames[: len(committed)] != committed:
                found = "damage" if view.damaged else named(view.frames)
                return Violation(
                    "I13", f"acknowledged is {named(committed)}, but the log {where} {found}"
                )
        return None

    def shown(self, state: State) -> dict[str, object]:
        return shown_parts(state, with_reader=bool(self.bounds.looks))

    def steps(self, state: State) -> Steps[State]:
        for number, owner in enumerate(state.owners, 1):
            if owner.at == DEAD:
                continue
            for label, after in self._owner_steps(state, number, owner):
                yield f"owner {number} {label}", after
            if owner.at == UNBORN:
                break  # The next one begins only when this one has.
            yield f"owner {number} dies", self._dead(state, number)
        yield from self._reader_steps(state)
        yield from self._power_cuts(state)
        if state.left[2]:
            yield from self._evictions(state)

    # --- owners -----------------------------------------------------------------------------------

    def _owner_steps(self, state: State, number: int, owner: Owner) -> Steps[State]:
        at = owner.at
        if at == UNBORN and not self.rules.marker_before_reading:
            view = self.view(state.files)
            peeked = Owner(PEEKED, 0, view.frames, view.statement)
            yield "reads the older files", self._with(state, number, peeked)
        elif at in (UNBORN, PEEKED):
            yield from self._mark(state, number, owner)
        elif at == LOOKED:
            yield self._write_slot(state, number, owner)
        elif at == MARKED:
            yield from self._sync_marker(state, number, owner)
        elif at == FENCING:
            yield from self._make_file(state, number, owner)
        elif at == MADE:
            yield self._read(state, number, owner)
        elif at == READ:
            yield from self._sync_older(state, number, owner)
        elif at == SYNCED:
            yield self._write_header(state, number, owner)
        elif at == HEADED:
            yield from self._sync_header(state, number, owner)
        elif at == STATED:
            yield self._end_claim(state, number, owner)
        elif at == READY:
            yield from self._write(state, number, owner)
        elif at == WRITTEN:
            yield from self._sync_frame(state, number, owner)
        else:
            yield self._acknowledge(state, number, owner)

    def _mark(self, state: State, number: int, owner: Owner) -> Steps[State]:
        rules, marker = self.rules, state.marker
        if marker.lock and rules.marker_locked:
            return
        if rules.marker_synced_before_reading_slots and marker.dirty:
            if state.left[0]:
                lost = marker._replace(dirty=0)
                yield (
                    "cannot sync the marker",
                    self._dead(self._with_failure(state, marker=lost), number),
                )
            marker = synced(marker)
        newest, free = newest_slot(marker.shown)
        names = [e for e, file in enumerate(state.files, 1) if file.name]
        unknown = not newest and all(marker.shown)
        lost_marker = not any(marker.shown) and any(file.header for file in state.files)
        if unknown or lost_marker:
            yield "finds the marker damaged", self._dead(state, number)
            return
        epoch = 1 + max([newest // 16, *(names if rules.epoch_above_file_names else [])])
        looked = owner._replace(at=LOOKED, epoch=epoch, slot=free)
        if rules.marker_locked:
            yield self._write_slot(self._parts(state, marker=marker), number, looked)
        else:
            yield "reads the slots", self._with(state, number, looked, marker=marker)

    def _write_slot(self, state: State, number: int, owner: Owner) -> tuple[str, State]:
        marker, slot = state.marker, owner.slot
        slots = list(marker.shown)
        slots[slot] = 16 * owner.epoch + number
        lock = number if self.rules.marker_locked else 0
        marker = Marker((slots[0], slots[1]), marker.disk, marker.dirty | 1 << slot, lock)
        after = owner._replace(at=MARKED, slot=0)
        label = f"writes epoch {owner.epoch} into slot {slot}"
        return label, self._with(state, number, after, marker=marker)

    def _sync_marker(self, state: State, number: int, owner: Owner) -> Steps[State]:
        after = owner._replace(at=FENCING)
        if not self.rules.marker_synced:
            marker = state.marker._replace(lock=0)
            yield "leaves the marker unsynced", self._with(state, number, after, marker=marker)
            return
        marker = synced(state.marker)._replace(lock=0)
        yield "syncs the marker", self._with(state, number, after, marker=marker)
        if state.left[0]:
            lost = state.marker._replace(dirty=0, lock=0)
            yield (
                "cannot sync the marker",
                self._dead(self._with_failure(state, marker=lost), number),
            )

    def _make_file(self, state: State, number: int, owner: Owner) -> Steps[State]:
        if state.files[owner.epoch - 1].name and self.rules.files_created_exclusively:
            yield "finds its file there", self._dead(state, number)
            return
        name = DURABLE if self.rules.file_durable_before_frames else DIRTY
        files = with_file(state.files, owner.epoch, File(name=name))
        yield "makes its file", self._with(state, number, owner._replace(at=MADE), files=files)

    def _read(self, state: State, number: int, owner: Owner) -> tuple[str, State]:
        view = self.view(state.files)
        if view.damaged or view.epoch > owner.epoch:
            return "finds damage or a later claim", self._dead(state, number)
        claimed = max(state.claimed, owner.epoch)
        if not self.rules.marker_before_reading:
            return "continues", self._with(state, number, owner._replace(at=READ), claimed=claimed)
        after = Owner(READ, owner.epoch, view.frames, view.statement)
        return "reads the older files", self._with(state, number, after, claimed=claimed)

    def _sync_older(self, state: State, number: int, owner: Owner) -> Steps[State]:
        after = owner._replace(at=SYNCED)
        if not self.rules.older_files_synced:
            yield "leaves the older files", self._with(state, number, after)
            return
        files = state.files
        older = [e for e in range(1, owner.epoch) if files[e - 1].header]
        for epoch in older:
            if state.left[0] and is_dirty(files[epoch - 1]):
                lost = with_file(files, epoch, self._unsynced(files[epoch - 1]))
                yield (
                    f"cannot sync the file of epoch {epoch}",
                    self._dead(self._with_failure(state, files=lost), number),
                )
        for epoch in older:
            files = with_file(files, epoch, settled(files[epoch - 1], DURABLE))
        yield "syncs the older files", self._with(state, number, after, files=files)

    def _write_header(self, state: State, number: int, owner: Owner) -> tuple[str, State]:
        predecessor, end, crc = owner.statement
        file = state.files[owner.epoch - 1]
        copy = owner.known[-1] if owner.known and self.rules.last_frame_copied else 0
        file = file._replace(
            header=DIRTY, predecessor=predecessor, end=end, crc=crc, copy=copy, frames=()
        )
        files = with_file(state.files, owner.epoch, file)
        label = f"writes its header: epoch {predecessor} ends at {end}"
        return label, self._with(state, number, owner._replace(at=HEADED), files=files)

    def _sync_header(self, state: State, number: int, owner: Owner) -> Steps[State]:
        after = owner._replace(at=STATED)
        if state.files[owner.epoch - 1].failed:
            yield "is told of a failed sync", self._dead(state, number)
            return
        if not self.rules.header_synced_before_frames:
            yield "leaves its header unsynced", self._with(state, number, after)
            return
        for status, label in ((DURABLE, "syncs its header"), (LOST, "cannot sync its header")):
            file = settled(state.files[owner.epoch - 1], status)
            files = with_file(state.files, owner.epoch, file)
            if status == DURABLE:
                yield label, self._with(state, number, after, files=files)
            elif state.left[0]:
                failed = self._with_failure(state, files=files)
                if self.rules.failed_sync_poisons:
                    yield label, self._dead(failed, number)
                else:
                    yield label, self._with(failed, number, after)

    def _end_claim(self, state: State, number: int, owner: Owner) -> tuple[str, State]:
        if self.rules.later_claim_checked and not self._is_mine(state, number, owner):
            return "finds a later claim", self._dead(state, number)
        return "has the log", self._with(state, number, owner._replace(at=READY))

    def _write(self, state: State, number: int, owner: Owner) -> Steps[State]:
        file = state.files[owner.epoch - 1]
        if len(file.frames) >= self.bounds.frames:
            return
        early = not self.rules.marker_checked_after_sync
        if early and not self._is_mine(state, number, owner):
            yield "finds itself fenced", self._dead(state, number)
            return
        files = with_file(state.files, owner.epoch, file._replace(frames=(*file.frames, DIRTY)))
        label = f"writes frame {owner.epoch}.{len(file.frames)}"
        yield label, self._with(state, number, owner._replace(at=WRITTEN), files=files)

    def _sync_frame(self, state: State, number: int, owner: Owner) -> Steps[State]:
        file = state.files[owner.epoch - 1]
        if file.failed:
            yield "is told of a failed sync", self._dead(state, number)
            return
        flushed = owner._replace(at=FLUSHED)
        files = with_file(state.files, owner.epoch, settled(file, DURABLE))
        yield "syncs its file", self._with(state, number, flushed, files=files)
        if state.left[0] and is_dirty(file):
            files = with_file(state.files, owner.epoch, settled(file, LOST))
            failed = self._with_failure(state, files=files)
            if self.rules.failed_sync_poisons:
                failed = self._dead(failed, number)
            yield "cannot sync its file", failed
        if not self.rules.one_frame_in_flight:
            yield from self._write(state, number, owner)

    def _acknowledge(
        self, state: State, number: int, owner: Owner
    ) -> tuple[str, State | Violation]:
        if self.rules.marker_checked_after_sync and not self._is_mine(state, number, owner):
            return "finds itself fenced", self._dead(state, number)
        epoch, frames = owner.epoch, state.files[owner.epoch - 1].frames
        mine = [4 * epoch + place for place in range(len(frames))]
        known = (*owner.known[: owner.statement[1]], *mine)
        label = f"acknowledges {named(mine[-1:])}"
        if state.claimed > epoch:
            message = f"epoch {epoch} acknowledged after epoch {state.claimed} had read the log"
            return label, Violation("I9", message)
        if known[: len(state.committed)] != state.committed:
            message = f"{named(known)} acknowledged besides {named(state.committed)}"
            return label, Violation("I9", message)
        after = owner._replace(at=READY, known=known)
        return label, self._with(state, number, after, committed=known)

    def _reader_steps(self, state: State) -> Steps[State]:
        reader, rules = state.reader, self.rules
        if reader.at == 0:
            view = self.view(state.files)
            if state.left[3] and not view.damaged and view.frames:
                left = (*state.left[:3], state.left[3] - 1)
                after = Reader(1, view.frames, view.epoch)
                yield "a reader reads the log", self._parts(state, reader=after, left=left)
        elif reader.at == 1:
            file = state.files[reader.epoch - 1]
            if rules.reader_syncs and is_dirty(file):
                if state.left[0]:
                    lost = with_file(state.files, reader.epoch, self._unsynced(file))
                    failed = self._with_failure(state, files=lost, reader=Reader())
                    yield "the reader cannot sync", failed
                file = settled(file, DURABLE)
            sure = is_sure(file, reader, on_disk_only=rules.reader_looks_past_cache)
            files = with_file(state.files, reader.epoch, file)
            after = reader._replace(at=2, sure=sure)
            yield "the reader syncs and looks again", self._parts(state, reader=after, files=files)
        else:
            newest, _ = newest_slot(state.marker.shown)
            late = rules.reader_checks_marker and newest // 16 > reader.epoch
            known = reader.known if reader.sure and not late else reader.known[:-1]
            committed = state.committed
            short = min(len(known), len(committed))
            label = f"the reader shows {named(known)}"
            if known[:short] != committed[:short]:
                yield label, Violation("I9", f"shown besides {named(committed)}")
                return
            committed = max(committed, known, key=len)
            yield label, self._parts(state, reader=Reader(), committed=committed)

    # --- the machine that they run on -------------------------------------------------------------

    def _power_cuts(self, state: State) -> Steps[State]:
        if not state.left[1]:
            return
        owners = tuple(owner if owner.at == UNBORN else Owner(at=DEAD) for owner in state.owners)
        left = (state.left[0], state.left[1] - 1, *state.left[2:])
        after = [slot_after_cut(state.marker, slot) for slot in (0, 1)]
        for slots in product(after[0], after[1]):
            marker = Marker(shown=slots, disk=slots)
            for files in product(*(file_after_cut(file) for file in state.files)):
                yield (
                    "the power goes",
                    self._parts(
                        state, owners=owners, left=left, marker=marker, files=files, reader=Reader()
                    ),
                )

    def _evictions(self, state: State) -> Steps[State]:
        left = (*state.left[:2], state.left[2] - 1, state.left[3])
        for epoch, files in evictions(state.files):
            label = f"the page cache drops what is lost of epoch {epoch}"
            yield label, self._parts(state, files=files, left=left)

    def _is_mine(self, state: State, number: int, owner: Owner) -> bool:
        newest, _ = newest_slot(state.marker.shown)
        if not self.rules.marker_names_claim:
            return newest // 16 == owner.epoch
        return newest == 16 * owner.epoch + number

    def _dead(self, state: State, number: int) -> State:
        marker = state.marker
        if marker.lock == number:
            marker = marker._replace(lock=0)
        return self._with(state, number, Owner(at=DEAD), marker=marker)

    def _unsynced(self, file: File) -> File:
        """The file when a sync by another process than its owner failed."""
        return settled(file, LOST)._replace(failed=self.rules.kernel_tells_each_descriptor)

    def _with_failure(self, state: State, **parts: Any) -> State:
        return self._parts(state, left=(state.left[0] - 1, *state.left[1:]), **parts)
