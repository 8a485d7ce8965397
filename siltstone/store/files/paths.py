"""Segment names as paths of ``silt://`` that Spark takes for what they are. Pure functions.

Spark skips names that begin with ``_`` or ``.``, and takes some characters for a pattern. So in
each part of a name every byte of a character that is no letter, no digit and none of ``-._=+@`` is
``~`` and two hexadecimal digits; so is a leading ``_`` or ``.``, and the full stop of an ending
that stands for something else. A part that is empty is ``~``. A file that is also a folder of
others gets ``~`` at its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from siltstone.core.errors import CapabilityError

SUFFIX: Final = ".silt"
"""How the name of a file manifest ends, and no part of a path after it."""

_PLAIN: Final = frozenset("-._=+@")
_ENDINGS: Final = (SUFFIX, "._COPYING_")


def escaped(name: str) -> str:
    """Escape a name of parts with ``/`` between them."""
    return "/".join(_part(part) for part in name.split("/"))


def file_paths(names: Iterable[str]) -> dict[str, str]:
    """Return the path of each name: unique, and none of them a folder of another."""
    paths = {name: escaped(name) for name in names}
    folders = set()
    for path in paths.values():
        parts = path.split("/")[:-1]
        while parts:
            folders.add("/".join(parts))
            parts.pop()
    for name, path in paths.items():
        while path in folders:
            path += "~"
        paths[name] = path
    return paths


def silt_uri(manifest_uri: str) -> str:
    """Return the ``silt://`` path of a manifest, the folder that holds its files.

    Args:
        manifest_uri: where Hadoop finds the manifest, such as ``s3a://bucket/a/system/files/x``.

    Raises:
        CapabilityError: the scheme cannot be part of a path.
    """
    scheme, _, rest = manifest_uri.partition("://")
    authority, _, path = rest.partition("/")
    if not scheme.isalnum():
        raise CapabilityError("a URI of this scheme cannot be read by Spark", scheme=scheme)
    head = f"{scheme}+{authority}" if authority else scheme
    parts = path.split("/")
    return f"silt://{head}/{escaped('/'.join(parts[:-1]))}/{parts[-1]}"


def _part(part: str) -> str:
    if not part:
        return "~"
    ending = next((len(end) for end in _ENDINGS if part.endswith(end)), 0)
    found = []
    for index, character in enumerate(part):
        hidden = (index == 0 and character in "._") or index == len(part) - ending
        if not hidden and (character.isalnum() or character in _PLAIN):
            found.append(character)
        else:
            found += [f"~{byte:02x}" for byte in character.encode()]
    return "".join(found)
