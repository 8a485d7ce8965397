"""The settings file of a store that moves: replaced at once, its old content kept next to it."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Final

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import CorruptDataError
from siltstone.core.posix import SystemFileCalls, sync_folder
from siltstone.core.records.store_manifest import StoreManifest
from siltstone.store.manifest import MANIFEST_NAME, MOVED_NAME, read_manifest_at
from siltstone.store.settings.effective import EffectiveSettings, load_settings
from siltstone.store.store_assembly import open_storage

BEFORE: Final = ".before-switch"
"""After the name of the settings file: its content before a switch."""


def same_place(one: EffectiveSettings, other: EffectiveSettings) -> bool:
    """Whether two settings files name the same long-term storage."""
    return (one.binding, dict(one.binding_options)) == (other.binding, dict(other.binding_options))


def replace_settings(old: Path, new: Path) -> None:
    """Let ``old`` have the content of ``new``, at once; what it had stays next to it.

    ``new`` may be what is next to it since another switch. So that is replaced last: until then the
    call can be repeated.
    """
    draft = old.with_name(f".{old.name}.switch")
    with draft.open("wb") as file:
        file.write(new.read_bytes())
        file.flush()
        os.fsync(file.fileno())
    kept = _kept(old)
    kept.unlink(missing_ok=True)
    kept.hardlink_to(old)
    draft.replace(old)
    sync_folder(SystemFileCalls(), str(old.parent))
    _keep(old)


def is_switched(settings: EffectiveSettings, environment: Environment) -> bool:
    """Whether a switch brought the store to where its settings say; its last step is made up for.

    Raises:
        SettingsError: the settings from before it are damaged.
        ChunkError: one of the two places did not answer.
    """
    kept, before = _kept(settings.file), settings.file.with_name(settings.file.name + BEFORE)
    was = kept if kept.exists() else before
    if not was.exists():
        return False
    with (
        closing(open_storage(load_settings(was), environment)) as source,
        closing(open_storage(settings, environment)) as target,
    ):
        moved, named = manifest_at(source, MOVED_NAME), manifest_at(target, MANIFEST_NAME)
        left = manifest_at(source, MANIFEST_NAME)
    if moved is None or named is None or left is not None or moved.store_id != named.store_id:
        return False
    if kept.exists():
        _keep(settings.file)
    return True


def manifest_at(storage: ChunkStorage, name: str) -> StoreManifest | None:
    """The manifest of a name; ``None`` when there is none, or not the whole of it."""
    try:
        return read_manifest_at(storage, name)
    except CorruptDataError:
        return None


def _kept(settings: Path) -> Path:
    """Where the settings from before a switch are until it is over."""
    return settings.with_name(f".{settings.name}.switched")


def _keep(settings: Path) -> None:
    _kept(settings).replace(settings.with_name(settings.name + BEFORE))
    sync_folder(SystemFileCalls(), str(settings.parent))
