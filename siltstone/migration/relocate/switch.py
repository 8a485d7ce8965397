"""Another long-term storage for a store in use: copied while it works, then switched.

Names of chunks and what metadata says of them do not depend on the binding, so the new place gets
the same objects under the same names. Chunks come first, as often as one likes. The switch holds
every log, so that no process opens the store. It brings the rest and what changed, checks whether
all is there, takes the name of the store away from the old place, gives it to the new one, and then
replaces the settings. Nothing else changes at the old place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from siltstone.collections.any_collection import has_collections, store_has_collections
from siltstone.core.chunk_names import FILES_PREFIX, PINS_PREFIX
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import (
    CapabilityError,
    CorruptDataError,
    FencedError,
    SettingsError,
    StoreError,
    StoreNotFoundError,
)
from siltstone.core.fenced_log import FencedLog
from siltstone.core.records.store_manifest import StoreManifest, encode_store_manifest
from siltstone.core.storage.optional_verbs import delete_many
from siltstone.core.text import counted
from siltstone.migration.backup.create import Progress
from siltstone.migration.backup.place import delete, put
from siltstone.migration.relocate.objects import MoveItem, MoveWork
from siltstone.migration.relocate.rows import contents_of, doubted, mark_names
from siltstone.migration.relocate.settings import (
    is_switched,
    manifest_at,
    replace_settings,
    same_place,
)
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.scrub import DAMAGE
from siltstone.pipelines.store_view import StoreView, store_view
from siltstone.pipelines.work import FAILED, OK, Executor, PipelineError, packed
from siltstone.store.manifest import COPY_NAME, MANIFEST_NAME, MOVED_NAME
from siltstone.store.settings.effective import EffectiveSettings, load_settings
from siltstone.store.store_assembly import Assembly, assembled, open_storage

_OURS: Final = ("data/", "import/", "system/")
_NAMES: Final = (MANIFEST_NAME, COPY_NAME, MOVED_NAME)


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

    objects: int
    size: int
    copied: int
    copied_bytes: int
    removed: int
    settings: Path | None = None
    has_left_collections: bool = False


def copy_storage(
    store: Path | str,
    settings: Path | str,
    *,
    executor: Executor | None = None,
    rate: int | None = None,
    progress: Progress = lambda done, total: None,
) -> MoveReport:
    """Copy the chunks of a store that may be in use to a new place; what is there is not copied.

    Args:
        store: settings file of the store, or its folder.
        settings: another settings file in the same folder, which differs by its long-term storage;
            that must be empty at first, and is this store's alone.
        executor: where chunks are copied; ``None`` means threads of this process.
        rate: bytes a second that are read at most, at least 1; ``None`` means no limit.
        progress: called with how far it is.

    Raises:
        SettingsError: the two files differ by more, or not at all.
        CapabilityError: the store writes a legacy layout; nothing was written.
        StoreError: the new place holds something else.
        CorruptDataError: a chunk is damaged or gone; it is named. What was copied stays.
        PipelineError: the old place did not answer for a chunk.
        ChunkError: the new place refused, is full, or did not answer.
    """
    old, new = _checked(store, settings)
    environment = SystemEnvironment()
    with closing(environment), store_view(store) as view:
        _refuse_legacy(view)
        rows = view.chunk_rows(again=True)
        with closing(open_storage(new, environment)) as target:
            if _begin(target, view.manifest):
                for name in mark_names(rows):
                    _put(target, name, view.manifest)
            found = {stat.name: stat.length for stat in target.list()}
        run = executor or LocalExecutor()
        wanted, doubts = contents_of(rows), doubted(rows, found)
        report = _copied(old, new, view.uuid, wanted, found, doubts, run, rate, progress)
        left = store_has_collections(view.path, view.uuid)
        return replace(report, has_left_collections=left)


def switch_storage(
    store: Path | str,
    settings: Path | str,
    *,
    executor: Executor | None = None,
    progress: Progress = lambda done, total: None,
) -> MoveReport:
    """Let a store that no process has open continue at a new place.

    A call that died may be repeated; after one that did all it does nothing.

    Args:
        store: settings file of the store, or its folder. Afterwards the file is the other one, and
            its old content lies next to it, with ``BEFORE`` after its name.
        settings: see ``copy_storage``.
        executor: where what is left is copied; ``None`` means threads of this process.
        progress: called with how far it is.

    Raises:
        StoreInUseError: a process owns a container; nothing was changed.
        StoreError: an object is not at the new place as it should be; or see ``copy_storage``.
        CapabilityError: the store writes a legacy layout, or has collections, or got its first one
            meanwhile; nothing was switched.
        FencedError: another owner took a container over meanwhile; nothing was switched.
        CorruptDataError, PipelineError, ChunkError, SettingsError: see ``copy_storage``.
    """
    environment = SystemEnvironment()
    old, new = load_settings(store), load_settings(settings)
    if same_place(old, new) and is_switched(old, environment):
        return MoveReport(objects=0, size=0, copied=0, copied_bytes=0, removed=0, settings=old.file)
    old, new = _checked(store, settings)
    with ExitStack() as stack:
        stack.enter_context(closing(environment))
        source = stack.enter_context(closing(open_storage(old, environment)))
        target = stack.enter_context(closing(open_storage(new, environment)))
        moved = manifest_at(source, MOVED_NAME)
        if moved is not None and manifest_at(source, MANIFEST_NAME) is None:
            # A call died here; no open was possible since, so the new place is still whole.
            _check_begun(target, moved)
            _name(target, moved)
            report = MoveReport(objects=0, size=0, copied=0, copied_bytes=0, removed=0)
        else:
            _refuse_collections(source)
            with closing(assembled(old.file, environment)) as assembly, _held(assembly) as held:

                def check() -> None:
                    held()
                    _refuse_collections(source)

                report = _rest(old, new, source, target, executor or LocalExecutor(), progress)
                _unname(source, assembly.manifest, check)
                _name(target, assembly.manifest)
    replace_settings(old.file, new.file)
    return MoveReport(
        objects=report.objects,
        size=report.size,
        copied=report.copied,
        copied_bytes=report.copied_bytes,
        removed=report.removed,
        settings=old.file,
    )


def _checked(
    store: Path | str, settings: Path | str
) -> tuple[EffectiveSettings, EffectiveSettings]:
    """Load both files, and refuse another store than the one that moves."""
    old, new = load_settings(store), load_settings(settings)
    if old.file.parent != new.file.parent:
        raise SettingsError(f"{new.file}: must lie in {old.file.parent}, as {old.file.name} does")
    same = {
        "uuid": (old.uuid, new.uuid),
        "tier1": ((old.log, dict(old.log_options)), (new.log, dict(new.log_options))),
        "index": (old.index_folder, new.index_folder),
    }
    for key, (one, other) in same.items():
        if one != other:
            raise SettingsError(f"{new.file}: {key} is another one than in {old.file.name}")
    if same_place(old, new):
        raise SettingsError(f"{new.file}: long_term_storage is the one of {old.file.name}")
    return old, new


def _begin(target: ChunkStorage, manifest: StoreManifest) -> bool:
    """Make the new place this store's, and return whether it was empty.

    Raises:
        StoreError: it holds a store, or something else.
    """
    for name in (COPY_NAME, MOVED_NAME):
        found = manifest_at(target, name)
        if found is not None and found.store_id == manifest.store_id:
            if manifest_at(target, MANIFEST_NAME) is None:
                _put(target, COPY_NAME, manifest)
                return False
            break
    # A call that died in its first step has left half of that name, and nothing else.
    if [stat.name for stat in islice(target.list(), 2)] not in ([], [COPY_NAME]):
        raise StoreError(
            "the new place is not empty, and not a copy of this store's chunks that was begun"
        )
    _put(target, COPY_NAME, manifest)
    return True


def _refuse_legacy(view: StoreView) -> None:
    """Raise ``CapabilityError`` if chunks are not all that would have to move."""
    if view.written_adoption() is not None:
        raise CapabilityError(
            "a store that writes a legacy layout cannot move: its headers would stay; "
            "finalise its migration first"
        )


def _refuse_collections(source: ChunkStorage) -> None:
    """Raise ``CapabilityError`` if a switch would leave collections at the old place."""
    if has_collections(source):
        raise CapabilityError(
            "a store that has collections cannot be switched: they would stay at the old place"
        )


def _copied(
    old: EffectiveSettings,
    new: EffectiveSettings,
    uuid: str,
    wanted: dict[str, tuple[int, bytes]],
    found: dict[str, int],
    doubts: Collection[str],
    executor: Executor,
    rate: int | None,
    progress: Progress,
) -> MoveReport:
    items = [
        MoveItem(name=name, length=length, sums=sums, found=found.get(name), doubted=name in doubts)
        for name, (length, sums) in sorted(wanted.items())
        if found.get(name) != length or name in doubts
    ]
    sizes = {item.name: item.size for item in items}
    total, done = sum(sizes.values()), 0
    work = MoveWork(source=str(old.file), target=str(new.file), uuid=uuid, rate=rate)
    copied: list[str] = []
    damaged: list[tuple[str, str]] = []
    with closing(executor.run(work, packed(items, executor.workers))) as outcomes:
        for outcome in outcomes:
            done += sizes[outcome.subject]
            progress(done, total)
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
        size=sum(length for length, _ in wanted.values()),
        copied=len(copied),
        copied_bytes=sum(sizes[name] for name in copied),
        removed=0,
    )


def _rest(
    old: EffectiveSettings,
    new: EffectiveSettings,
    source: ChunkStorage,
    target: ChunkStorage,
    executor: Executor,
    progress: Progress,
) -> MoveReport:
    """Bring what the new place lacks, remove what it has in excess, and look at all of it."""
    with store_view(old.file) as view:
        _refuse_legacy(view)
        _begin(target, view.manifest)
        rows = view.chunk_rows(again=True)
    wanted = contents_of(rows)
    for stat in source.list("import/"):
        wanted.setdefault(stat.name, (stat.length, b""))
    for stat in source.list("system/"):
        if stat.name not in _NAMES and not stat.name.startswith((PINS_PREFIX, FILES_PREFIX)):
            wanted.setdefault(stat.name, (stat.length, b""))
    found = {stat.name: stat.length for stat in target.list()}
    extra = [
        name
        for name in found
        if name.startswith(_OURS) and name not in wanted and name not in _NAMES
    ]
    for error in delete_many(target, extra).values():
        raise error
    doubts = doubted(rows, found)
    report = _copied(old, new, view.uuid, wanted, found, doubts, executor, None, progress)
    lengths = {stat.name: stat.length for stat in target.list()}
    for name, (length, _) in wanted.items():
        if lengths.get(name) != length:
            raise StoreError(
                "an object is not at the new place as it should be, so nothing was switched",
                object=name,
                length=lengths.get(name),
                expected=length,
            )
    return replace(report, removed=len(extra))


@contextmanager
def _held(assembly: Assembly) -> Iterator[Callable[[], None]]:
    """Hold every log, so that no process owns the store; the block gets a check that it is so."""
    logs: list[FencedLog] = []
    try:
        for index in range(assembly.manifest.container_count):
            log = assembly.new_log(index)
            logs.append(log)
            lineage = _lineage(log)
            log.claim(lineage=lineage, new=False, above=0, takeover=False, owner=assembly.owner)
        yield lambda: _check(logs)
    finally:
        for log in logs:
            log.close()


def _lineage(log: FencedLog) -> bytes:
    reader = log.open_read()
    try:
        lineage = reader.lineage()
    finally:
        reader.close()
    if lineage is None:
        raise StoreNotFoundError("the store was never opened")
    return lineage


def _check(logs: Iterable[FencedLog]) -> None:
    for log in logs:
        if (newest := log.newest_epoch()) != log.epoch:
            raise FencedError("another owner took the store over meanwhile", newest=newest)


def _check_begun(target: ChunkStorage, manifest: StoreManifest) -> None:
    """Refuse another new place than the one of the call that died. Raises ``StoreError``."""
    found = (manifest_at(target, name) for name in (COPY_NAME, MANIFEST_NAME))
    if not any(one is not None and one.store_id == manifest.store_id for one in found):
        raise StoreError("the store was moved already, and this is not its new place")


def _unname(source: ChunkStorage, manifest: StoreManifest, check: Callable[[], None]) -> None:
    """Take the name of the store away from the old place, unless another owner took it over."""
    check()
    _put(source, MOVED_NAME, manifest)
    delete(source, MANIFEST_NAME)
    try:
        check()
    except BaseException:
        # An owner that took over before that has the store open, and shall find it again.
        _put(source, MANIFEST_NAME, manifest)
        delete(source, MOVED_NAME)
        raise


def _name(target: ChunkStorage, manifest: StoreManifest) -> None:
    """Make the new place the store's."""
    _put(target, MANIFEST_NAME, manifest)
    delete(target, COPY_NAME)
    delete(target, MOVED_NAME)


def _put(storage: ChunkStorage, name: str, manifest: StoreManifest) -> None:
    """Give a manifest a name, which may have it already, or half of it from a call that died."""
    found = manifest_at(storage, name)
    if found is None:
        put(storage, name, [encode_store_manifest(manifest)])
    elif found.store_id != manifest.store_id:
        raise StoreError("another store has this name here", object=name)
