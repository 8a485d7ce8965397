from __future__ import annotations

from pathlib import Path

import pytest

from siltstone.core.errors import SettingsError
from siltstone.core.hooks import BINDINGS_GROUP, plugin_settings
from siltstone.store.settings.store_url import SCHEMES, is_url, parse_store_url


@pytest.mark.parametrize(
    ("text", "binding", "where"),
    [
        ("s3://archive/a/b", "s3", {"bucket": "archive", "prefix": "a/b"}),
        ("s3a://archive/a/b/", "s3", {"bucket": "archive", "prefix": "a/b"}),
        ("S3://archive", "s3", {"bucket": "archive"}),
        ("s3://archive/run #7%20", "s3", {"bucket": "archive", "prefix": "run #7%20"}),
        ("gs://archive/a", "gcs", {"bucket": "archive", "prefix": "a"}),
        ("gcs://archive/a", "gcs", {"bucket": "archive", "prefix": "a"}),
        ("azure://box/a", "azure", {"container": "box", "prefix": "a"}),
        (
            "abfss://box@acc.dfs.core.windows.net/a",
            "azure",
            {"container": "box", "account": "acc", "prefix": "a"},
        ),
        ("hdfs://nn:8020/a/b", "hdfs", {"namenode": "hdfs://nn:8020", "path": "/a/b"}),
    ],
)
def test_a_url_says_binding_and_place(text: str, binding: str, where: dict[str, str]) -> None:
    assert is_url(text)
    url = parse_store_url(text)
    assert (url.binding, dict(url.where), dict(url.more)) == (binding, where, {})


def test_settings_come_after_the_question_mark() -> None:
    url = parse_store_url("s3://archive/a?endpoint=http://h:1&insecure=true&region=a%26b+c")
    assert url.more == {"endpoint": "http://h:1", "insecure": "true", "region": "a&b+c"}
    assert url.place == "s3://archive/a"
    assert url.home == parse_store_url("s3a://archive/a/").home
    assert "insecure" not in repr(url)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s4://archive/a", "no store can be named by s4://"),
        ("gss://archive", "did you mean 'gs'?"),
        ("file:///data", "no store can be named by file://"),
        ("s3://", "write s3://BUCKET/PREFIX"),
        ("s3:///a", "write s3://BUCKET/PREFIX"),
        ("hdfs://nn:8020", "write hdfs://HOST:PORT/PATH"),
        ("s3://archive?bucket=b", "bucket stands in the URL"),
        ("s3://archive?region", "KEY=VALUE"),
        ("s3://archive?region=a&region=b", "KEY=VALUE"),
    ],
)
def test_what_is_no_url_of_a_store(text: str, reason: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_store_url(text)
    assert reason in str(caught.value)


def test_a_secret_of_a_url_is_in_no_message() -> None:
    with pytest.raises(SettingsError) as caught:
        parse_store_url("s3:///a?secret_access_key=hunter2")
    assert "hunter2" not in str(caught.value)


def test_each_url_has_a_home_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    long = "x" * 1_000
    texts = (
        "s3://a/b",
        "s3://a/b/c",
        "s3://a%2Fb",
        "gs://a/b",
        f"s3://a/{long}",
        f"s3://a/{long}y",
    )
    homes = [parse_store_url(text).home for text in texts]
    assert len(set(homes)) == len(texts)
    for home in homes:
        home.mkdir(parents=True)
        assert home.parent.parent == tmp_path / "siltstone"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/h/x")
    assert parse_store_url("s3://a/b").home == Path("/h/x/.local/share/siltstone/s3/a%2Fb")


@pytest.mark.parametrize("binding", sorted(set(SCHEMES.values())))
def test_settings_of_urls_are_those_of_bindings(binding: str) -> None:
    model = plugin_settings(BINDINGS_GROUP, binding)
    assert model is not None
    for scheme in (scheme for scheme, its in SCHEMES.items() if its == binding):
        where = (
            parse_store_url(f"{scheme}://a@b/c").where
            if binding == "azure"
            else (parse_store_url(f"{scheme}://abc/c").where)
        )
        assert set(where) <= set(model.model_fields)
