"""A consensus of another distribution: it keeps the contract, and collections use it."""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import uuid4

import pytest

import siltstone
from siltstone.collections.blocking import open_collections
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.consensus import Consensus
from siltstone.core.environment import Environment
from siltstone.core.errors import CollectionError, SettingsError
from siltstone.core.hooks import CONSENSUS_GROUP, load_consensus, plugin_settings
from siltstone.core.records.collection_choice import decode_choice
from siltstone.store.settings.settings_views import settings_errors, shown_settings
from siltstone.testing.consensus_contract import ConsensusContract, ConsensusService
from tests.plugins.distribution import install
from tests.support.collections.collections_world import NAME, SCHEMA, rows
from tests.support.services.local_services import BucketService

MODULES = {
    "ledger": "ledger_consensus",
    "needy": "broken_plugins.needy",
    "absent": "broken_plugins.absent",
    "shy": "broken_plugins.shy",
}


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(sys.modules):
        if name.startswith(("ledger_consensus", "broken_plugins")):
            monkeypatch.delitem(sys.modules, name)
    install(
        monkeypatch, tmp_path / "site", {CONSENSUS_GROUP: MODULES}, distribution="siltstone-ledger"
    )


class LedgerPlace:
    """A book that nobody has used."""

    def __init__(self) -> None:
        self._settings = {"book": uuid4().hex}
        self._storage: ChunkStorage = BucketService().open()

    def open(self, environment: Environment) -> Consensus:
        return load_consensus("ledger", self._settings, self._storage, environment)


class TestLedger(ConsensusContract):
    @pytest.fixture
    def service(self) -> ConsensusService:
        return LedgerPlace()


def test_collections_use_the_consensus_that_the_settings_name(tmp_path: Path) -> None:
    file = store_with(tmp_path, "ledger", "  ledger: {book: gusts}\n")
    with open_collections(file) as collections, open_collections(file) as others:
        gusts = collections.create(NAME, SCHEMA, key=["k"], times="count")
        gusts.append(rows(("a", 1)))
        others.collection(NAME).append(rows(("b", 2)))
        assert sorted(gusts.snapshot().to_arrow()["v"].to_pylist()) == [1, 2]
        assert list(collections.check(deep=True)) == []
        assert sys.modules["ledger_consensus"].OPEN["gusts"] == 2
    assert sys.modules["ledger_consensus"].OPEN["gusts"] == 0, "each client was closed"
    record = tmp_path / "store" / "chunks" / "collections" / "consensus"
    assert decode_choice(record.read_bytes(), where="the record") == "ledger"
    assert not list(record.parent.rglob("entries")), "the book has them"


@pytest.mark.parametrize("first_is_ours", [False, True])
def test_an_opener_with_another_consensus_is_refused(tmp_path: Path, first_is_ours: bool) -> None:
    file = store_with(tmp_path, "ledger", f"  ledger: {{book: {uuid4().hex}}}\n")
    ours = file.with_name("ours.yaml")
    ours.write_text(file.read_text().partition("\ncollections:")[0] + "\n")
    first, second = (ours, file) if first_is_ours else (file, ours)
    with open_collections(first) as collections:
        collections.create(NAME, SCHEMA, key=["k"])
    with pytest.raises(CollectionError, match="use another consensus") as caught:
        open_collections(second)
    used, wanted = ("objects", "ledger") if first_is_ours else ("ledger", "objects")
    assert f"uses={used} wanted={wanted}" in str(caught.value)
    with open_collections(first) as collections:
        assert collections.list() == [NAME]


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("ledgre", "", r"collections\.consensus: .*'ledgre'.*ledger"),
        ("nosuch", "", r"absent, ledger, needy, objects, shy, table"),
        ("needy", "", "'needy' cannot be imported: .*a_package_that_nobody_has.*; try: "),
        ("absent", "", "'absent' cannot be imported: .*a_package_that_nobody_has.*; try: "),
        ("shy", "", "'shy' did not answer to its own name"),
        ("ledger", "", r"ledger\.book: .*"),
        (
            "ledger",
            "  ledger: {book: a, pages: 3}\n",
            r"line \d+: collections\.ledger\.pages: unknown",
        ),
        ("objects", "  objects: {path: a}\n", r"collections\.objects\.path: unknown key"),
        ("objects", "  ledger: {book: a}\n", "collections.consensus is 'objects'"),
    ],
)
def test_what_is_wrong_with_a_consensus_is_told(
    tmp_path: Path, name: str, options: str, told: str
) -> None:
    file = store_with(tmp_path, name, options)
    with pytest.raises(SettingsError, match=told) as caught:
        open_collections(file)
    assert str(file) in str(caught.value)


def test_settings_are_shown_and_checked_by_the_model_of_the_plugin(tmp_path: Path) -> None:
    file = store_with(tmp_path, "ledger", "  ledger: {book: gusts}\n")
    shown = {one.key: one.value for one in shown_settings(file)}
    assert shown["collections.consensus"] == "ledger"
    assert shown["collections.ledger.book"] == "gusts"
    assert settings_errors(file) == []
    [error] = settings_errors(store_with(tmp_path / "other", "ledger", "  ledger: {}\n"))
    assert "collections.ledger.book" in str(error)
    [error] = settings_errors(store_with(tmp_path / "third", "nosuch", ""))
    assert "collections.consensus: no plugin is called 'nosuch'" in str(error)


def test_no_installed_plugin_takes_the_name_of_our_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken = {CONSENSUS_GROUP: {"objects": "broken_plugins.absent"}}
    install(monkeypatch, tmp_path / "more", taken, distribution="siltstone-thief")
    assert plugin_settings(CONSENSUS_GROUP, "objects") is not None


def store_with(folder: Path, consensus: str, options: str) -> Path:
    file = siltstone.init(folder / "store", containers=1)
    file.write_text(f"{file.read_text()}\ncollections:\n  consensus: {consensus}\n{options}")
    return file
