"""The hooks that a plugin implements, and how a plugin is found by its name.

A plugin is an entry point in the group ``siltstone.bindings``, ``siltstone.tier1`` or
``siltstone.consensus``; its module implements the hook of its group. Only the configured plugin is
imported, when the store or its collections open.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

import pluggy
from pydantic import BaseModel, ValidationError

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.consensus import Consensus
from siltstone.core.environment import Environment
from siltstone.core.errors import SettingsError
from siltstone.core.fenced_log import FencedLog
from siltstone.core.near_names import meant
from siltstone.core.packages import install_hint
from siltstone.core.settings_reasons import in_order, reason_of

Model = TypeVar("Model", bound=BaseModel)

PROJECT = "siltstone"
BINDINGS_GROUP = "siltstone.bindings"
TIER1_GROUP = "siltstone.tier1"
CONSENSUS_GROUP = "siltstone.consensus"

BUILT_IN: Mapping[str, Mapping[str, str]] = {
    BINDINGS_GROUP: {
        name: f"{BINDINGS_GROUP}.{name}.plugin"
        for name in ("azure", "gcs", "hdfs", "memory", "nfs", "s3")
    },
    TIER1_GROUP: {name: f"{TIER1_GROUP}.{name}.plugin" for name in ("file", "kafka", "memory")},
    CONSENSUS_GROUP: {
        "objects": "siltstone.collections.consensus.plugin",
        "table": "siltstone.collections.consensus.table_plugin",
    },
}
"""Plugins of this distribution: name and module. Nothing that is installed can take their names."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class BindingHooks:
    """Hooks of the group ``siltstone.bindings``."""

    @hookspec(firstresult=True)
    def siltstone_chunk_storage(
        self, name: str, settings: Mapping[str, Any]
    ) -> ChunkStorage | None:
        """Return the chunk storage called ``name``, or ``None`` if it is not yours.

        Called once when a store opens. ``settings`` is what stands under the binding's name in the
        settings file; wrong ones are a ``SettingsError``.
        """

    @hookspec(firstresult=True)
    def siltstone_settings(self, name: str) -> type[BaseModel] | None:
        """Return the model of the settings of ``name``, or ``None`` if it is not yours.

        A plugin may leave it out. With it wrong settings are told with file, line and what may
        have been meant, ``siltstone settings check`` looks at them without a call to the service,
        and ``--option`` writes numbers and truth values as such.
        """


class Tier1Hooks:
    """Hooks of the group ``siltstone.tier1``."""

    @hookspec(firstresult=True)
    def siltstone_fenced_log(
        self, name: str, settings: Mapping[str, Any], container: int
    ) -> FencedLog | None:
        """Return the log called ``name`` of one container, or ``None`` if it is not yours."""

    @hookspec(firstresult=True)
    def siltstone_settings(self, name: str) -> type[BaseModel] | None:
        """Return the model of the settings of ``name``; see ``BindingHooks``."""


class ConsensusHooks:
    """Hooks of the group ``siltstone.consensus``."""

    @hookspec(firstresult=True)
    def siltstone_consensus(
        self,
        name: str,
        settings: Mapping[str, Any],
        storage: ChunkStorage,
        environment: Environment,
    ) -> Consensus | None:
        """Return the consensus called ``name`` of one store, or ``None`` if it is not yours.

        Called once when the collections of a store open. ``settings`` is what stands under the
        consensus's name in the section ``collections``. ``storage`` is a client of long-term
        storage, and ``environment`` gives time and randomness; both stay open for as long as the
        consensus is used, and are closed by others. One that holds more has a method ``close``.
        """

    @hookspec(firstresult=True)
    def siltstone_settings(self, name: str) -> type[BaseModel] | None:
        """Return the model of the settings of ``name``; see ``BindingHooks``."""


_HOOKS = {
    BINDINGS_GROUP: BindingHooks,
    TIER1_GROUP: Tier1Hooks,
    CONSENSUS_GROUP: ConsensusHooks,
}


def settings_error(
    name: str, errors: Iterable[Mapping[str, Any]], model: type[BaseModel] | None = None
) -> SettingsError:
    """Return the error that tells key and reason of everything wrong in a plugin's settings.

    Values are not repeated: one of them may be a secret.

    Args:
        name: of the plugin.
        errors: what pydantic's ``ValidationError.errors()`` returns.
        model: of the settings, for what may have been meant by a key; ``None`` guesses nothing.
    """
    reasons = []
    for error in in_order(errors):
        key = ".".join([name, *map(str, error["loc"])])
        reasons.append(f"{key}: {reason_of(error, model)}")
    return SettingsError("; ".join(reasons))


def checked_settings(name: str, settings: Mapping[str, Any], model: type[Model]) -> Model:
    """Return the settings of the plugin ``name``. Raises ``settings_error`` of what is wrong."""
    try:
        return model.model_validate(dict(settings))
    except ValidationError as error:
        raise settings_error(name, error.errors(), model) from error


@contextmanager
def _imports(entry: EntryPoint) -> Iterator[None]:
    """Tell what to install when the block, which runs code of the plugin, lacks a package."""
    try:
        yield
    except ImportError as error:
        way_out = f"; try: {install_hint(entry.name, entry.dist)}"
        raise SettingsError(
            f"plugin {entry.name!r} cannot be imported: {error}{way_out}"
        ) from error


@lru_cache(maxsize=8)
def _entries(group: str, places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def _installed(group: str) -> tuple[EntryPoint, ...]:
    """The plugins of a group.

    A look through a hundred packages takes 10 ms, and a store asks twice for each container. It is
    looked again when there are other places to import from, or when one of them has changed.
    """
    return _entries(group, tuple((place, _changed_ns(place)) for place in sys.path))


def _changed_ns(place: str) -> int:
    try:
        return os.stat(place or os.curdir).st_mtime_ns
    except OSError:
        return -1  # It is not there, which is nothing new in a list of places to import from.


def _entry(group: str, name: str) -> EntryPoint:
    """The plugin of a name. One of our own is not looked for among all that is installed."""
    if name in BUILT_IN[group]:
        return EntryPoint(name, BUILT_IN[group][name], group)
    installed = _installed(group)
    found = [entry for entry in installed if entry.name == name]
    if not found:
        names = sorted({*BUILT_IN[group], *(entry.name for entry in installed)})
        known = ", ".join(names)
        near = meant(name, names)
        raise SettingsError(
            f"no plugin is called {name!r} in {group}{near or ';'} installed are: {known}"
        )
    if len(found) > 1:
        owners = ", ".join(sorted(str(entry.dist and entry.dist.name) for entry in found))
        raise SettingsError(f"{name!r} is defined by more than one distribution: {owners}")
    return found[0]


def _plugins(group: str, name: str, hooks: type) -> tuple[pluggy.PluginManager, EntryPoint]:
    entry = _entry(group, name)
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hooks)
    with _imports(entry):
        manager.register(entry.load(), name=name)
    return manager, entry


def plugin_settings(group: str, name: str) -> type[BaseModel] | None:
    """Return the model of the settings of a plugin; ``None`` if it tells of none.

    Raises:
        SettingsError: no such plugin, or a missing extra.
    """
    manager, entry = _plugins(group, name, _HOOKS[group])
    with _imports(entry):
        return manager.hook.siltstone_settings(name=name)  # type: ignore[no-any-return]


def load_chunk_storage(name: str, settings: Mapping[str, Any]) -> ChunkStorage:
    """Build the chunk storage of the binding ``name``.

    Raises:
        SettingsError: no such plugin, a missing extra (the message says what to install), or wrong
            settings.
    """
    manager, entry = _plugins(BINDINGS_GROUP, name, BindingHooks)
    with _imports(entry):
        # A plugin imports its SDK inside the hook, so a missing extra shows only here.
        storage = manager.hook.siltstone_chunk_storage(name=name, settings=settings)
    if storage is None:
        raise SettingsError(f"plugin {name!r} did not answer to its own name")
    return storage  # type: ignore[no-any-return]


def load_fenced_log(name: str, settings: Mapping[str, Any], container: int) -> FencedLog:
    """Build the tier-1 log ``name`` of one container. Raises like ``load_chunk_storage``."""
    manager, entry = _plugins(TIER1_GROUP, name, Tier1Hooks)
    with _imports(entry):
        log = manager.hook.siltstone_fenced_log(name=name, settings=settings, container=container)
    if log is None:
        raise SettingsError(f"plugin {name!r} did not answer to its own name")
    return log  # type: ignore[no-any-return]


def load_consensus(
    name: str, settings: Mapping[str, Any], storage: ChunkStorage, environment: Environment
) -> Consensus:
    """Build the consensus ``name`` of a store. Raises like ``load_chunk_storage``.

    Raises:
        CapabilityError: long-term storage lacks what the consensus needs.
    """
    manager, entry = _plugins(CONSENSUS_GROUP, name, ConsensusHooks)
    with _imports(entry):
        consensus = manager.hook.siltstone_consensus(
            name=name, settings=settings, storage=storage, environment=environment
        )
    if consensus is None:
        raise SettingsError(f"plugin {name!r} did not answer to its own name")
    return consensus  # type: ignore[no-any-return]
