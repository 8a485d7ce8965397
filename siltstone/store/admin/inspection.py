"""Looking into the log and the journal of a store, whether it opens or not. Claims nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from siltstone.container.boot.log_consistency import is_used, read_known_journal
from siltstone.container.boot.storage_layers import bridged
from siltstone.container.models.log_views import FrameView, LogHead, doubts_of, frame_view
from siltstone.container.models.segments import Finding
from siltstone.container.state.log_scan import READS_MAX
from siltstone.core.chunk_names import system_prefix
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Pool, SystemEnvironment
from siltstone.core.errors import (
    ChunkNotFoundError,
    CorruptDataError,
    LogLostError,
    LogTruncatedError,
)
from siltstone.core.fenced_log import LogReader
from siltstone.core.pauses import Stop
from siltstone.core.storage.first_look import first_look_at_log
from siltstone.core.text import counted, uuid_text
from siltstone.journal.journal_state import EPOCH_END, JournalState
from siltstone.journal.journal_views import JournalFileView, journal_file_view, journal_place
from siltstone.metadata.checkpoint import without_options
from siltstone.store.store_assembly import Assembly, assembled

_HEADS: Final = Pool(name="siltstone-heads", threads=16)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What can be looked at without opening a container.

    Attributes:
        assembly: how its parts are reached.
        storage: a client of long-term storage.
    """

    assembly: Assembly
    storage: ChunkStorage

    @property
    def containers(self) -> range:
        """Indexes of all containers."""
        return range(self.assembly.manifest.container_count)

    def log_head(self, container: int) -> LogHead:
        """A log at a glance. Raises ``LogError``, ``CorruptDataError``."""
        return first_look_at_log(container, partial(self._log_head, container))

    def _log_head(self, container: int) -> LogHead:
        with self._reader(container) as reader:
            log = self.assembly.new_log(container)
            try:
                holder = log.holder()
                doubts = doubts_of(log)
            finally:
                log.close()
            lineage = reader.lineage()
            return LogHead(
                container=container,
                epoch=reader.epoch(),
                alive=holder.alive,
                owner=holder.description,
                lineage="" if lineage is None else uuid_text(lineage),
                first=reader.first(),
                end=reader.end(),
                dropped_tail=reader.dropped_tail(),
                doubts=doubts,
            )

    def log_heads(self) -> list[LogHead]:
        """The logs of all containers at a glance, some at a time: each may take seconds.

        Raises:
            LogError: one did not answer.
            CorruptDataError: one is damaged.
        """

        async def look() -> list[LogHead]:
            run, stop = self.assembly.environment.run_blocking, Stop()
            heads = [
                asyncio.ensure_future(run(_HEADS, partial(stop.run, partial(self.log_head, index))))
                for index in self.containers
            ]
            try:
                return await asyncio.gather(*heads)
            finally:
                # Those that were not begun when another one failed are no longer looked at.
                stop.set()
                for head in heads:
                    head.cancel()

        return asyncio.run(look())

    def frames(
        self, container: int, start: int | None = None, *, rows: bool = False
    ) -> Iterator[FrameView]:
        """Yield frames from index ``start`` on; ``None`` begins with the first one kept.

        Frames that an owner truncates meanwhile are skipped.

        Raises:
            LogTruncatedError: ``start`` lies below the first frame that is kept; or the log was
                truncated again and again.
            CorruptDataError: a frame is damaged.
        """
        with self._reader(container) as reader:
            first = first_look_at_log(container, reader.first)
            begin, misses = first if start is None else start, 0
            while True:
                try:
                    for frame in reader.read(begin):
                        begin, misses = frame.index + 1, 0
                        yield frame_view(frame, rows=rows)
                except LogTruncatedError:
                    # An owner truncates meanwhile; what was asked for by its index must be kept.
                    misses += 1
                    if begin == start or misses == READS_MAX:
                        raise
                    begin = reader.first()
                else:
                    return

    def journal_files(self, container: int) -> Iterator[JournalFileView]:
        """Yield every journal file, epoch by epoch, the oldest first.

        Raises:
            ChunkError: long-term storage did not answer.
        """
        listing = self.storage.list(system_prefix(container))
        found = [stat for stat in listing if journal_place(stat.name, container) is not None]
        for stat in sorted(found, key=lambda stat: journal_place(stat.name, container) or (0, 0)):
            try:
                data = self._read(stat.name, stat.length)
            except ChunkNotFoundError:
                # Its owner is at work and no longer needs it.
                continue
            yield journal_file_view(container, stat.name, data)

    def verify_journal(self, container: int) -> Iterator[Finding]:
        """Yield what a boot would skip or fail at, and what it would miss.

        Damage of files that no boot needs any more is a warning.

        Raises:
            ChunkError: long-term storage did not answer.
        """
        failure: CorruptDataError | LogLostError | None = None
        journal_state: JournalState | None = None
        try:
            journal_state = asyncio.run(self.journal_state(container))
        except (CorruptDataError, LogLostError) as error:
            failure = error
        where = f"container {container}"
        for file in self.journal_files(container):
            if file.damage:
                yield Finding(severity="warning", where=file.name, message=file.damage)
        if failure is not None:
            yield Finding(severity="damage", where=where, message=str(failure))
        elif journal_state is None:
            yield Finding(severity="warning", where=where, message="it was never opened")
        else:
            for warning in journal_state.warnings:
                yield Finding(severity="warning", where=where, message=warning)
            missing = self._missing(journal_state)
            if missing:
                # An owner may be at work: what its newest state does not name may be deleted.
                again = asyncio.run(self.journal_state(container))
                named = set() if again is None else {name for name, _ in _named(again)}
                yield from (finding for finding in missing if finding.where in named)

    def _missing(self, journal_state: JournalState) -> list[Finding]:
        """What is missing or short of what a state names."""
        findings = []
        for name, length in _named(journal_state):
            try:
                found = self.storage.stat(name).length
                message = (
                    "" if found >= length else f"it has {counted(found, 'byte')}, of {length:,}"
                )
            except ChunkNotFoundError as error:
                message = str(error)
            if message:
                findings.append(Finding(severity="damage", where=name, message=message))
        return findings

    async def journal_state(self, container: int) -> JournalState | None:
        """What the journal states; ``None`` when the container was never opened.

        Raises:
            CorruptDataError: no checkpoint that counts is whole, or the journal is gone.
            LogLostError: there is no journal, and the log holds frames.
            ChunkError: long-term storage did not answer.
        """
        assembly = self.assembly
        storage = bridged(self.storage, assembly.environment, assembly.settings.container)
        return await read_known_journal(
            storage,
            assembly.environment,
            container,
            EPOCH_END,
            partial(self._is_used, container),
            _HEADS,
        )

    def _is_used(self, container: int) -> bool:
        with self._reader(container) as reader:
            return is_used(reader)

    def _read(self, name: str, length: int) -> bytearray:
        data = bytearray(length)
        done = 0
        while done < length:
            count = self.storage.read_into(name, done, memoryview(data)[done:])
            if not count:
                break
            done += count
        return data[:done]

    @contextmanager
    def _reader(self, container: int) -> Iterator[LogReader]:
        log = self.assembly.new_log(container)
        try:
            reader = log.open_read()
            try:
                yield reader
            finally:
                reader.close()
        finally:
            log.close()


def _named(journal_state: JournalState) -> list[tuple[str, int]]:
    """The files that a boot from this state needs, with the bytes that they must have."""
    index_files = without_options(journal_state.checkpoint.index_files)
    named = [(file.chunk_name, file.length) for file in index_files]
    return named + [(c.name, c.length) for layout in journal_state.layouts for c in layout.chunks]


@contextmanager
def open_inspection(path: Path | str) -> Iterator[Inspection]:
    """Open what can be looked at of the store whose settings file, or folder, is ``path``.

    Raises:
        StoreNotFoundError: there is no settings file, or no store on long-term storage.
        SettingsError: the settings file is wrong.
        FormatError: a newer version made the store.
    """
    environment = SystemEnvironment()
    try:
        assembly = assembled(path, environment)
        storage = assembly.new_storage()
        try:
            yield Inspection(assembly, storage)
        finally:
            storage.close()
            assembly.close()
    finally:
        environment.close()
