"""Making the jar of ``silt://`` with ``javac``, and telling whether it is that of its sources.

Uses the standard library alone, so that ``make`` can run it as a script, and the build of a wheel,
which has no pyspark: what the sources need to know of Hadoop is declared in ``hadoop_api``.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
JAR: Final = FOLDER / "silt.jar"
CLASS_NAME: Final = "siltstone.SiltFileSystem"
RELEASE: Final = "17"
_HADOOP_API: Final = "hadoop_api"
_WAY_OUT: Final = (
    "install a JDK of release 17 or newer and compile it: python -m siltstone.spark.jvm.jar"
)
_MANIFEST: Final = "META-INF/MANIFEST.MF"
_BEGINNING: Final = (1980, 1, 1, 0, 0, 0)
_COMPILE_S: Final = 120.0


class JarError(Exception):
    """There is no jar, and this says why."""


def find_jar() -> Path:
    """Return the jar.

    Raises:
        JarError: it was never built, or from other sources than those next to it.
    """
    if not JAR.is_file():
        raise JarError(f"there is no {JAR}; {_WAY_OUT}")
    with zipfile.ZipFile(JAR) as archive:
        if f"Sources: {sources_digest()}" not in archive.read(_MANIFEST).decode().split("\r\n"):
            raise JarError(f"{JAR} is older than its sources; {_WAY_OUT}")
    return JAR


def build_jar() -> Path:
    """Compile the sources, unless the jar is up to date.

    The same sources and compiler give the same bytes.

    Raises:
        JarError: there is no ``javac``, or the sources do not compile, or the folder takes no file.
    """
    try:
        return find_jar()
    except JarError:
        pass
    compiler = shutil.which("javac")
    if compiler is None:
        raise JarError("there is no javac; install a JDK of release 17 or newer")
    with tempfile.TemporaryDirectory(prefix="silt-") as name:
        classes = Path(name) / "classes"
        command = [
            compiler, "--release", RELEASE, "-Xlint:all", "-Werror", "-encoding", "UTF-8",
            "-implicit:none", "-sourcepath", str(FOLDER / _HADOOP_API), "-d", str(classes),
            *map(str, sorted(FOLDER.glob("*.java"))),
        ]  # fmt: skip
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, timeout=_COMPILE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise JarError(f"javac did not do its work: {error}") from error
        if run.returncode:
            raise JarError(f"javac failed:\n{run.stdout}{run.stderr}")
        try:
            # Whole or not at all: others may look for it at the same time.
            with tempfile.NamedTemporaryFile(dir=FOLDER, prefix=".silt-", delete=False) as draft:
                _pack(classes, Path(draft.name))
            Path(draft.name).chmod(0o644)
            Path(draft.name).replace(JAR)
        except OSError as error:
            raise JarError(f"{JAR} cannot be written: {error}") from error
    return JAR


def sources_digest() -> str:
    """SHA-256 of the sources, in hexadecimal digits."""
    total = hashlib.sha256()
    for source in _sources():
        total.update(hashlib.sha256(source.read_bytes()).digest())
    return total.hexdigest()


def _sources() -> list[Path]:
    return sorted([*FOLDER.glob("*.java"), *(FOLDER / _HADOOP_API).rglob("*.java")])


def _pack(classes: Path, jar: Path) -> None:
    head = f"Manifest-Version: 1.0\r\nSources: {sources_digest()}\r\n\r\n"
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(_MANIFEST, _BEGINNING), head)
        for path in sorted(classes.rglob("*.class")):
            entry = zipfile.ZipInfo(path.relative_to(classes).as_posix(), _BEGINNING)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())


if __name__ == "__main__":
    try:
        print(f"built {build_jar()}")  # noqa: T201 - a script of make
    except JarError as missing:
        sys.exit(f"the file system silt:// for Spark is left out: {missing}")
