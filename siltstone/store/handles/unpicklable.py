"""What a store's handles have in common: they live in one process, and each is there once."""

from __future__ import annotations

from typing import NoReturn


class LivingHandle:
    """Refuses to be pickled, and to be copied: nothing would tell a copy of what happens."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an open store cannot be pickled: open it again in the other process")
