"""Names that a listing is asked for: the beginning of them, or a pattern."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.store.files.name_match import NameMatch, chooses, fixed_prefix


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A text that chooses names.

    It is the beginning of names; if it holds ``*`` or ``?`` it is a pattern of whole names too, so
    that names which hold such characters themselves are found as well.
    """

    text: str

    @property
    def prefix(self) -> str:
        """What all names that fit begin with."""
        return fixed_prefix(self.text, NameMatch.GLOB)

    def fits(self, name: str) -> bool:
        """Whether the text chooses ``name``."""
        kinds = (NameMatch.PREFIX, NameMatch.GLOB)
        return any(chooses(self.text, kind, name) for kind in kinds)
