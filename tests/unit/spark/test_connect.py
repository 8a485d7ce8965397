"""What the helpers say to Spark Connect. Its packages are not installed; a stand-in is used."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

import siltstone
from siltstone.spark import files, session
from siltstone.spark.local_session import FILE_SYSTEM


class Conf:
    """The settings of a server."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    def get(self, key: str, default: str | None = None) -> str | None:
        return self._values.get(key, default)


class StandIn:
    """A session whose class is in the module of Spark Connect's sessions."""

    def __init__(self, values: dict[str, str]) -> None:
        self.conf = Conf(values)


StandIn.__module__ = "pyspark.sql.connect.session"


def connected(**values: str) -> SparkSession:
    return cast("SparkSession", StandIn(values))


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jar on the machine of the client."""
    place = tmp_path / "silt.jar"
    monkeypatch.setattr("siltstone.spark.segment_files.find_jar", lambda: place)
    return place


def test_files_say_that_the_server_must_know_the_jar(tmp_path: Path, jar: Path) -> None:
    siltstone.init(tmp_path / "store")
    with pytest.raises(siltstone.SettingsError) as caught:
        files(connected(), tmp_path / "store", "a")
    assert "server of this session of Spark Connect does not know silt://" in str(caught.value)
    assert f"spark.jars={jar} and {FILE_SYSTEM}=" in str(caught.value)
    assert "session()" not in str(caught.value), "that would not help"


def test_files_work_where_the_server_knows_the_jar(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        store.create("a").append(b"x\n")
        store.flush()
    (path,) = files(connected(**{FILE_SYSTEM: "siltstone.SiltFileSystem"}), tmp_path, "a")
    assert path.startswith(f"silt://file{tmp_path}/")


@pytest.mark.slow
def test_what_files_cannot_be_asked_for_is_named(tmp_path: Path) -> None:
    spark = connected(**{FILE_SYSTEM: "siltstone.SiltFileSystem"})
    siltstone.init(tmp_path)
    with pytest.raises(ValueError, match="at least one text"):
        files(spark, tmp_path, [])
    for at in ("5", 5.0, True):
        with pytest.raises(TypeError, match="at is"):
            files(spark, tmp_path, "a", at=at)  # type: ignore[arg-type]


@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"])
def test_no_session_is_made_where_the_environment_asks_for_a_server(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv(variable, "sc://127.0.0.1:1")
    with pytest.raises(siltstone.SettingsError, match=r"asks for Spark Connect.*register\(\)"):
        session()


def test_an_active_session_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[SparkSession] = []
    active = connected()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: active)
    monkeypatch.setattr("siltstone.spark.local_session.register", registered.append)
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    assert session() is active
    assert registered == [active]
