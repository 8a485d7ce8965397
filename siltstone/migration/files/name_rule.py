"""How files get the names of segments, and segments those of files again. Pure functions.

A rule is a name in which ``{path}``, ``{folder}`` and ``{name}`` stand for parts of a file's path:
all of it below what was asked for, its folder, its last part. Other braces stand as they are. Files
that get the same name become one segment, in their order; so a rule without a field is one segment.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from siltstone.core.constants import check_segment_name
from siltstone.core.errors import SegmentNameError

PATH: Final = "{path}"
FOLDER: Final = "{folder}"
NAME: Final = "{name}"
_FIELDS: Final = ("path", "folder", "name")
_WORDS: Final = {
    "file": NAME, "filename": NAME, "basename": NAME, "dir": FOLDER, "dirname": FOLDER,
    "directory": FOLDER, "filepath": PATH, "fullpath": PATH,
}  # fmt: skip
"""What others call the fields."""
_BRACED: Final = re.compile(r"\{([^{}]*)\}")
_FIELD: Final = re.compile(r"\{(?:path|folder|name)\}")


def check_rule(rule: str) -> None:
    """Refuse a rule with what seems to be a misspelt field: all files would become one segment.

    Raises:
        ValueError: the message says what may have been meant.
    """
    for word in _BRACED.findall(rule):
        field = _meant(word)
        if field is not None and field != f"{{{word}}}":
            raise ValueError(
                f"{{{word}}} is no placeholder, did you mean {field}? A segment whose name is to "
                "hold it as it is can be imported under another name, and renamed"
            )


def _meant(word: str) -> str | None:
    """The field that ``word`` may stand for: a letter lost, added or out of its place."""
    plain = word.strip().lower()
    if plain in _WORDS:
        return _WORDS[plain]
    for field in _FIELDS:
        if sorted(plain) == sorted(field) or _lost(plain, field) or _lost(field, plain):
            return f"{{{field}}}"
    return None


def _lost(short: str, long: str) -> bool:
    """Whether ``short`` is ``long`` without one letter."""
    return any(short == long[:index] + long[index + 1 :] for index in range(len(long)))


def segment_for(rule: str, path: str) -> str:
    """The name of the segment that a file belongs to.

    Args:
        rule: see above.
        path: of the file below what was asked for, with ``/`` between its parts.

    Raises:
        SegmentNameError: no segment can have that name.
    """
    folder, _, name = path.rpartition("/")
    fields = {PATH: path, FOLDER: folder, NAME: name}
    return check_segment_name(_FIELD.sub(lambda field: fields[field[0]], rule))


def path_for(rule: str, segment: str) -> str | None:
    """The path of the file that a segment came from; ``None`` when the rule does not fit it.

    Raises:
        ValueError: see ``check_way_back``.
    """
    check_way_back(rule)
    begin, _, end = rule.partition(PATH)
    if not (segment.startswith(begin) and segment.endswith(end)):
        return None
    return segment[len(begin) : len(segment) - len(end)] or None


def check_way_back(rule: str) -> None:
    """Raise ``ValueError`` if a rule has other fields than one ``{path}``: there is no way back."""
    if rule.count(PATH) != 1 or FOLDER in rule or NAME in rule:
        raise ValueError(f"the way back needs {PATH} once and no other field: {rule!r}")


def check_path(segment: str, path: str) -> PurePosixPath:
    """Return ``path`` if a file below a folder can have it.

    Raises:
        SegmentNameError: it would lie elsewhere, or cannot be written as it is.
    """
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise SegmentNameError("no file below a folder can be called so", segment=segment)
    return PurePosixPath(*parts)
