"""The jar of ``silt://``: built from its sources alone, and missed with one clear error."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.core.errors import SettingsError
from siltstone.spark.jvm import JarError, jar
from siltstone.spark.local_session import FILE_SYSTEM, session_settings
from siltstone.spark.segment_files import check_session


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sources that was never compiled."""
    for source in jar.FOLDER.glob("*.java"):
        shutil.copy(source, tmp_path)
    monkeypatch.setattr(jar, "FOLDER", tmp_path)
    monkeypatch.setattr(jar, "JAR", tmp_path / "silt.jar")
    return tmp_path


def conf(value: str | None) -> Any:
    """As much of a session as is asked."""
    return SimpleNamespace(conf=SimpleNamespace(get=lambda key, default: value or default))


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no javac")
def test_it_is_built_once_from_the_same_sources_to_the_same_bytes(place: Path) -> None:
    built = jar.build_jar()
    first, when = built.read_bytes(), built.stat().st_mtime_ns
    assert jar.build_jar().stat().st_mtime_ns == when
    built.unlink()
    assert jar.build_jar().read_bytes() == first
    source = place / "SiltFileSystem.java"
    source.write_text(source.read_text(encoding="utf-8") + "// changed\n", encoding="utf-8")
    with pytest.raises(JarError, match="older than its sources"):
        jar.find_jar()
    assert jar.build_jar() == jar.find_jar()
    source.write_text("no Java", encoding="utf-8")
    with pytest.raises(JarError, match="javac failed"):
        jar.build_jar()
    assert [path.name for path in place.iterdir() if path.name.startswith(".")] == []


def test_without_a_compiler_it_is_said(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(place))
    with pytest.raises(JarError, match="there is no javac"):
        jar.build_jar()


@pytest.mark.usefixtures("place")
def test_without_the_jar_files_say_so() -> None:
    with pytest.raises(SettingsError, match=r"make setup.*javac"):
        check_session(conf(None))
    check_session(conf("of a jar that the user brought"))
    assert FILE_SYSTEM not in session_settings({})


def test_a_session_without_the_jar_is_refused(place: Path) -> None:
    jar.JAR.write_bytes(b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("siltstone.spark.segment_files.find_jar", lambda: place / "silt.jar")
        with pytest.raises(SettingsError, match=rf"spark\.jars={place}/silt\.jar"):
            check_session(conf(None))
        check_session(conf("known"))


def test_jars_of_the_user_are_added(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = place / "silt.jar"
    monkeypatch.setattr("siltstone.spark.local_session.find_jar", lambda: found)
    assert session_settings({})["spark.jars"] == str(found)
    made = session_settings({"spark.jars": "a.jar,b.jar", FILE_SYSTEM: "mine"})
    assert made["spark.jars"] == f"{found},a.jar,b.jar"
    assert made[FILE_SYSTEM] == "mine"
