"""The jar of ``silt://``: built only from its sources; one clear error when it is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

import siltstone
from siltstone.core.errors import SettingsError
from siltstone.spark.jvm import JarError, jar
from siltstone.spark.local_session import FILE_SYSTEM, session_settings
from siltstone.spark.segment_files import check_session


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An uncompiled copy of the sources."""
    for source in jar.FOLDER.rglob("*.java"):
        copy = tmp_path / source.relative_to(jar.FOLDER)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    monkeypatch.setattr(jar, "FOLDER", tmp_path)
    monkeypatch.setattr(jar, "JAR", tmp_path / "silt.jar")
    return tmp_path


def conf(value: str | None) -> Any:
    """The part of a session that is used."""
    return SimpleNamespace(conf=SimpleNamespace(get=lambda key, default: value or default))


with_javac = pytest.mark.skipif(shutil.which("javac") is None, reason="there is no javac")


@pytest.mark.slow
@with_javac
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


@pytest.mark.slow
@with_javac
def test_what_is_declared_of_hadoop_is_what_spark_has(place: Path) -> None:
    (real,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    compiler = str(shutil.which("javac"))
    command = [compiler, "--release", jar.RELEASE, "-cp", str(real), "-d", str(place / "classes")]
    subprocess.run([*command, *map(str, place.glob("*.java"))], check=True)
    with zipfile.ZipFile(jar.build_jar()) as archive:
        ours = {name: archive.read(name) for name in archive.namelist() if name.endswith(".class")}
    theirs = (place / "classes").rglob("*.class")
    assert ours == {str(path.relative_to(place / "classes")): path.read_bytes() for path in theirs}


def built_wheel(place: Path, path: str) -> zipfile.ZipFile:
    """The wheel of a copy of the project, built with this PATH."""
    root = Path(siltstone.__file__).parents[1]
    place.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(root / name, place)
    ignored = shutil.ignore_patterns("__pycache__", "silt.jar")
    shutil.copytree(root / "siltstone", place / "siltstone", ignore=ignored)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(command, cwd=place, env={**os.environ, "PATH": path}, check=True)
    (wheel,) = (place / "dist").glob("*.whl")
    return zipfile.ZipFile(wheel)


@pytest.mark.slow
@with_javac
def test_a_wheel_has_the_jar_of_its_sources(tmp_path: Path) -> None:
    with built_wheel(tmp_path / "project", os.environ["PATH"]) as wheel:
        wheel.extractall(tmp_path / "installed")
    # A user who installs it has no compiler, and only the files in the wheel.
    script = "import sys; sys.path.insert(0, '.'); from siltstone.spark.jvm import find_jar; "
    told = subprocess.run(
        [sys.executable, "-c", script + "print(find_jar())"],
        cwd=tmp_path / "installed",
        env={**os.environ, "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == str(tmp_path / "installed" / "siltstone/spark/jvm/silt.jar")


@pytest.mark.slow
def test_a_wheel_is_built_without_a_compiler_too(tmp_path: Path) -> None:
    with built_wheel(tmp_path / "project", "") as wheel:
        names = wheel.namelist()
    assert "siltstone/spark/jvm/SiltFileSystem.java" in names
    assert "siltstone/spark/jvm/silt.jar" not in names


def test_without_a_compiler_it_is_said(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(place))
    with pytest.raises(JarError, match="there is no javac"):
        jar.build_jar()


@pytest.mark.usefixtures("place")
def test_without_the_jar_files_say_so() -> None:
    with pytest.raises(SettingsError, match=r"JDK.*python -m siltstone\.spark\.jvm\.jar"):
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
