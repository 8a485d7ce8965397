"""Keys that are constants now. For one version they are still accepted, each with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from siltstone.store.settings.file import SettingsText

REMOVED_KEYS: Final[Mapping[tuple[str, str], str]] = {
    ("deadlines", "storage_rate"): "1MiB",
    ("index", "unwritten"): "16MiB",
    ("segments", "idle_max"): "10000",
    ("flush", "table_bytes"): "4MiB",
    ("checkpoint", "age"): "10min",
    ("garbage", "attempts"): "10",
    ("garbage", "interval"): "30s",
    ("garbage", "sweep_requests"): "60",
    ("optimiser", "interval"): "1min",
    ("optimiser", "bytes"): "256MiB",
    ("optimiser", "requests"): "500",
    ("optimiser", "small"): "16MiB",
    ("optimiser", "chunks"): "4",
    ("relocation", "chunk_min"): "64MiB",
    ("relocation", "chunk_max"): "1GiB",
    ("relocation", "percent"): "80",
    ("relocation", "live"): "256MiB",
    ("health", "slow_call"): "1s",
    ("health", "failures"): "5",
    ("health", "probe"): "5s",
    ("health", "late"): "1min",
    ("health", "late_max"): "10min",
    ("health", "throttle"): "1s",
    ("space", "interval"): "1min",
}
"""The value that holds. Written out: to import what uses them would slow every start down."""


def without_removed_keys(text: SettingsText) -> SettingsText:
    """Return the file without these keys; warn once of each that it has.

    It is a ``FutureWarning``: Python shows it, since the reader is who wrote the file.
    """
    values = dict(text.values)
    for (section, key), value in REMOVED_KEYS.items():
        within = values.get(section)
        if isinstance(within, Mapping) and key in within:
            values[section] = {name: one for name, one in within.items() if name != key}
            reason = f"no longer a setting; {value} holds, and the value here is ignored"
            warnings.warn(str(text.error((section, key), reason)), FutureWarning, stacklevel=1)
    return replace(text, values=values)
