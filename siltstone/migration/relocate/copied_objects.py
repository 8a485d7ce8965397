"""The copy of objects to a new place: those that it lacks, each compared with its sums."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from siltstone.core.errors import CorruptDataError
from siltstone.core.text import counted
from siltstone.migration.backup.create import Progress
from siltstone.migration.relocate.objects import MoveItem, MoveWork
from siltstone.migration.relocate.rows import Content
from siltstone.pipelines.scrub import DAMAGE
from siltstone.pipelines.work import FAILED, OK, Executor, PipelineError, packed
from siltstone.store.manifest import MANIFEST_NAME
from siltstone.store.settings.effective import EffectiveSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveReport:
    """What a copy or a switch did.

    Attributes:
        objects: that the store has.
        size: their bytes.
        copied: how many of them were copied by this call; the others were there.
        copied_bytes: bytes of these.
        removed: objects at the new place that the store no longer has.
        settings: the settings file that was replaced; ``None`` after a copy.
        has_left_collections: the store has collections, which were not copied.
    """

    objects: int = 0
    size: int = 0
    copied: int = 0
    copied_bytes: int = 0
    removed: int = 0
    settings: Path | None = None
    has_left_collections: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """From where to where a store moves, and how.

    Attributes:
        old: settings with the old long-term storage.
        new: those with the new one.
        executor: where objects are copied.
        progress: called with how far it is.
        rate: bytes a second that are read at most; ``None`` means no limit.
    """

    old: EffectiveSettings
    new: EffectiveSettings
    executor: Executor
    progress: Progress
    rate: int | None = None


def copied_objects(
    move: Move,
    uuid: str,
    wanted: Mapping[str, Content],
    found: Mapping[str, int],
    doubts: Collection[str],
    *,
    named: str = MANIFEST_NAME,
) -> MoveReport:
    """Copy what is wanted and was not found as it should be.

    Args:
        move: from where to where.
        uuid: of the store.
        wanted: what is to be at the new place, by name.
        found: the lengths of what is there.
        doubts: names that may have other bytes there, so they are compared.
        named: the name of the manifest at the old place.

    Raises:
        CorruptDataError: an object is damaged or gone; it is named. What was copied stays.
        PipelineError: the old place did not answer for an object.
        ChunkError: the new place refused, is full, or did not answer.
    """
    items = [
        MoveItem(
            name=name,
            length=content.length,
            sums=content.sums,
            crc=content.crc,
            found=found.get(name),
            doubted=name in doubts,
        )
        for name, content in sorted(wanted.items())
        if found.get(name) != content.length or name in doubts
    ]
    sizes = {item.name: item.size for item in items}
    total, done = sum(sizes.values()), 0
    work = MoveWork(
        source=str(move.old.file),
        target=str(move.new.file),
        uuid=uuid,
        rate=move.rate,
        named=named,
    )
    copied: list[str] = []
    damaged: list[tuple[str, str]] = []
    packs = packed(items, move.executor.workers)
    with closing(move.executor.run(work, packs)) as outcomes:
        for outcome in outcomes:
            done += sizes[outcome.subject]
            move.progress(done, total)
            if outcome.status == FAILED:
                raise PipelineError(f"the old place did not answer: {outcome.message}")
            if outcome.status in DAMAGE:
                damaged.append((outcome.subject, f"{outcome.status}: {outcome.message}"))
            elif outcome.status == OK:
                copied.append(outcome.subject)
    if damaged:
        name, first = damaged[0]
        count = counted(len(damaged), "object")
        text = f"{count} of the store cannot be read; the first: {first}"
        raise CorruptDataError(text, where=name)
    return MoveReport(
        objects=len(wanted),
        size=sum(content.length for content in wanted.values()),
        copied=len(copied),
        copied_bytes=sum(sizes[name] for name in copied),
    )
