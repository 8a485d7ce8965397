"""The hooks that a plugin implements, and how one plugin is found by name.

A plugin is an entry point in the group ``siltstone.bindings`` or ``siltstone.tier1``; its module
implements the hook of its group. Only the configured plugin is imported, when the store opens.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

import pluggy

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import SettingsError
from siltstone.core.fenced_log import FencedLog

PROJECT = "siltstone"
BINDINGS_GROUP = "siltstone.bindings"
TIER1_GROUP = "siltstone.tier1"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class BindingHooks:
    """Hooks of the group ``siltstone.bindings``."""

    @hookspec(firstresult=True)
    def siltstone_chunk_storage(self, name: str, settings: Mapping[str, Any]) -> ChunkStorage | None:
        """Return the chunk storage called ``name``, or ``None`` if it is not yours.

        Called once when a store opens. ``settings`` is what stands under the binding's name in the
        settings file; wrong ones are a ``SettingsError``.
        """


class Tier1Hooks:
    """Hooks of the group ``siltstone.tier1``."""

    @hookspec(firstresult=True)
    def siltstone_fenced_log(
        self, name: str, settings: Mapping[str, Any], container: int
    ) -> FencedLog | None:
        """Return the log called ``name`` of one container, or ``None`` if it is not yours."""


def _plugins(group: str, name: str, hooks: type) -> pluggy.PluginManager:
    found = [entry for entry in entry_points(group=group) if entry.name == name]
    if not found:
        known = ", ".join(sorted({entry.name for entry in entry_points(group=group)}))
        raise SettingsError(f"no plugin is called {name!r} in {group}; installed are: {known}")
    if len(found) > 1:
        owners = ", ".join(sorted(str(entry.dist and entry.dist.name) for entry in found))
        raise SettingsError(f"{name!r} is defined by more than one distribution: {owners}")
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hooks)
    try:
        plugin = found[0].load()
    except ImportError as error:
        extra = "" if found[0].dist is None else f'; try: pip install "{found[0].dist.name}[{name}]"'
        raise SettingsError(f"plugin {name!r} can not be imported: {error}{extra}") from error
    manager.register(plugin, name=name)
    return manager


def load_chunk_storage(name: str, settings: Mapping[str, Any]) -> ChunkStorage:
    """Build the chunk storage of the binding ``name``.

    Raises:
        SettingsError: no such plugin, a missing extra (the message says what to install), or wrong settings.
    """
    manager = _plugins(BINDINGS_GROUP, name, BindingHooks)
    storage = manager.hook.siltstone_chunk_storage(name=name, settings=settings)
    if storage is None:
        raise SettingsError(f"plugin {name!r} did not answer to its own name")
    return storage  # type: ignore[no-any-return]


def load_fenced_log(name: str, settings: Mapping[str, Any], container: int) -> FencedLog:
    """Build the tier-1 log ``name`` of one container. Raises like ``load_chunk_storage``."""
    manager = _plugins(TIER1_GROUP, name, Tier1Hooks)
    log = manager.hook.siltstone_fenced_log(name=name, settings=settings, container=container)
    if log is None:
        raise SettingsError(f"plugin {name!r} did not answer to its own name")
    return log  # type: ignore[no-any-return]
