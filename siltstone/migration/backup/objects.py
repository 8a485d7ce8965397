"""What compares objects of backups with their checksums, in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from siltstone.core.storage.optional_verbs import PieceRoom
from siltstone.migration.backup.worker_place import WorkerPlace
from siltstone.pipelines.whole_objects import compare_object
from siltstone.pipelines.work import Step, share_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectWork:
    """Reads objects and compares them with their sums.

    Attributes:
        place: where they are.
        rate: bytes a second that all openings together read; ``None`` for no limit.
    """

    place: WorkerPlace
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open the place."""
        with self.place.open(share_of(self.rate, openings)) as place:
            yield partial(compare_object, place, PieceRoom())
