"""Exports of a store, and whether their files are as they were written."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

from siltstone.pipelines.export import export, plan_export
from siltstone.pipelines.export_layout import Form, Records
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.verify_export import (
    plan_verify_export,
    verify_export,
)
from siltstone.pipelines.work import ItemOutcome

FILE_BYTES = 10_000


def exported(
    folder: Path, out: Path | str, form: Form, records: Records, names: Sequence[str] = ()
) -> list[ItemOutcome]:
    with store_view(folder) as view:
        items = plan_export(view, view.segments(names), out, form, records, FILE_BYTES)
        assert pickle.loads(pickle.dumps(items)) == items
        return list(export(view, LocalExecutor(3), items))


def verified(folder: Path, out: Path, names: Sequence[str] = ()) -> dict[str, str]:
    with store_view(folder) as view:
        items, known = plan_verify_export(view, out, names)
        found = [*known, *verify_export(view, LocalExecutor(3), items)]
    return {outcome.subject: outcome.status for outcome in found}


def files_of(out: Path) -> list[Path]:
    return sorted(path for path in out.rglob("*") if path.is_file())
