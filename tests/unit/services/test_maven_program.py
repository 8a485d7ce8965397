"""Only the checksum decides whether a jar is the right one."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from services.hdfs import PROGRAM
from services.maven_program import MavenProgram
from services.unavailable import UnavailableError

MAVEN = """#!/bin/sh
for argument; do case "$argument" in -DoutputDirectory=*) out="${argument#*=}";; esac; done
printf 'content of a jar' > "$out/a.jar"
%s
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MavenProgram:
    monkeypatch.setenv("SILTSTONE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    install(tmp_path / "bin" / "java", "#!/bin/sh\n")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    sums = tmp_path / "sums"
    sums.write_text(f"{hashlib.sha256(b'content of a jar').hexdigest()} a.jar\n")
    return MavenProgram(name="thing", group="g", artifacts=("a",), pin="1", sums=sums)


def install(program: Path, text: str) -> None:
    program.write_text(text)
    program.chmod(0o755)


def install_maven(folder: Path, last: str = "") -> None:
    install(folder / "mvn", MAVEN % last)


def test_jars_are_fetched_once(program: MavenProgram, tmp_path: Path) -> None:
    assert program.installed() is None
    install_maven(tmp_path / "bin")
    folder = program.fetch()
    assert (folder / "a.jar").read_bytes() == b"content of a jar"
    assert "<artifactId>a</artifactId><version>1</version>" in (folder / "pom.xml").read_text()
    install_maven(tmp_path / "bin", "exit 1")
    assert program.fetch() == program.installed() == folder


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("exit 3", "fetching thing failed"),
        ("printf x >> $out/a.jar", "not what was pinned: a.jar"),
        ("printf x > $out/b.jar", "not what was pinned: b.jar"),
        ("rm $out/a.jar", "not what was pinned: a.jar"),
    ],
)
def test_what_is_wrong_is_not_kept(
    program: MavenProgram, tmp_path: Path, last: str, said: str
) -> None:
    install_maven(tmp_path / "bin", last)
    with pytest.raises(UnavailableError, match=said):
        program.fetch()
    assert program.installed() is None


def test_without_maven(program: MavenProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UnavailableError, match="no mvn on PATH"):
        program.fetch()


def test_every_jar_of_hdfs_has_a_checksum() -> None:
    lines = [line.split() for line in PROGRAM.sums.read_text(encoding="ascii").splitlines()]
    assert len({name for _, name in lines}) == len(lines) > 100
    assert {len(digest) for digest, _ in lines} == {64}
    assert f"hadoop-hdfs-{PROGRAM.pin}.jar" in {name for _, name in lines}


def test_jars_without_java_are_of_no_use(
    program: MavenProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_maven(tmp_path / "bin")
    program.fetch()
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(UnavailableError, match="Java 17"):
        program.installed()
