"""One plugin is found by name, and it alone is imported."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.bindings.s3.settings import S3Settings
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import SettingsError
from siltstone.core.hooks import (
    BINDINGS_GROUP,
    TIER1_GROUP,
    load_chunk_storage,
    load_fenced_log,
    plugin_settings,
    settings_error,
)
from tests.plugins.distribution import install

MODULES = {
    "shelf": "siltstone_shelf.plugin",
    "needy": "broken_plugins.needy",
    "absent": "broken_plugins.absent",
    "shy": "broken_plugins.shy",
}


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in list(sys.modules):
        if name.startswith(("siltstone_shelf", "broken_plugins")):
            monkeypatch.delitem(sys.modules, name)
    install(
        monkeypatch,
        tmp_path / "site",
        {"siltstone.bindings": MODULES, "siltstone.tier1": MODULES},
        requires=["click", "of-nobody>=2,<3; extra == 'needy'", "pytest; extra == 'test'"],
    )


def load(name: str) -> ChunkStorage:
    return load_chunk_storage(name, {"path": "shelf.db"})


def load_log(name: str) -> object:
    return load_fenced_log(name, {}, 0)


BOTH = pytest.mark.parametrize("load_it", [load, load_log])


def test_a_plugin_of_another_distribution_is_found() -> None:
    storage = load("shelf")
    storage.create("a", [b"x"])
    assert storage.stat("a").length == 1


def test_only_the_configured_plugin_is_imported() -> None:
    load("shelf")
    imported = {name for name in sys.modules if name.startswith(("siltstone_", "broken_"))}
    parts = {"siltstone_shelf", *(f"siltstone_shelf.{n}" for n in ("plugin", "shelf", "errors"))}
    assert imported == parts


def test_what_is_installed_or_removed_meanwhile_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=r"no plugin is called 'later' .* absent, azure"):
        load("later")
    site = tmp_path / "site"
    before_ns = site.stat().st_mtime_ns
    more = {"siltstone.bindings": {"later": MODULES["shelf"]}}
    install(monkeypatch, site, more, distribution="siltstone-later")
    # The clocks of file systems advance in steps of a few milliseconds.
    os.utime(site, ns=(before_ns, before_ns + 10**9))
    with pytest.raises(SettingsError, match="did not answer to its own name"):
        load("later")
    shutil.rmtree(site / "siltstone_later-1.0.dist-info")
    os.utime(site, ns=(before_ns, before_ns + 2 * 10**9))
    with pytest.raises(SettingsError, match="no plugin is called 'later'"):
        load("later")


@BOTH
@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        pytest.param("needy", "try: pip install 'of-nobody>=2,<3'", id="its extra is known"),
        pytest.param("absent", "try: install the extra absent of siltstone-shelf", id="no extra"),
    ],
)
def test_a_missing_package_tells_what_to_install(
    load_it: Callable[[str], object], name: str, way_out: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load_it(name)
    assert str(caught.value).endswith(way_out)
    assert "a_package_that_nobody_has" in str(caught.value)


@BOTH
def test_an_unknown_name_lists_the_known_ones(load_it: Callable[[str], object]) -> None:
    with pytest.raises(SettingsError, match=r"'nosuch'.*memory.*needy.*shelf"):
        load_it("nosuch")


@BOTH
def test_a_plugin_that_does_not_answer(load_it: Callable[[str], object]) -> None:
    with pytest.raises(SettingsError, match="own name"):
        load_it("shy")


@BOTH
def test_a_name_that_two_distributions_define(
    load_it: Callable[[str], object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(
        monkeypatch,
        tmp_path / "other",
        {
            "siltstone.bindings": {"shelf": "siltstone_shelf.plugin"},
            "siltstone.tier1": {"shelf": "siltstone_shelf.plugin"},
        },
        distribution="another-shelf",
    )
    with pytest.raises(SettingsError, match="another-shelf, siltstone-shelf"):
        load_it("shelf")


def test_wrong_settings_of_a_stranger_come_out_as_they_are() -> None:
    with pytest.raises(SettingsError, match=r"shelf\.path"):
        load_chunk_storage("shelf", {})


def test_settings_errors_name_every_key_and_no_value() -> None:
    errors: list[dict[str, object]] = [
        {"loc": ("tls", 0, "key"), "msg": "Field required", "input": "hunter2"},
        {"loc": (), "msg": "Input is wrong"},
    ]
    assert str(settings_error("s3", errors)) == "s3.tls.0.key: field required; s3: input is wrong"
    unknown = {"type": "extra_forbidden", "loc": ("buckt",), "msg": "Extra", "input": "hunter2"}
    missing = {"type": "missing", "loc": ("bucket",), "msg": "Field required"}
    told = str(settings_error("s3", [missing, unknown], S3Settings))
    assert told == "s3.buckt: unknown key; did you mean 'bucket'?; s3.bucket: is missing"
    assert str(settings_error("s3", [unknown])) == "s3.buckt: unknown key"


def test_our_own_bindings_are_found_the_same_way(tmp_path: Path) -> None:
    storage = load_chunk_storage("nfs", {"path": str(tmp_path / "chunks")})
    storage.create("a", [b"x"])
    assert (tmp_path / "chunks" / "a").read_bytes() == b"x"
    first = load_chunk_storage("memory", {"name": "test_hooks"})
    first.create("a", [b"x"])
    first.close()
    assert load_chunk_storage("memory", {"name": "test_hooks"}).stat("a").length == 1
    assert list(load_chunk_storage("memory", {}).list()) == []


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("nfs", {}, "nfs.path: is missing"),
        ("nfs", {"path": ""}, "nfs.path: "),
        ("nfs", {"path": "/x", "mode": 7}, "nfs.mode: unknown key"),
        ("memory", {"latency_s": -1}, "memory.latency_s: "),
        ("memory", {"apend": True}, "memory.apend: unknown key; did you mean 'append'"),
    ],
)
def test_wrong_settings_name_the_key(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_chunk_storage(name, settings)


@pytest.mark.parametrize("name", ["azure", "gcs", "hdfs", "memory", "nfs", "s3"])
def test_every_binding_of_ours_tells_of_its_settings(name: str) -> None:
    model = plugin_settings(BINDINGS_GROUP, name)
    assert model is not None
    assert model.__module__ == f"siltstone.bindings.{name}.settings"


@pytest.mark.parametrize("name", ["file", "kafka", "memory"])
def test_every_log_of_ours_tells_of_its_settings(name: str) -> None:
    model = plugin_settings(TIER1_GROUP, name)
    assert model is not None
    assert model.__module__ == f"siltstone.tier1.{name}.settings"


def test_a_plugin_need_not_tell_of_its_settings() -> None:
    assert plugin_settings(BINDINGS_GROUP, "shy") is None
    with pytest.raises(SettingsError, match=r"'nfs2' in siltstone\.bindings; did you mean 'nfs'"):
        plugin_settings(BINDINGS_GROUP, "nfs2")
