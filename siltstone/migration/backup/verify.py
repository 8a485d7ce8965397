"""The check of backups: every byte of every object that a generation names."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from siltstone.core.errors import CorruptDataError, SettingsError, StoreNotFoundError
from siltstone.core.records.backup import Backup, BackupChunk, BackupObject
from siltstone.migration.backup.admin import backups_of
from siltstone.migration.backup.create import Progress
from siltstone.migration.backup.objects import ObjectWork
from siltstone.migration.backup.place import BackupPlace, FoundGeneration
from siltstone.migration.backup.plan import fragment_name
from siltstone.migration.backup.worker_place import WorkerPlace
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.scrub import DAMAGED, MISSING
from siltstone.pipelines.whole_objects import ObjectItem
from siltstone.pipelines.work import OK, Executor, ItemOutcome, PipelineError, packed
from siltstone.store.admin.place_settings import find_place


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFinding:
    """Something that is wrong with backups.

    Attributes:
        generations: that it is wrong with, the oldest first.
        status: ``damaged``, ``missing``, ``short``, or ``failed`` where the place gave no answer;
            ``absent`` for a chunk that the source could not give when the backup was made.
        subject: the object, or the chunk that is absent.
        message: more about it, for people.
    """

    generations: tuple[int, ...]
    status: str
    subject: str
    message: str


ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What a verification read.

    Attributes:
        generations: numbers of those that were looked at and were not removed meanwhile.
        objects: how many were read, each once although several generations name it.
        size: their bytes.
        findings: what is wrong; empty when every byte is as it should be.
    """

    generations: tuple[int, ...]
    objects: int
    size: int
    findings: tuple[BackupFinding, ...]


def verify_backups(
    place: Path | str,
    generations: Collection[int] | None = None,
    store: str | None = None,
    *,
    executor: Executor | None = None,
    rate: int | None = None,
    progress: Progress = lambda done, total: None,
) -> VerifyReport:
    """Read every object of generations and compare it with its checksum; change nothing.

    Args:
        place: settings file of the place, or a folder.
        generations: which ones; ``None`` means all.
        store: see ``backups_of``.
        executor: where objects are read; ``None`` means threads of this process.
        rate: bytes a second that are read, at least 1; ``None`` means no limit.
        progress: called with how far it is.

    Raises:
        StoreNotFoundError: there is no such backup, or the last one was removed meanwhile.
        FormatError: a newer version made one.
        ChunkError: the place refused, or did not answer a listing.
    """
    chosen = executor or LocalExecutor()
    with backups_of(place, store) as opened:
        found = opened.generations()
        numbers = tuple(one.number for one in found)
        for number in generations or ():
            if number not in numbers:
                raise StoreNotFoundError("there is no such backup", generation=number)
        findings: list[BackupFinding] = []
        objects: dict[ObjectItem, list[int]] = {}
        looked_at = [one for one in found if generations is None or one.number in generations]
        for one in looked_at:
            findings += [
                BackupFinding(
                    generations=(one.number,),
                    status=MISSING if record.missing else DAMAGED,
                    subject=record.name,
                    message=record.text,
                )
                for record in one.damage
            ]
            if one.backup is not None:
                for item in _named(opened, one.backup, findings):
                    objects.setdefault(item, []).append(one.number)
        items = list(objects)
        by_name = {item.name: objects[item] for item in items}
        total, done = sum(item.size for item in items), 0
        with closing(_compared(opened, find_place(place).path, items, chosen, rate)) as outcomes:
            for outcome in outcomes:
                done += outcome.length
                progress(done, total)
                if outcome.status != OK:
                    findings.append(
                        BackupFinding(
                            generations=tuple(by_name[outcome.subject]),
                            status=outcome.status,
                            subject=outcome.subject,
                            message=outcome.message,
                        )
                    )
        # Generations may be made and removed meanwhile.
        now = {one.number: one for one in opened.generations()}
        there = [one for one in looked_at if _is_there(one, now)]
        still = (_still(finding, there, now) for finding in findings)
        findings = [finding for finding in still if finding.generations]
        return VerifyReport(
            generations=tuple(one.number for one in there),
            objects=len(items),
            size=total,
            findings=tuple(sorted(findings, key=lambda finding: finding.subject)),
        )


def _compared(
    opened: BackupPlace, path: str, items: list[ObjectItem], executor: Executor, rate: int | None
) -> Generator[ItemOutcome]:
    """Compare objects; begin again with those that are left when the witness was removed."""
    left = {item.name: item for item in items}
    witness = opened.witness()
    while left:
        work = ObjectWork(place=WorkerPlace(path=path, witness=witness), rate=rate)
        try:
            with closing(
                executor.run(work, packed(list(left.values()), executor.workers))
            ) as outcomes:
                for outcome in outcomes:
                    del left[outcome.subject]
                    yield outcome
        except (PipelineError, SettingsError):
            before, witness = witness, opened.witness()
            if witness == before:
                raise


def _is_there(one: FoundGeneration, now: Mapping[int, FoundGeneration]) -> bool:
    return one.number in now and now[one.number].backup == one.backup


def _texts(found: FoundGeneration) -> set[str]:
    """What is said of its records."""
    return {record.text for record in found.damage}


def _still(
    finding: BackupFinding, there: Sequence[FoundGeneration], now: Mapping[int, FoundGeneration]
) -> BackupFinding:
    """The finding, with those of its generations that are there and with which it is so now."""
    chosen = (
        one.number
        for one in there
        if one.number in finding.generations
        and (finding.message not in _texts(one) or finding.message in _texts(now[one.number]))
    )
    return replace(finding, generations=tuple(chosen))


def _named(
    place: BackupPlace, backup: Backup, findings: list[BackupFinding]
) -> Iterator[ObjectItem]:
    """Every object that a generation names; of chunks whose list can be read."""

    def item(found: BackupObject) -> ObjectItem:
        return ObjectItem(name=place.folder + found.name, length=found.length, crc=found.crc)

    for container in backup.containers:
        for found in (
            container.list,
            container.tail,
            *(file.content for file in container.index_files),
        ):
            if found.name:
                yield item(found)
        # Where a list cannot be read, it is compared itself, with the other objects.
        with suppress(CorruptDataError):
            yield from _fragments(place, backup, place.chunks(container), findings)
    if backup.collections is not None:
        yield item(backup.collections.content)
        with suppress(CorruptDataError):
            for collection in place.collections(backup):
                yield from _fragments(place, backup, collection.parts, findings)


def _fragments(
    place: BackupPlace,
    backup: Backup,
    chunks: Sequence[BackupChunk],
    findings: list[BackupFinding],
) -> Iterator[ObjectItem]:
    """The objects of chunks; those that the source could not give are findings."""
    for chunk in chunks:
        if chunk.missing:
            findings.append(
                BackupFinding(
                    generations=(backup.generation,),
                    status=ABSENT,
                    subject=chunk.name,
                    message="the store could not give this chunk when the backup was made",
                )
            )
        for fragment in chunk.fragments:
            yield ObjectItem(
                name=place.folder + fragment_name(chunk.stem, fragment.start, fragment.stop),
                length=fragment.length,
                crc=fragment.crc,
            )
