"""Export: ranges of segments into files of a folder, as tables of Parquet or unchanged."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import CorruptDataError, SettingsError, SiltstoneError
from siltstone.core.packages import install_hint
from siltstone.core.posix import SystemFileCalls
from siltstone.core.storage.durable_writes import write_stream_durably
from siltstone.pipelines.export_ends import check_end
from siltstone.pipelines.export_layout import (
    ExportHead,
    Form,
    Records,
    exported_ranges,
    folder_name,
    range_name,
    write_head,
)
from siltstone.pipelines.export_place import Place, draft_of, place_of, prepare, publish, target_of
from siltstone.pipelines.segment_ranges import (
    SegmentRange,
    cut_at_grid,
    gaps,
    last_line_end,
    plan_range,
    read_range,
)
from siltstone.pipelines.store_view import StoreView
from siltstone.pipelines.work import (
    FAILED,
    OK,
    SAME,
    Executor,
    ItemOutcome,
    PipelineError,
    Step,
    packed,
    share_of,
)
from siltstone.store.worker_store import worker_store

UNREADABLE: Final = "unreadable"
"""The bytes are damaged, or are not the records that were asked for."""

FILE_BYTES: Final = 64 * MIB
"""Of a segment in one file; ranges end at its multiples."""

GROUP_BYTES: Final = 32 * MIB
"""Of one row group of Parquet, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportItem:
    """One file of an export, to be written or compared.

    Attributes:
        part: what it holds, or should hold.
        head: of its folder.
        target: where the export lies, the same for every worker; see ``place_of``.
        name: of the folder, and of the file in it.
    """

    part: SegmentRange
    head: ExportHead
    target: str
    name: str

    @property
    def size(self) -> int:
        """Bytes that are read of the segment."""
        return self.part.size


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportWork:
    """Writes files of an export.

    Attributes:
        store: the settings file.
        uuid: of the store.
        rate: bytes a second that all openings together read; ``None`` for no limit.
    """

    store: str
    uuid: str
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open long-term storage."""
        with closing(worker_store(self.store, self.uuid, share_of(self.rate, openings))) as storage:
            yield partial(_exported, self.store, storage)


def plan_export(
    view: StoreView,
    segments: Sequence[SegmentInfo],
    folder: Path | str,
    form: Form,
    records: Records,
    file_bytes: int = FILE_BYTES,
) -> list[ExportItem]:
    """Plan the files that are missing in ``folder``, which may be the address of a bucket.

    Lines end at the last newline unless the segment is sealed, and the rest of it comes with a
    later export. Events of one segment are written one file at a time, as they have to be read
    from the first on.

    Args:
        view: the store.
        segments: what is exported.
        folder: where to; made when it is missing.
        form: how files are written.
        records: what the bytes are taken for; files hold them as ``bytes``.
        file_bytes: of a segment in one file.

    Raises:
        SettingsError: the form and the records do not go together, or pyarrow is missing.
        StoreError: the folder holds another export of a segment, or one from before a recovery; or
            the store no longer has the last bytes of it, as its tier 1 was put back.
        CorruptDataError: these are damaged in the store.
        OSError: the folder, or the service of the bucket, gives no answer.
        CapabilityError: a name is too long for a folder.
    """
    if form is Form.FILES and records is not Records.BYTES:
        raise SettingsError(f"files hold bytes as they are, not {records}")
    if form is Form.PARQUET:
        _check_pyarrow()
    target = target_of(folder)
    root = place_of(target)
    prepare(root)
    items = []
    for info in segments:
        head = ExportHead(
            store=view.uuid,
            segment=info.name,
            segment_id=info.segment_id,
            lineage=view.lineage_of(info),
            form=form,
            records=records,
        )
        place = root / folder_name(info.name)
        write_head(place, head)
        check_end(view, info, place, head)
        end = last_line_end(view, info) if records is Records.LINES else info.length
        for start, stop in _missing(place, head, info.start_offset, end, file_bytes):
            part = plan_range(view, info, start, stop, end)
            name = f"{place.name}/{range_name(head, start, stop)}"
            items.append(ExportItem(part=part, head=head, target=target, name=name))
    return items


def export(
    view: StoreView,
    executor: Executor,
    items: Sequence[ExportItem],
    *,
    rate: int | None = None,
) -> Generator[ItemOutcome]:
    """Write files and yield what became of each: ``ok``, ``same``, ``unreadable`` or ``failed``.

    A file appears whole or not at all, and one that is there stays as it is: what was killed is
    planned and run again. ``rate`` is how many bytes of the store are read a second at most;
    ``None`` means no limit.
    """
    work = ExportWork(store=view.path, uuid=view.uuid, rate=rate)
    return executor.run(work, packed(items, executor.workers))


def _missing(
    folder: Place, head: ExportHead, start: int, end: int, file_bytes: int
) -> Iterator[tuple[int, int]]:
    for low, high in gaps(start, end, exported_ranges(folder, head)):
        if head.records is Records.EVENTS:
            yield low, high
        else:
            yield from cut_at_grid(low, high, file_bytes)


def _exported(store: str, storage: ChunkStorage, item: ExportItem) -> ItemOutcome:
    try:
        path = place_of(item.target) / item.name
        if path.exists():
            return ItemOutcome(subject=item.name, status=SAME, length=item.size)
        with draft_of(path) as draft:
            if item.head.form is Form.PARQUET:
                _write_parquet(store, storage, item, draft)
            else:
                _write_bytes(draft, read_range(store, storage, item.part))
            status = OK if publish(draft, path) else SAME
    except CorruptDataError as error:
        return ItemOutcome(subject=item.name, status=UNREADABLE, message=str(error))
    except (SiltstoneError, OSError) as error:
        return ItemOutcome(subject=item.name, status=FAILED, message=str(error))
    return ItemOutcome(subject=item.name, status=status, length=item.size)


def _write_bytes(draft: Path, pieces: Iterable[memoryview]) -> None:
    with draft.open("wb", buffering=0) as file:
        write_stream_durably(SystemFileCalls(), file.fileno(), pieces, 0)


def _write_parquet(store: str, storage: ChunkStorage, item: ExportItem, draft: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    from siltstone.pipelines.export_records import schema_of, tables_of

    records = item.head.records
    held, held_bytes = [], 0
    with pyarrow.parquet.ParquetWriter(draft, schema_of(records)) as writer:
        for table in tables_of(records, store, storage, item.part):
            held.append(table)
            held_bytes += table.nbytes
            if held_bytes >= GROUP_BYTES:
                writer.write_table(pyarrow.concat_tables(held))
                held, held_bytes = [], 0
        if held:
            writer.write_table(pyarrow.concat_tables(held))


def _check_pyarrow() -> None:
    try:
        import numpy  # noqa: F401 - only whether it is there
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise PipelineError(
            f"Parquet needs {error.name}, which is not installed; "
            f"try: {install_hint('spark')}; or --form files, which needs nothing"
        ) from error
