"""Programs that are built from their source with Go."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from services.cache import cache_folder, install, program_folder
from services.unavailable import UnavailableError

BUILD_S = 1800
"""Longer than a cold build takes on two slow cores."""
LINES_SHOWN = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class GoProgram:
    """A program of a Go module.

    Attributes:
        name: of the program's file.
        package: of its main function.
        pin: the version of its module; Go checks what it downloads against its checksum database.
    """

    name: str
    package: str
    pin: str

    def installed(self) -> Path | None:
        """The program, if it was fetched."""
        path = program_folder(self.name, self.pin) / self.name
        return path if path.is_file() else None

    def fetch(self) -> Path:
        """Return the program; build it if it was not built yet.

        Raises:
            UnavailableError: there is no Go, or the build failed.
        """
        return install(self.name, self.pin, self._build) / self.name

    def _build(self, folder: Path) -> None:
        go = shutil.which("go")
        if go is None:
            raise UnavailableError(f"{self.name} is built with Go, and there is no go on PATH")
        kept = cache_folder() / "go"
        chosen = {
            "GOBIN": str(folder),
            "GOMODCACHE": str(kept / "mod"),
            "GOCACHE": str(kept / "build"),
            # Otherwise a user who clears the cache would have to change modes first.
            "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip(),
        }
        try:
            built = subprocess.run(
                [go, "install", f"{self.package}@{self.pin}"],
                env={**os.environ, **chosen},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=BUILD_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise UnavailableError(f"building {self.name} took over {BUILD_S} s") from error
        if built.returncode:
            lines = built.stdout.decode(errors="replace").splitlines()[-LINES_SHOWN:]
            raise UnavailableError("\n".join([f"building {self.name} failed:", *lines]))
