"""A connection of its own for frames, used by the very thread that appends.

The client's own thread would be woken twice for each frame. What goes wrong here settles nothing:
the line is closed, and the same bytes are sent by the client, which repeats them as it must.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from siltstone.core.constants import KIB, MIB, Buffer
from siltstone.core.remote.deadline import Deadline, DeadlineError
from siltstone.tier1.kafka.produce_message import ProduceMessages, UnexpectedAnswerError

ANSWER_BYTES_MAX: Final = 64 * KIB
SILENCE_S: Final = 5.0
"""A broker that takes or says nothing for this long is asked by the client, or another one is."""
NUMBER_MAX: Final = 2**31 - 1

_LENGTH = struct.Struct(">i")


class LineError(Exception):
    """Nothing is known of what was sent last, and the line is closed."""


class Line:
    """One connection that is signed on. Not thread-safe, but for ``close``.

    Args:
        sock: the connection; the line closes it.
        messages: of the topic.
        life_s: seconds after which its signing-on ends; ``None`` when it does not.
    """

    def __init__(
        self, sock: socket.socket, messages: ProduceMessages, life_s: float | None
    ) -> None:
        self._sock = sock
        self._messages = messages
        self._life = None if life_s is None else Deadline(life_s)
        self._number = 0

    def produce(self, batch: Sequence[Buffer], deadline: Deadline) -> tuple[int, int]:
        """Append a batch to all replicas that count; return its offset, and the log's first one.

        Raises:
            LineError: see there. Whether the batch is there or comes later is unknown.
            DeadlineError: it has passed already; nothing was sent.
        """
        left_s = deadline.left_s()
        self._check_life()
        self._number = 1 if self._number == NUMBER_MAX else self._number + 1
        request = b"".join(self._messages.encode(batch, self._number, max(1, int(left_s * 1000))))
        try:
            self._sock.settimeout(min(left_s, SILENCE_S + len(request) / MIB))
            self._sock.sendall(request)
            self._sock.settimeout(min(left_s, SILENCE_S))
            return self._messages.decode(self._answer(), self._number)
        except (OSError, UnexpectedAnswerError) as error:
            self.close()
            raise LineError(str(error)) from error
        except BaseException:
            # The next call must not take the answer to this for its own.
            self.close()
            raise

    def _check_life(self) -> None:
        if self._life is not None:
            try:
                self._life.check()
            except DeadlineError as error:
                self.close()
                raise LineError("it has to sign on again") from error

    def _answer(self) -> memoryview:
        data = self._sock.recv(4 * KIB)
        while len(data) < _LENGTH.size or len(data) < _LENGTH.size + _size(data):
            more = self._sock.recv(4 * KIB)
            if not more:
                raise ConnectionResetError("the broker closed the line")
            data += more
        if len(data) != _LENGTH.size + _size(data):
            raise UnexpectedAnswerError("more came than was asked for")
        return memoryview(data)[_LENGTH.size :]

    def close(self) -> None:
        """End the connection, and a call that waits for it. Idempotent."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


def _size(data: bytes) -> int:
    (size,) = _LENGTH.unpack_from(data)
    if not 0 <= size <= ANSWER_BYTES_MAX:
        raise UnexpectedAnswerError(f"an answer cannot have {size} bytes")
    return int(size)
