"""Salvage: what chunks alone give back of a store whose metadata can no longer be read."""

from __future__ import annotations

from siltstone.migration.salvage.report import (
    LeftOut,
    MissingBytes,
    SalvagedSegment,
    SalvagedTable,
    SalvageReport,
    Verdict,
)
from siltstone.migration.salvage.salvage_store import salvage_store

__all__ = [
    "LeftOut",
    "MissingBytes",
    "SalvageReport",
    "SalvagedSegment",
    "SalvagedTable",
    "Verdict",
    "salvage_store",
]
