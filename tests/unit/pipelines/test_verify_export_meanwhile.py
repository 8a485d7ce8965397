"""Comparing an export while an owner or another export works: no false difference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.pipelines import verify_export as comparing
from siltstone.pipelines.export import export, plan_export
from siltstone.pipelines.export_layout import Form, Records
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.verify_export import TRUNCATED, plan_verify_export, verify_export
from siltstone.pipelines.work import OK
from siltstone.store.store import Store
from tests.support.stores import make_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a store with one segment, which is exported."""
    folder = make_store(tmp_path / "store", containers=1)
    with siltstone.open(folder) as store:
        store.create("a").append(b"x" * 1_000)
    written(folder)
    return folder


def written(folder: Path) -> None:
    with store_view(folder) as view:
        out = folder.parent / "out"
        items = plan_export(view, view.segments(), out, Form.FILES, Records.BYTES)
        assert [one.status for one in export(view, LocalExecutor(1), items)] == [OK]


def compared(folder: Path, function: str, act: Callable[[], None]) -> set[str]:
    """Compare the export, with ``act`` after the look at the segment."""
    with store_view(folder) as view, pytest.MonkeyPatch.context() as patch:
        plain = getattr(comparing, function)

        def after_act(*arguments: Any) -> Any:
            act()
            if function == "plan_range":
                view.refresh()
            return plain(*arguments)

        patch.setattr(comparing, function, after_act)
        items, known = plan_verify_export(view, folder.parent / "out", ["a"])
        return {one.status for one in (*known, *verify_export(view, LocalExecutor(1), items))}


@pytest.mark.slow
def test_what_is_exported_meanwhile_does_not_differ(folder: Path) -> None:
    def more() -> None:
        with siltstone.open(folder) as store:
            store.segment("a").append(b"more")
        written(folder)

    assert compared(folder, "exported_ranges", more) == {OK}


def truncate(store: Store) -> None:
    store.segment("a").truncate(500)


def make_again(store: Store) -> None:
    store.segment("a").delete()
    store.create("a").append(b"y" * 2_000)


@pytest.mark.slow
@pytest.mark.parametrize("act", [truncate, make_again])
def test_of_what_goes_meanwhile_nothing_is_said(folder: Path, act: Callable[[Store], None]) -> None:
    with siltstone.open(folder) as store:
        assert compared(folder, "plan_range", lambda: act(store)) == {TRUNCATED}
