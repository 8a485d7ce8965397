"""Links in a legacy layout: nothing reads through them, and what may lie beyond one is refused."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from siltstone.migration.legacy.chunk_list import Refused
from siltstone.migration.legacy.findings import ImportVerdict, LegacyFinding, Reason
from siltstone.migration.legacy.header import HeaderChunk
from siltstone.migration.legacy.names import HEADER, Naming, read_name
from siltstone.migration.source.places import PlacedFile


@dataclass(frozen=True, slots=True)
class Links:
    """The links of a place.

    Attributes:
        files: keys of those that stand for files, by the names that headers know.
        folders: keys of those that stand for folders, with ``/`` at their end.
    """

    files: dict[str, str]
    folders: tuple[str, ...]

    def refused(self, chunks: Iterable[HeaderChunk], known: Container[str]) -> Refused | None:
        """Why a segment cannot be taken if one of its chunks is a link, or lies beyond one.

        Args:
            chunks: as its header lists them.
            known: names of all files that are there.
        """
        for chunk in chunks:
            if chunk.name in known:
                continue
            folder = next((key for key in self.folders if chunk.name.startswith(key)), None)
            link = self.files.get(chunk.name, folder)
            if link is not None:
                return Refused(Reason.LINK, f"{link} is a link, and links are not followed")
        return None

    def settle(self, found: Sequence[LegacyFinding]) -> Iterator[LegacyFinding]:
        """Refuse segments whose header is a link, and folders that are links."""
        headers = {
            name.removesuffix(HEADER): key
            for name, key in self.files.items()
            if name.endswith(HEADER) and name != HEADER
        }
        yield from (one for one in found if one.segment not in headers)
        for segment, key in headers.items():
            yield _refusal(segment, key, "is a link, and links are not followed")
        for key in self.folders:
            text = "is a link to a folder; its target is not looked at"
            yield _refusal(key, None, text)

    @property
    def strays(self) -> Iterable[str]:
        """Links that are neither headers nor folders."""
        return (key for name, key in self.files.items() if not name.endswith(HEADER))


def links_of(found: Iterable[PlacedFile], naming: Naming) -> Links:
    """The links among what was found."""
    keys = [file.key for file in found if file.is_link]
    files = {}
    for key in keys:
        if not key.endswith("/"):
            known = read_name(key, naming)
            files[key if known is None else known.name] = key
    return Links(files, tuple(key for key in keys if key.endswith("/")))


def _refusal(segment: str, key: str | None, text: str) -> LegacyFinding:
    return LegacyFinding(
        segment=segment,
        verdict=ImportVerdict.REFUSED,
        reason=Reason.LINK,
        message=f"{key or segment} {text}",
        header_key=key,
    )
