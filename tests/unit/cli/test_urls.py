"""A store by its URL. The binding ``memory`` stands in for a bucket of the same process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.cli.main import run
from siltstone.store.settings import store_url
from tests.support.command import Ran

Plain = Callable[..., Ran]


@pytest.fixture
def plain(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Plain:
    """Run the command without ``--store``, with homes of stores in the folder of this test."""
    monkeypatch.setitem(store_url.SCHEMES, "mem", "memory")
    monkeypatch.setattr(store_url, "_where", lambda binding, host, path: {"name": f"{host}/{path}"})
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SILTSTONE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Ran:
        code = run(arguments)
        out, err = capfd.readouterr()
        return Ran(code=code, out=out, err=err)

    return call


@pytest.fixture
def url(tmp_path: Path) -> str:
    """One that no other test has."""
    return f"mem://{tmp_path.name}/logs"


def test_a_store_is_made_and_used_by_its_url(
    plain: Plain, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made,) = plain("init", url, "--option", "latency_s=0.001", "--json").values
    home = store_url.parse_store_url(url).home
    assert Path(made["settings"]) == home / "siltstone.yaml"
    (tmp_path / "in").write_bytes(b"hello")
    assert plain("--store", url, "append", "a", str(tmp_path / "in"), "--create").code == 0
    assert plain("cat", "a", "--store", url).out == "hello"
    monkeypatch.setenv("SILTSTONE_STORE", url)
    assert plain("cat", "a").out == "hello"
    assert plain("cat", "a", "--store", str(home)).out == "hello"
    again = plain("init", url)
    assert again.code == 4
    assert str(home) in again.err


@pytest.mark.slow
def test_without_settings_long_term_storage_alone_is_read(
    plain: Plain, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain("init", url)
    (tmp_path / "in").write_bytes(b"hello")
    plain("--store", url, "append", "a", str(tmp_path / "in"), "--create")
    plain("--store", url, "flush")
    plain("--store", url, "append", "a", str(tmp_path / "in"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another machine"))
    ran = plain("--store", url, "cat", "a")
    assert (ran.code, ran.out) == (0, "hello")
    assert f"memory://{tmp_path.name}/logs: this machine has no tier-1 log" in ran.err
    assert [one["name"] for one in plain("ls", "--store", url, "--json").values] == ["a"]
    assert plain("stat", "--store", url).code == 0
    assert plain("-q", "cat", "a", "--store", f"{url}?latency_s=0.001").out == "hello"
    assert list((tmp_path / "another machine").glob("**/*")) == [], "nothing is left"
    for verb in (("create", "b"), ("rm", "a"), ("recover",), ("doctor",), ("settings", "show")):
        ran = plain("--store", url, *verb)
        assert ran.code == 2
        assert "siltstone init makes one" in ran.err
        assert f"url=memory://{tmp_path.name}/logs" in ran.err


def test_settings_of_a_url_do_not_change_those_of_a_store(plain: Plain, url: str) -> None:
    plain("init", f"{url}?latency_s=0.001")
    text = (store_url.parse_store_url(url).home / "siltstone.yaml").read_text(encoding="utf-8")
    assert "latency_s: 0.001" in text
    assert plain("ls", "--store", url).code == 0
    ran = plain("create", "a", "--store", f"{url}?latency_s=1")
    assert ran.code == 2
    assert "this store has settings; change latency_s in" in ran.err


def test_what_a_url_cannot_say(plain: Plain, url: str) -> None:
    assert "which binding" in plain("init", url, "--binding", "nfs").err
    assert "there is no setting 'x'" in plain("init", f"{url}?x=1").err
    assert "stands there twice" in plain("init", url, "--option", "name=x").err
    assert "no store can be named by s4://" in plain("ls", "--store", "s4://a/b").err
    assert plain("ls", "--store", "s4://a/b").code == 2
