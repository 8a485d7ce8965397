"""Programs that an administrator installs with the packages of the system."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from services.unavailable import UnavailableError

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""Where such programs are, whatever ``PATH`` a user without privileges has."""

PROBE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledProgram:
    """A program of the distribution, and what else must be installed to run it.

    Attributes:
        name: see ``Program``.
        commands: commands that must exist; the first one is run.
        files: files that must exist.
        packages: of Debian, that have all of this.
        probe: a command that works if the program can work; it leaves nothing behind.
    """

    name: str
    commands: Sequence[str]
    files: Sequence[str]
    packages: Sequence[str]
    probe: Sequence[str]

    @property
    def pin(self) -> str:
        """The version that the distribution has."""
        return "of the system"

    def installed(self) -> Path | None:
        """The program.

        Raises:
            UnavailableError: this machine cannot run it as it is.
        """
        if os.geteuid() != 0:
            raise UnavailableError("only root can make a network for it")
        found = {name: shutil.which(name, path=SYSTEM_PATH) for name in self.commands}
        missing = [name for name, path in found.items() if path is None]
        missing += [name for name in self.files if not os.path.exists(name)]
        if missing:
            raise UnavailableError(
                f"{', '.join(missing)} is missing; on Debian: apt-get install"
                f" {' '.join(self.packages)}"
            )
        tried = subprocess.run(
            self.probe,
            env={"PATH": SYSTEM_PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_S,
            check=False,
        )
        if tried.returncode:
            told = tried.stdout.decode(errors="replace").strip()
            raise UnavailableError(f"{' '.join(self.probe)}: {told}")
        first = found[self.commands[0]]
        return None if first is None else Path(first)

    def fetch(self) -> Path:
        """Return the program; nothing is fetched, because only an administrator can do that.

        Raises:
            UnavailableError: as ``installed``.
        """
        found = self.installed()
        assert found is not None, f"{self.name} has no command"
        return found
