"""Making a new store: all of it, or nothing that stays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from siltstone.core.constants import CONTAINERS_MAX
from siltstone.store.admin.prefilled_init import fill_store
from siltstone.store.handles.arguments import check_offset
from siltstone.store.site import site_of


def init_store(
    folder: Path | str,
    *,
    containers: int = 1,
    binding: str = "nfs",
    options: Mapping[str, Any] | None = None,
    log: str = "file",
    log_options: Mapping[str, Any] | None = None,
) -> Path:
    """Make a store in ``folder`` and return its settings file.

    The settings file comes last: a folder that has one holds a whole store, whose containers were
    opened once. What was made before a failure is removed again; a call that was killed leaves what
    the same call continues with.

    Args:
        folder: made when it is missing; it may hold other things.
        containers: fixed for the life of the store; more of them share the work of more processes.
        binding: name of the binding that speaks to long-term storage.
        options: its settings, written as they are, so ``${NAME}`` stands for a variable there too;
            without a ``path`` the binding ``nfs`` has its folder next to the settings, and ``None``
            is for it alone.
        log: name of the tier-1 log.
        log_options: its settings, likewise, of which the log ``file`` needs none.

    Raises:
        StoreExistsError: a store, or something in its folders or storage, is here already.
        StoreInUseError: another call makes a store here.
        StoreError: the folder cannot be written, or a call that was killed had other options.
        SettingsError: there is no such binding or log, or its options are wrong.
        LogError: the log refused, or did not answer; ``LogLostError`` when it is in use.
        ChunkError: long-term storage refused, or did not answer.
        ValueError: ``containers`` is below 1 or over 4,096, or ``options`` are missing.
    """
    containers = check_offset(containers, what="containers")
    if not 1 <= containers <= CONTAINERS_MAX:
        raise ValueError(f"containers must be between 1 and {CONTAINERS_MAX}, not {containers}")
    site = site_of(folder, binding=binding, options=options, log=log, log_options=log_options)
    origin = f"init-{containers}"
    return fill_store(site, origin, containers, lambda new: None, stays=False)
