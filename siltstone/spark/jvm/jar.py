"""Making the jar of ``silt://`` with ``javac``, and telling whether it is that of its sources.

Uses the standard library alone, so that ``make`` can run it as a script.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
JAR: Final = FOLDER / "silt.jar"
CLASS_NAME: Final = "siltstone.SiltFileSystem"
RELEASE: Final = "17"
_MANIFEST: Final = "META-INF/MANIFEST.MF"
_BEGINNING: Final = (1980, 1, 1, 0, 0, 0)
_COMPILE_S: Final = 120.0


class JarError(Exception):
    """There is no jar, and this says why."""


def find_jar() -> Path:
    """Return the jar.

    Raises:
        JarError: it was never built, or from other sources than those beside it.
    """
    if not JAR.is_file():
        raise JarError(f"there is no {JAR}: it is built by 'make setup', which needs javac 17+")
    with zipfile.ZipFile(JAR) as archive:
        if f"Sources: {sources_digest()}" not in archive.read(_MANIFEST).decode().split("\r\n"):
            raise JarError(f"{JAR} is older than its sources; run 'make setup', which needs javac")
    return JAR


def build_jar() -> Path:
    """Compile the sources against the jars inside pyspark, unless the jar is up to date.

    The same sources and compiler give the same bytes.

    Raises:
        JarError: there is no ``javac`` or no pyspark, or the sources do not compile.
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
            "-cp", str(_hadoop()), "-d", str(classes), *map(str, _sources()),
        ]  # fmt: skip
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, timeout=_COMPILE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise JarError(f"javac did not do its work: {error}") from error
        if run.returncode:
            raise JarError(f"javac failed:\n{run.stdout}{run.stderr}")
        # Whole or not at all: others may look for it at the same time.
        with tempfile.NamedTemporaryFile(dir=FOLDER, prefix=".silt-", delete=False) as draft:
            _pack(classes, Path(draft.name))
        Path(draft.name).chmod(0o644)
        Path(draft.name).replace(JAR)
    return JAR


def sources_digest() -> str:
    """SHA-256 of the sources, in hexadecimal digits."""
    total = hashlib.sha256()
    for source in _sources():
        total.update(hashlib.sha256(source.read_bytes()).digest())
    return total.hexdigest()


def _sources() -> list[Path]:
    return sorted(FOLDER.glob("*.java"))


def _hadoop() -> Path:
    spec = find_spec("pyspark")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        for found in Path(place).glob("jars/hadoop-client-api-*.jar"):
            return found
    raise JarError("there is no pyspark to compile against")


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
