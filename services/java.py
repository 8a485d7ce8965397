"""The Java that servers of the tests run on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from services.unavailable import UnavailableError


def java() -> str:
    """The program, by ``JAVA_HOME`` or ``PATH``; it must be 17 or newer.

    Raises:
        UnavailableError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None:
        raise UnavailableError("it needs Java 17 or newer, and there is no java on PATH")
    return found
