"""Compare runs of files with ranges of the store, by checksum, in tasks."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import CorruptDataError, SiltstoneError
from siltstone.core.storage.cached import uncached
from siltstone.core.storage.optional_verbs import PieceRoom
from siltstone.migration.source.file_runs import FileRun, groups_of
from siltstone.migration.source.places import LegacyPlace
from siltstone.migration.source.worker_layout import WorkerLayout
from siltstone.pipelines.segment_ranges import SegmentRange, read_range
from siltstone.pipelines.work import FAILED, OK, Executor, ItemOutcome, Step, packed, share_of
from siltstone.store.worker_store import worker_store

LOOKS_MAX: Final = 5
"""Looks at what seems wrong, while each shows something other than the one before."""

DIFFERS: Final = "differs"

MISSING: Final = "missing"
"""The layout has it, and the store does not."""

Problems = dict[str, tuple[str, str]]
"""What was found of segments, as status and text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyItem:
    """Runs that one task compares.

    Attributes:
        number: of the item.
        pairs: each run of a file, and where the store has the same bytes.
    """

    number: int
    pairs: tuple[tuple[FileRun, SegmentRange], ...]

    @property
    def size(self) -> int:
        """Bytes that are read, of each side."""
        return sum(run.length for run, _ in self.pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyWork:
    """Compares runs.

    Attributes:
        layout: where the files are, and the store that they came to.
        rate: bytes a second that all openings together read, of both; ``None`` for no limit.
    """

    layout: WorkerLayout
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open the store's long-term storage and the place of the layout; both are read alike."""
        each, layout = share_of(self.rate, 2 * openings), self.layout
        with (
            closing(worker_store(layout.store, layout.uuid, each)) as storage,
            layout.open(each) as place,
        ):
            yield partial(_compared, layout.store, uncached(storage), place, PieceRoom())


def compared_segments(
    work: VerifyWork, ours: Mapping[FileRun, SegmentRange], executor: Executor, problems: Problems
) -> Generator[str]:
    """Compare runs of files with ranges; yield each segment once all of it was compared.

    Args:
        work: reads both.
        ours: where the store has each run.
        executor: where bytes are compared.
        problems: gets what is wrong with a segment, before that is yielded.
    """
    left = Counter(run.segment for run in ours)
    items = [
        VerifyItem(number=number, pairs=tuple((run, ours[run]) for run in group))
        for number, group in enumerate(groups_of(ours))
    ]
    with closing(executor.run(work, packed(items, executor.workers))) as outcomes:
        for outcome in outcomes:
            problems.update(pickle.loads(outcome.detail))
            for run, _ in items[int(outcome.subject)].pairs:
                left[run.segment] -= 1
                if not left[run.segment]:
                    yield run.segment


def _compared(
    store: str,
    storage: ChunkStorage,
    place: LegacyPlace,
    room: PieceRoom,
    item: VerifyItem,
) -> ItemOutcome:
    problems: Problems = {}
    for run, ours in item.pairs:
        if run.segment in problems:
            continue
        try:
            offset = _difference(place, run, read_range(store, storage, ours), room)
        except CorruptDataError as error:
            problems[run.segment] = (DIFFERS, str(error))
        except (SiltstoneError, OSError) as error:
            problems[run.segment] = (FAILED, f"{run.key}: {error}")
        else:
            if offset is not None:
                problems[run.segment] = (DIFFERS, f"bytes from {offset} on differ from {run.key}")
    return ItemOutcome(
        subject=str(item.number), status=OK, length=item.size, detail=pickle.dumps(problems)
    )


def _difference(
    place: LegacyPlace, run: FileRun, pieces: Iterator[memoryview], room: PieceRoom
) -> int | None:
    """Where the piece begins that is not the same on both sides; ``None`` when all are."""
    position = run.start
    for piece in pieces:
        theirs = room.of(len(piece))
        count = place.read_into(run.key, run.offset + position - run.start, theirs)
        if count != len(piece) or crc32c(theirs) != crc32c(piece):
            return position
        position += len(piece)
    return None
