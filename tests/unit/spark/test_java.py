"""Which Java is taken, and the filter before a trimmed one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from siltstone.core.errors import SettingsError
from siltstone.spark import java


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java, and a cache for this test alone."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(java, "_bundled_runtime", lambda: None)


def make_java(home: Path, version: str) -> Path:
    """A ``java`` that prints its version or its arguments, one a line."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; exit; fi\n'
        'printf "%s\\n" "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("version", "release"), [("17.0.15", 17), ("25", 25), ("1.8.0_392", 8), ("21-ea", 21)]
)
def test_releases(tmp_path: Path, version: str, release: int) -> None:
    assert java.java_release(make_java(tmp_path / "java", version)) == release


def test_no_java_has_no_release(tmp_path: Path) -> None:
    assert java.java_release(tmp_path) is None


def test_java_home_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = make_java(tmp_path / "named", "21")
    on_path = make_java(tmp_path / "on_path", "17")
    monkeypatch.setenv("JAVA_HOME", str(named))
    monkeypatch.setattr(shutil, "which", lambda _: str(on_path / "bin" / "java"))
    assert java.java_home() == named


def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = make_java(tmp_path / "on_path", "17")
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "named", "11.0.2")))
    monkeypatch.setattr(shutil, "which", lambda _: str(on_path / "bin" / "java"))
    assert java.java_home() == on_path


def test_the_bundled_runtime_is_the_last_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = make_java(tmp_path / "a runtime", "21")
    monkeypatch.setattr(java, "_bundled_runtime", lambda: runtime)
    home = java.java_home()
    assert home.is_relative_to(tmp_path / "cache")
    assert java.java_release(home) == 21
    assert java.java_home() == home


def test_the_filter_drops_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    runtime = make_java(tmp_path / "it's a runtime", "21")
    home = java.wrap_runtime(runtime, tmp_path / "cache")
    kept = ["-Da=b c", "", "$HOME", "*", "--add-modules=x"]
    arguments = [*kept[:1], "--add-modules=jdk.incubator.vector", *kept[1:]]
    run = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout.splitlines() == kept


def test_no_java_at_all_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", "11.0.2")))
    with pytest.raises(SettingsError, match=r"old \(Java 11\); install one, or: pip"):
        java.java_home()
