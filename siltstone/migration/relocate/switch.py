"""Another long-term storage for a store in use: copied while it works, then switched.

Names of chunks and what metadata says of them do not depend on the binding, so the new place gets
the same objects under the same names. Chunks come first, as often as one likes. The switch holds
every log, so that no process opens the store. It brings the rest and what changed, checks whether
all is there, takes the name of the store away from the old place, lets collections go on at the new
one, gives that the name, and then replaces the settings. At the old place nothing else changes but
that each collection gets a last entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from siltstone.collections.any_collection import collections_are_installed, store_has_collections
from siltstone.collections.consensus.object_names import COLLECTIONS_PREFIX
from siltstone.collections.consensus.table_plugin import TABLE
from siltstone.container.reads.chunk_rows import ChunkRows
from siltstone.core.chunk_names import FILES_PREFIX, PINS_PREFIX
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import (
    CapabilityError,
    FencedError,
    SettingsError,
    StoreError,
    StoreNotFoundError,
)
from siltstone.core.fenced_log import FencedLog
from siltstone.core.records.store_manifest import StoreManifest, encode_store_manifest
from siltstone.core.storage.optional_verbs import delete_many
from siltstone.migration.backup.create import Progress
from siltstone.migration.relocate.collection_moves import (
    consensus_to_move,
    held_contents,
    listed_contents,
    move_collections,
)
from siltstone.migration.relocate.copied_objects import Move, MoveReport, copied_objects
from siltstone.migration.relocate.rows import Content, contents_of, doubted, mark_names
from siltstone.migration.relocate.settings import (
    is_switched,
    manifest_at,
    replace_settings,
    same_place,
)
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.store_view import StoreView, store_view
from siltstone.pipelines.work import Executor
from siltstone.store.admin.place_objects import delete, put
from siltstone.store.manifest import COPY_NAME, MANIFEST_NAME, MOVED_NAME
from siltstone.store.settings.effective import EffectiveSettings, load_settings
from siltstone.store.store_assembly import Assembly, assembled, open_storage

_OURS: Final = ("data/", "import/", "system/")
_NAMES: Final = (MANIFEST_NAME, COPY_NAME, MOVED_NAME)


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
        CapabilityError: the store writes a legacy layout, or has collections that cannot move;
            nothing was written.
        LeaseExpiredError: objects of collections were deleted meanwhile, since this stood still.
        StoreError: the new place holds something else.
        CorruptDataError: a chunk is damaged or gone; it is named. What was copied stays.
        PipelineError: the old place did not answer for a chunk.
        ChunkError: the new place refused, is full, or did not answer.
    """
    old, new = _checked(store, settings)
    environment = SystemEnvironment()
    is_installed = collections_are_installed()
    with closing(environment), store_view(store) as view:
        _refuse_legacy(view)
        rows = view.chunk_rows(again=True)
        move = Move(
            old=old, new=new, executor=executor or LocalExecutor(), progress=progress, rate=rate
        )
        with (
            closing(open_storage(old, environment)) as source,
            closing(open_storage(new, environment)) as target,
        ):
            if is_installed:
                consensus_to_move(source, target, move)
            if _begin(target, view.manifest):
                for name in mark_names(rows):
                    _put(target, name, view.manifest)
            found = {stat.name: stat.length for stat in target.list()}
        wanted, doubts = contents_of(rows), doubted(rows, found)
        if not store_has_collections(view.path, view.uuid):
            return copied_objects(move, view.uuid, wanted, found, doubts)
        if not is_installed:
            report = copied_objects(move, view.uuid, wanted, found, doubts)
            return replace(report, has_left_collections=True)
        with held_contents(view.path) as of_collections:
            return copied_objects(move, view.uuid, wanted | of_collections, found, doubts)


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
        CapabilityError: the store writes a legacy layout, or has collections that cannot move;
            nothing was switched.
        FencedError: another owner took a container over meanwhile; nothing was switched.
        CorruptDataError, PipelineError, ChunkError, SettingsError: see ``copy_storage``.
    """
    environment = SystemEnvironment()
    old, new = load_settings(store), load_settings(settings)
    if same_place(old, new) and is_switched(old, environment):
        return MoveReport(settings=old.file)
    old, new = _checked(store, settings)
    with ExitStack() as stack:
        stack.enter_context(closing(environment))
        source = stack.enter_context(closing(open_storage(old, environment)))
        target = stack.enter_context(closing(open_storage(new, environment)))
        move = Move(old=old, new=new, executor=executor or LocalExecutor(), progress=progress)
        moved = manifest_at(source, MOVED_NAME)
        if moved is not None and manifest_at(source, MANIFEST_NAME) is None:
            # A call died here; no open was possible since, so the new place is still whole.
            _check_begun(target, moved)
            report = _ended(move, source, target, moved)
        else:
            consensus = consensus_to_move(source, target, move)
            with closing(assembled(old.file, environment)) as assembly, _held(assembly) as held:
                report = _rest(move, source, target, consensus)
                _unname(source, assembly.manifest, held)
                last = _ended(move, source, target, assembly.manifest)
                report = replace(
                    report,
                    copied=report.copied + last.copied,
                    copied_bytes=report.copied_bytes + last.copied_bytes,
                )
    replace_settings(old.file, new.file)
    return replace(report, settings=old.file)


def _ended(
    move: Move, source: ChunkStorage, target: ChunkStorage, manifest: StoreManifest
) -> MoveReport:
    """Bring the collections, and make the new place the store's. May be repeated."""
    report = MoveReport()
    if manifest_at(target, MANIFEST_NAME) is None:
        report = move_collections(move, manifest.store_id, source, target)
    _name(target, manifest)
    return report


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


def _rest(
    move: Move, source: ChunkStorage, target: ChunkStorage, consensus: str | None
) -> MoveReport:
    """Bring what the new place lacks, remove what it has in excess, and look at all of it."""
    with store_view(move.old.file) as view:
        _refuse_legacy(view)
        _begin(target, view.manifest)
        rows = view.chunk_rows(again=True)
    wanted = contents_of(rows)
    for stat in source.list("import/"):
        wanted.setdefault(stat.name, Content(stat.length))
    for stat in source.list("system/"):
        if stat.name not in _NAMES and not stat.name.startswith((PINS_PREFIX, FILES_PREFIX)):
            wanted.setdefault(stat.name, Content(stat.length))
    if consensus is None:
        return _whole(move, view.uuid, target, wanted, rows, _OURS)
    with held_contents(view.path) as of_collections:
        if consensus != TABLE:
            return _whole(move, view.uuid, target, wanted | of_collections, rows, _OURS)
        wanted |= listed_contents(source) | of_collections
        return _whole(move, view.uuid, target, wanted, rows, (*_OURS, COLLECTIONS_PREFIX))


def _whole(
    move: Move,
    uuid: str,
    target: ChunkStorage,
    wanted: Mapping[str, Content],
    rows: Sequence[ChunkRows],
    ours: tuple[str, ...],
) -> MoveReport:
    found = {stat.name: stat.length for stat in target.list()}
    extra = [
        name
        for name in found
        if name.startswith(ours) and name not in wanted and name not in _NAMES
    ]
    for error in delete_many(target, extra).values():
        raise error
    doubts = doubted(rows, found)
    report = copied_objects(move, uuid, wanted, found, doubts)
    lengths = {stat.name: stat.length for stat in target.list()}
    for name, content in wanted.items():
        if lengths.get(name) != content.length:
            raise StoreError(
                "an object is not at the new place as it should be, so nothing was switched",
                object=name,
                length=lengths.get(name),
                expected=content.length,
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
