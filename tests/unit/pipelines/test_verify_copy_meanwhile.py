"""Comparing a copy while the owner of its source works: no false difference is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.cli import copy_command
from siltstone.cli.main import run
from siltstone.pipelines.copy_segments import copy
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.owned_store import owned_store
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.verify_copy import plan_verify_copy, verify_copy
from siltstone.pipelines.work import OK, SAME
from siltstone.store.store import Store
from tests.support.stores import make_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the source, with two segments."""
    folder = make_store(tmp_path / "store", containers=1)
    with siltstone.open(folder) as store:
        for name in ("a", "b"):
            store.create(name).append(name.encode() * 1_000)
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The folder of another store."""
    return make_store(tmp_path / "target", containers=1)


def bring(folder: Path, target: Path) -> None:
    with store_view(folder) as view, owned_store(target) as owned:
        found = list(copy(view, owned, LocalExecutor(1), view.segments()))
    assert {one.status for one in found} <= {OK, SAME}


def compared(folder: Path, target: Path, act: Callable[[], None]) -> set[str]:
    """Compare the copy with what the source had before ``act``."""
    with store_view(folder) as view:
        infos = view.segments()
        act()
        view.refresh()
        with store_view(target) as other:
            items, known = plan_verify_copy(view, other, infos)
            found = [*known, *verify_copy(view, other, LocalExecutor(1), items)]
    return {f"{one.subject.partition('[')[0]} {one.status}" for one in found}


@pytest.mark.slow
def test_what_grows_on_both_sides_meanwhile_does_not_differ(folder: Path, target: Path) -> None:
    bring(folder, target)

    def grow() -> None:
        with siltstone.open(folder) as store:
            store.segment("a").append(b"more")
        bring(folder, target)

    assert compared(folder, target, grow) == {"a ok", "b ok"}


@pytest.mark.slow
def test_of_what_goes_meanwhile_nothing_is_said(folder: Path, target: Path) -> None:
    bring(folder, target)

    def go() -> None:
        with siltstone.open(folder) as store:
            store.segment("a").truncate(500)
            store.segment("b").delete()

    assert compared(folder, target, go) == {"a truncated", "b truncated"}


def make(store: Store) -> None:
    store.create("new").append(b"new")


def make_again(store: Store) -> None:
    store.segment("a").delete()
    store.create("a").append(b"another")


def delete(store: Store) -> None:
    store.segment("b").delete()


@pytest.mark.slow
@pytest.mark.parametrize("names", [(), ("a", "b")], ids=["all", "named"])
@pytest.mark.parametrize("act", [make, make_again, delete])
def test_what_is_made_or_deleted_after_a_copy_is_not_compared(
    folder: Path,
    target: Path,
    act: Callable[[Store], None],
    names: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    plain = copy_command._copy

    def copied(*arguments: Any, **options: Any) -> Any:
        chosen = plain(*arguments, **options)
        act(store)
        return chosen

    monkeypatch.setattr(copy_command, "_copy", copied)
    with siltstone.open(folder) as store:
        code = run(["--store", str(folder), "copy", str(folder), str(target), *names, "--verify"])
    assert (code, capfd.readouterr().out) == (0, "")
