"""The program of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Program(Protocol):
    """A program in one version, which is in the cache or can be fetched into it."""

    @property
    def name(self) -> str:
        """Its name, the same everywhere."""
        ...

    @property
    def pin(self) -> str:
        """Its version."""
        ...

    def installed(self) -> Path | None:
        """What is run, if it was fetched.

        Raises:
            UnavailableError: this machine cannot run it, whatever is fetched.
        """
        ...

    def fetch(self) -> Path:
        """Return what is run; fetch it if it was not fetched yet.

        Raises:
            UnavailableError: a toolchain is missing, or fetching failed.
        """
        ...
