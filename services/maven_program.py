"""Programs that are jars, fetched with Maven and compared with the checksums of this checkout."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from services.cache import install, program_folder
from services.java import java
from services.unavailable import UnavailableError

FETCH_S = 600
LINES_SHOWN = 15
POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>test.services</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = (
    "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
    "<version>{version}</version></dependency>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MavenProgram:
    """A class path of Java.

    Attributes:
        name: of the service.
        group: of the artifacts.
        artifacts: their names; dependencies are fetched too.
        pin: their version.
        sums: a file with the SHA-256 and the name of every jar.
    """

    name: str
    group: str
    artifacts: tuple[str, ...]
    pin: str
    sums: Path

    def installed(self) -> Path | None:
        """The folder of jars, if it was fetched.

        Raises:
            UnavailableError: there is no Java to run them.
        """
        java()
        folder = program_folder(self.name, self.pin)
        return folder if folder.is_dir() else None

    def fetch(self) -> Path:
        """Return the folder of jars; fetch them if they were not fetched yet.

        Raises:
            UnavailableError: there is no Maven, fetching failed, or a jar is not what it should be.
        """
        return install(self.name, self.pin, self._fetch)

    def _fetch(self, folder: Path) -> None:
        maven = shutil.which("mvn")
        if maven is None:
            raise UnavailableError(
                f"{self.name} is fetched with Maven, and there is no mvn on PATH"
            )
        pom = folder / "pom.xml"
        lines = [
            DEPENDENCY.format(group=self.group, artifact=artifact, version=self.pin)
            for artifact in self.artifacts
        ]
        pom.write_text(POM.format(name=self.name, dependencies="\n".join(lines)), encoding="utf-8")
        command = [
            maven, "-B", "-q", "-f", str(pom), "dependency:copy-dependencies",
            "-DincludeScope=runtime", f"-DoutputDirectory={folder}",
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=FETCH_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise UnavailableError(f"fetching {self.name} took over {FETCH_S} s") from error
        if done.returncode:
            shown = done.stdout.decode(errors="replace").splitlines()[-LINES_SHOWN:]
            raise UnavailableError("\n".join([f"fetching {self.name} failed:", *shown]))
        self._compare(folder)

    def _compare(self, folder: Path) -> None:
        lines = self.sums.read_text(encoding="ascii").splitlines()
        wanted = {name: digest for digest, name in map(str.split, lines)}
        found = {
            jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")
        }
        wrong = [name for name in wanted | found if wanted.get(name) != found.get(name)]
        if wrong:
            raise UnavailableError(f"{self.name}: not what was pinned: {', '.join(sorted(wrong))}")
