"""A model of the RollingStorage that wrote legacy layouts, on files in memory.

Written from the rules of the layout and from nothing else, so it shares no line with what it
checks. ``read`` is what the original's reader would give.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class AbsentError(Exception):
    """The reader says that there is no such segment."""


class UnreadableError(Exception):
    """The reader fails."""


class DiedError(Exception):
    """The process ended at a call that changes files."""


@dataclass
class ModelFile:
    data: bytearray = field(default_factory=bytearray)
    sealed: bool = False


@dataclass
class Opened:
    """What the reader knows of a segment."""

    chunks: list[tuple[int, str]]
    max_size: int
    sealed: bool
    has_header: bool


class RollingModel:
    """The files, and what the original does to them. ``calls_left`` lets it die on the way."""

    def __init__(self, *, replaces: bool = False) -> None:
        self.files: dict[str, ModelFile] = {}
        self.replaces = replaces
        self.calls_left: int | None = None

    # --- calls that change files ------------------------------------------------------------------

    def _call(self) -> None:
        if self.calls_left is not None:
            if self.calls_left == 0:
                self.calls_left = None
                raise DiedError
            self.calls_left -= 1

    def _new(self, name: str) -> None:
        self._call()
        self.files.setdefault(name, ModelFile())

    def _add(self, name: str, data: bytes) -> None:
        if self.calls_left == 0:  # half of it is there
            self.files[name].data += data[: len(data) // 2]
        self._call()
        self.files[name].data += data

    def _remove(self, name: str) -> None:
        self._call()
        self.files.pop(name, None)

    def _set_sealed(self, name: str, sealed: bool) -> None:
        self._call()
        self.files[name].sealed = sealed

    # --- verbs ------------------------------------------------------------------------------------

    def create(self, segment: str, max_size: int) -> None:
        header = f"{segment}$header"
        self._new(header)
        if not self.files[header].data:
            self._add(header, f"maxsize={max_size}&".encode())

    def create_bare(self, segment: str, data: bytes) -> None:
        self.files[segment] = ModelFile(bytearray(data))

    def write(self, segment: str, data: bytes) -> None:
        opened = self.open(segment)
        if not opened.has_header:
            self._add(segment, data)
            return
        while data:
            last = opened.chunks[-1] if opened.chunks else None
            size = len(self.files[last[1]].data) if last else 0
            if last is None or self.files[last[1]].sealed or size >= opened.max_size:
                last = self._roll(segment, opened)
                size = 0
            piece = data[: opened.max_size - size]
            self._add(last[1], piece)
            data = data[len(piece) :]

    def _roll(self, segment: str, opened: Opened) -> tuple[int, str]:
        start = self._length(opened)
        if opened.chunks and not self.files[opened.chunks[-1][1]].sealed:
            self._set_sealed(opened.chunks[-1][1], True)
        name = f"{segment}$offset.{start}"
        self._new(name)
        self._add(f"{segment}$header", f"{start}={name}&".encode())
        opened.chunks.append((start, name))
        return opened.chunks[-1]

    def seal(self, segment: str) -> None:
        opened = self.open(segment)
        if opened.chunks:
            self._set_sealed(opened.chunks[-1][1], True)
        if opened.has_header:
            self._set_sealed(f"{segment}$header", True)

    def truncate(self, segment: str, offset: int) -> None:
        opened = self.open(segment)
        if not opened.has_header or not opened.chunks:
            return
        length = self._length(opened)
        if offset >= length and not opened.sealed and self._first(opened) < length:
            self._roll(segment, opened)
        for (_, name), (end, _) in zip(opened.chunks, opened.chunks[1:], strict=False):
            if end <= offset:
                self._remove(name)
        if self.replaces:
            left = [one for one in opened.chunks if one[1] in self.files]
            text = f"maxsize={opened.max_size}&" + "".join(f"{a}={b}&" for a, b in left)
            self._call()
            old = self.files[f"{segment}$header"]
            self.files[f"{segment}$header"] = ModelFile(bytearray(text.encode()), old.sealed)

    def concat(self, target: str, source: str) -> None:
        """The source is sealed and begins at 0; both exist."""
        to, of = self.open(target), self.open(source)
        size, added = self._length(to), self._length(of)
        header = f"{source}$header"
        if not added:
            self._drop(source, of)
            return
        last = to.chunks[-1][1] if to.chunks else None
        room = to.max_size - (size - to.chunks[-1][0]) if to.chunks else 0
        small = not of.has_header or (len(of.chunks) == 1 and added <= room)
        if last and small and not self.files[last].sealed:
            self._add(last, bytes(self.files[of.chunks[0][1]].data))
            self._remove(of.chunks[0][1])
            if of.has_header:
                self._remove(header)
            return
        if not of.has_header:
            return  # the original rewrites such a source; it is left out here
        if last and not self.files[last].sealed:
            self._set_sealed(last, True)
        self._add(f"{target}$header", f"concat={len(of.chunks)}@{size}&".encode())
        self._add(f"{target}$header", bytes(self.files[header].data))
        self._set_sealed(of.chunks[-1][1], False)
        self._remove(header)

    def delete(self, segment: str) -> None:
        self.seal(segment)
        self._drop(segment, self.open(segment))

    def _drop(self, segment: str, opened: Opened) -> None:
        for _, name in opened.chunks:
            self._remove(name)
        if opened.has_header:
            self._remove(f"{segment}$header")

    # --- the reader -------------------------------------------------------------------------------

    def open(self, segment: str) -> Opened:
        header = self.files.get(f"{segment}$header")
        if header is None or not header.data:
            bare = self.files.get(segment)
            if bare is None:
                raise AbsentError
            return Opened([(0, segment)], 2**62 - 2, bare.sealed, has_header=False)
        text = header.data.decode()
        tokens = [token for token in text.split("&") if token]
        if not text.endswith("&") and not self._whole(segment, tokens[-1]):
            del tokens[-1]  # a torn entry, which an importer must ignore
        if not tokens:
            raise AbsentError
        chunks: list[tuple[int, str]] = []
        max_size, waiting, shift, first, before = 0, 0, 0, False, 0
        for token in tokens:
            key, _, value = token.partition("=")
            if key.lower() == "maxsize":
                max_size = max_size or int(value)
            elif key.lower() == "concat":
                waiting, shift, first = int(value.split("@")[0]), int(value.split("@")[1]), True
            else:
                if not (key.isdigit() and value):
                    raise UnreadableError
                start = int(key)
                if waiting and first and start:
                    waiting = 0
                if waiting:
                    waiting, first, start = waiting - 1, False, start + shift
                if start < before:
                    raise UnreadableError
                before = start
                chunks.append((start, value))
        if chunks and chunks[-1][1] not in self.files:
            raise AbsentError
        return Opened(chunks, max_size or 2**62 - 2, header.sealed, has_header=True)

    def _whole(self, segment: str, token: str) -> bool:
        """Whether nothing but its end is missing of an entry, so that the original writes on."""
        start, _, name = token.partition("=")
        return name == f"{segment}$offset.{start}" and name in self.files

    def _length(self, opened: Opened) -> int:
        if not opened.chunks:
            return 0
        start, name = opened.chunks[-1]
        return start + len(self.files[name].data)

    def _first(self, opened: Opened) -> int:
        for (start, name), (end, _) in zip(
            opened.chunks, [*opened.chunks[1:], (2**63, "")], strict=True
        ):
            if end > start and name in self.files:
                return start
        return 0

    def read(self, segment: str) -> tuple[int, int, bool, bytes]:
        """Start, length, sealed, and the bytes between."""
        opened = self.open(segment)
        length = self._length(opened)
        start = self._first(opened) if opened.chunks else 0
        ends = [*(begin for begin, _ in opened.chunks[1:]), length][: len(opened.chunks)]
        data = b""
        for (begin, name), end in zip(opened.chunks, ends, strict=True):
            if begin >= start and end > begin:
                if name not in self.files:
                    raise UnreadableError
                part = bytes(self.files[name].data[: end - begin])
                if len(part) < end - begin:
                    raise UnreadableError
                data += part
        return start, length, opened.sealed, data

    def segments(self) -> set[str]:
        """All names that have a header or are bare files of no header."""
        return {name.removesuffix("$header") for name in self.files if name.endswith("$header")}
