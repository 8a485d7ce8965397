"""The verb of a store by which other programs read its chunks as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from siltstone.core.chunk_names import file_manifest
from siltstone.core.errors import (
    CapabilityError,
    NotFlushedError,
    OffsetError,
    SegmentNotFoundError,
    SegmentTruncatedError,
)
from siltstone.core.records.file_manifest import (
    FileManifest,
    ManifestHead,
    ManifestPin,
    encode_file_manifest,
)
from siltstone.store.files.manifest import ChunkTable, manifest_file
from siltstone.store.files.name_match import NameMatch, chooses, fixed_prefix
from siltstone.store.files.paths import file_paths, silt_uri
from siltstone.store.handles.arguments import check_offset

if TYPE_CHECKING:
    from siltstone.container.container import Container
    from siltstone.container.models.segments import SegmentInfo
    from siltstone.container.reads.pinned_maps import PinnedMaps
    from siltstone.container.reads.reads import Reading
    from siltstone.core.environment import Environment
    from siltstone.store.handles.container_slot import ContainerSlot

TTL_S: Final = 24 * 3600.0
TTL_S_MAX: Final = 30 * 24 * 3600.0
"""A pin holds back what could be deleted."""
NONCE_BYTES: Final = 8
PAGE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFile:
    """A segment as a file of ``silt://``.

    Attributes:
        path: for Spark.
        segment: its name.
        offset: in the segment, of the first byte of the file.
        length: bytes of the file.
        unflushed: bytes after it that were acknowledged and in no chunk yet.
    """

    path: str
    segment: str
    offset: int
    length: int
    unflushed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFiles:
    """What a manifest shows.

    Attributes:
        uri: the folder of all files.
        name: key of the manifest on long-term storage.
        expires_ms: milliseconds since 1970; no read begins later.
        files: in the order of their segments' names.
    """

    uri: str
    name: str
    expires_ms: int
    files: tuple[PublishedFile, ...]


class FilePublisher:
    """Writes manifests by which segments of a store are shown as files.

    Args:
        slots: the containers that are open here.
        slot_of: finds that of a segment by its name.
        store_id: of the store.
        environment: gives time and randomness.
        read_only: segments are not flushed first.
    """

    def __init__(
        self,
        slots: Sequence[ContainerSlot],
        slot_of: Callable[[str], ContainerSlot],
        store_id: bytes,
        environment: Environment,
        *,
        read_only: bool,
    ) -> None:
        self._here = slots
        self._slot_of = slot_of
        self._store_id = store_id
        self._environment = environment
        self._read_only = read_only

    async def publish(
        self,
        segments: Sequence[str],
        match: NameMatch,
        ttl_s: float,
        at: Mapping[str, int] | None,
        *,
        verify: bool,
        flushed_only: bool,
    ) -> PublishedFiles:
        """See ``AsyncStore.publish_files``."""
        if isinstance(segments, str) or not segments:
            raise ValueError("segments is a sequence of at least one text")
        if not 0 < ttl_s <= TTL_S_MAX:
            raise ValueError(f"ttl is above 0 and at most {timedelta(seconds=TTL_S_MAX)}")
        lengths = _lengths(at)
        slots = self._slots_for(segments, match)
        for slot, texts in () if flushed_only else slots:
            for info in await self._infos(slot, texts, match):
                if not self._read_only:
                    await slot.container.flush(info.name)
                elif info.name not in lengths:
                    _check_flushed(info)
        now_ms = int(self._environment.time() * 1000)
        expires_ms = now_ms + int(ttl_s * 1000)
        pinned = []
        for slot, texts in slots:
            maps = await _pinned(slot.container, texts, match, lengths, ttl_s)
            if maps is not None:
                pinned.append(maps)
        _check_found(segments, match, lengths, pinned)
        head = ManifestHead(
            container=pinned[0].container,
            expires_ms=expires_ms,
            made_ms=now_ms,
            store_id=self._store_id,
            verify=verify,
        )
        return await self._written(slots[0][0].container, head, pinned)

    def _slots_for(
        self, segments: Sequence[str], match: NameMatch
    ) -> list[tuple[ContainerSlot, list[str]]]:
        """The containers to ask, each with the texts that may choose something there."""
        if match is not NameMatch.NAME:
            return [(slot, list(segments)) for slot in self._here]
        slots: dict[int, tuple[ContainerSlot, list[str]]] = {}
        for name in segments:
            slot = self._slot_of(name)
            slots.setdefault(slot.index, (slot, []))[1].append(name)
        return [slots[index] for index in sorted(slots)]

    async def _infos(
        self, slot: ContainerSlot, segments: Sequence[str], match: NameMatch
    ) -> list[SegmentInfo]:
        """What is acknowledged of each chosen segment of one container."""
        if match is NameMatch.NAME:
            return [await slot.container.info(name) for name in dict.fromkeys(segments)]
        found: dict[str, SegmentInfo] = {}
        for text in segments:
            prefix, last = fixed_prefix(text, match), ""
            while page := await slot.container.list_segments(prefix, last, PAGE):
                found |= {one.name: one for one in page if chooses(text, match, one.name)}
                last = page[-1].name
        return list(found.values())

    async def _written(
        self, container: Container, head: ManifestHead, pinned: Sequence[PinnedMaps]
    ) -> PublishedFiles:
        nonce = self._environment.random_bytes(NONCE_BYTES).hex()
        name = file_manifest(head.container, nonce)
        chunks = ChunkTable(container.pins.uri_of)
        maps = sorted((m for one in pinned for m in one.maps), key=lambda m: m.info.name.encode())
        paths = file_paths(m.info.name for m in maps)
        uri = silt_uri(chunks.uri_of(name))
        files = [manifest_file(paths[m.info.name], m, chunks, verify=head.verify) for m in maps]
        manifest = FileManifest(
            head=head,
            pins=tuple(
                ManifestPin(
                    container=one.container, lineage=one.lineage, version=one.version, name=one.pin
                )
                for one in pinned
            ),
            chunks=chunks.rows(),
            files=tuple(files),
        )
        await container.pins.write_file_manifest(name, encode_file_manifest(manifest))
        return PublishedFiles(
            uri=uri,
            name=name,
            expires_ms=head.expires_ms,
            files=tuple(
                PublishedFile(
                    path=f"{uri}/{file.path}",
                    segment=file.segment,
                    offset=file.offset,
                    length=file.length,
                    unflushed=found.info.length - max(found.info.flushed_length, file.offset),
                )
                for file, found in zip(files, maps, strict=True)
            ),
        )


def _lengths(at: Mapping[str, int] | None) -> dict[str, int]:
    if not isinstance(at, Mapping | None):
        raise TypeError(f"at is lengths by name, not {type(at).__name__}")
    return {name: check_offset(length, what="at") for name, length in (at or {}).items()}


async def _pinned(
    container: Container,
    segments: Sequence[str],
    match: NameMatch,
    lengths: Mapping[str, int],
    ttl_s: float,
) -> PinnedMaps | None:
    """Pin and map what is chosen in one container; ``None`` when that is nothing."""
    if container.pins.uri_of("system/store") is None:
        raise CapabilityError(
            "Spark cannot read the chunks of this long-term storage as files; "
            'spark.read.format("siltstone") can'
        )

    def wanted(reading: Reading) -> list[tuple[str, int | None]]:
        names = dict.fromkeys(name for text in segments for name in _chosen(reading, text, match))
        for name in names:
            _check_length(reading, name, lengths.get(name))
        return [(name, lengths.get(name)) for name in names]

    return await container.pins.pinned_maps(wanted, ttl_s)


def _chosen(reading: Reading, text: str, match: NameMatch) -> list[str]:
    if match is NameMatch.NAME:
        return [reading.info(text).name]
    found, last = [], ""
    prefix = fixed_prefix(text, match)
    while page := reading.list_segments(prefix, last, PAGE):
        found += [info.name for info in page if chooses(text, match, info.name)]
        last = page[-1].name
    return found


def _check_flushed(info: SegmentInfo) -> None:
    unflushed = info.length - max(info.flushed_length, info.start_offset)
    if unflushed:
        raise NotFlushedError(
            "files would lack bytes that are not flushed: let the owner flush them, as "
            "'siltstone flush' does, or say flushed_only=True",
            segment=info.name,
            unflushed=unflushed,
        )


def _check_length(reading: Reading, name: str, length: int | None) -> None:
    if length is None:
        return
    info = reading.info(name)
    if length < info.start_offset:
        raise SegmentTruncatedError(segment=name, offset=length, start_offset=info.start_offset)
    if length > info.flushed_length and length != info.start_offset:
        raise OffsetError(
            "the segment is not flushed so far",
            segment=name,
            expected=info.flushed_length,
            actual=length,
        )


def _check_found(
    segments: Sequence[str],
    match: NameMatch,
    lengths: Mapping[str, int],
    pinned: Sequence[PinnedMaps],
) -> None:
    """Refuse texts that chose nothing, and lengths of segments that were not chosen."""
    names = {found.info.name for one in pinned for found in one.maps}
    for text in segments:
        if not any(chooses(text, match, name) for name in names):
            raise SegmentNotFoundError(f"there is no segment of this {match}", segment=text)
    if unknown := sorted(set(lengths) - names):
        raise SegmentNotFoundError(
            "a length was given for it, and it is not read", segment=unknown[0]
        )
