"""SQLite databases in volumes, by apsw: ``connect`` opens one. See docs/volumes.md."""

from __future__ import annotations

from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING

from siltstone.core.lazy_names import lazy_names as _lazy_names

if _find_spec("apsw") is None:
    from siltstone.core.packages import install_hint as _install_hint

    raise ImportError(
        "siltstone.volumes.sqlite needs a package that is not installed (apsw); "
        f"try: {_install_hint('sqlite')}"
    )

if TYPE_CHECKING:
    from siltstone.volumes.sqlite.connections import attach as attach
    from siltstone.volumes.sqlite.connections import connect as connect

__all__ = ["attach", "connect"]

__getattr__ = _lazy_names(__name__, {"attach": "connections", "connect": "connections"})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
