"""Programs that are packages of npm, installed from a lock file of ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from services.cache import install, program_folder
from services.unavailable import UnavailableError

LOCKS = Path(__file__).with_name("locks")
INSTALL_S = 900
"""Longer than a cold install takes on a slow line."""
LINES_SHOWN = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmProgram:
    """A program of a package of npm, which Node runs.

    The lock file names each package below it with its version and a sum of its content, and no
    address: packages come from the registry of npm's configuration. No script of a package is run.

    Attributes:
        name: of the package, and of its lock file.
        pin: its version.
        script: path of the main file in the package.
    """

    name: str
    pin: str
    script: str

    def installed(self) -> Path | None:
        """The main file, if it was fetched and there is a Node to run it."""
        path = program_folder(self.name, self.pin) / self._below
        return path if path.is_file() and shutil.which("node") else None

    def fetch(self) -> Path:
        """Return the main file; install the package if it was not installed yet.

        Raises:
            UnavailableError: there is no Node or npm, or the installation failed.
        """
        for needed in ("node", "npm"):
            if shutil.which(needed) is None:
                raise UnavailableError(f"{self.name} runs on Node, and there is no {needed}")
        return install(self.name, self.pin, self._install) / self._below

    @property
    def _below(self) -> Path:
        return Path("node_modules") / self.name / self.script

    def _install(self, folder: Path) -> None:
        lock = LOCKS / f"{self.name}.json"
        root = json.loads(lock.read_text(encoding="utf-8"))["packages"][""]
        shutil.copyfile(lock, folder / "package-lock.json")
        (folder / "package.json").write_text(json.dumps(root), encoding="utf-8")
        kept = folder / "downloads"
        command = ["npm", "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund"]
        try:
            done = subprocess.run(
                [*command, "--cache", str(kept)],
                env={**os.environ, "npm_config_update_notifier": "false"},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=INSTALL_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise UnavailableError(f"installing {self.name} took over {INSTALL_S} s") from error
        if done.returncode:
            lines = done.stdout.decode(errors="replace").splitlines()[-LINES_SHOWN:]
            raise UnavailableError("\n".join([f"installing {self.name} failed:", *lines]))
        shutil.rmtree(kept, ignore_errors=True)
