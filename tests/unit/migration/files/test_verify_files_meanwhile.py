"""Comparing segments with the files they were made from, while an owner truncates them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.migration.files import verify_files as comparing
from siltstone.migration.files.import_plan import plan_files
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.segment_ranges import plan_range
from siltstone.pipelines.store_view import store_view
from tests.support.stores import make_store


def test_what_is_truncated_meanwhile_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_store(tmp_path / "store", containers=1)
    source = tmp_path / "source"
    source.write_bytes(b"0123456789" * 100)
    cuts = [300, 700]
    with siltstone.open(folder) as store:
        store.create("a").append(source.read_bytes())

        def truncated_first(view: Any, *arguments: Any) -> Any:
            if cuts:
                store.segment("a").truncate(cuts.pop(0))
                view.refresh()
            return plan_range(view, *arguments)

        monkeypatch.setattr(comparing, "plan_range", truncated_first)
        with store_view(folder) as view:
            planned = plan_files("a", [source])
            (told,) = comparing.verify_files(view, planned, LocalExecutor(1))
    assert (told.status, told.length, cuts) == ("ok", 300, [])
