"""A relay between a client and a server on the loopback, which can cut what goes through it.

This one passes bytes on as they come, whatever the protocol; ``fault_proxy`` understands HTTP.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

from siltstone.core.closed_on_exit import Closing

PATIENCE_S = 120.0
"""A socket that is silent for this long is given up, so that no thread waits for ever."""
BLOCK_BYTES = 64 << 10


class TcpRelay(Closing):
    """Listens on a free port of the loopback from the moment it is made, until it is closed.

    Each connection has a thread of its own, and a connection of its own to the server.

    Args:
        upstream: host and port of the server, which need not run yet.

    Attributes:
        upstream: see above.
        port: where it listens.
    """

    def __init__(self, upstream: tuple[str, int]) -> None:
        self.upstream = upstream
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._cut: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._failures: list[BaseException] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._accepts = self._start(self._accept)

    @property
    def address(self) -> str:
        """Host and port, as a URL has them."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Reset all connections to clients that there are; new ones are accepted."""
        with self._lock:
            sockets = list(self._sockets)
            for each in sockets:
                _prepare_reset(each)
            self._cut.update(sockets)
        # The thread that uses a socket sees the end of it, and closes it and its other side: with
        # resets, so prepared, all of them before the first thread is woken.
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """End all connections and threads. Idempotent.

        Raises:
            Exception: what the relay itself did wrong meanwhile.
        """
        self._closing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepts.join(PATIENCE_S)  # until then it may start others
        self._listener.close()
        with self._lock:
            sockets, threads = list(self._sockets), list(self._threads)
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(PATIENCE_S)
        if self._failures:
            raise self._failures.pop()

    def serve(self, client: socket.socket) -> None:
        """Serve one connection; both ends are closed after it. ``OSError`` is its natural end."""
        server = self.connect()
        try:
            back = self._start(self._pump, server, client)
            self._pump(client, server)
            back.join(PATIENCE_S)
        finally:
            self.release(server)

    def connect(self) -> socket.socket:
        """Return a new connection to the server, to be given to ``release``."""
        return self._keep(socket.create_connection(self.upstream, PATIENCE_S))

    def release(self, used: socket.socket) -> None:
        """Close a connection."""
        with self._lock:
            self._sockets.discard(used)
            self._cut.discard(used)
        used.close()

    def reset(self, used: socket.socket) -> None:
        """Close a connection so that its other end is told that it was reset."""
        _prepare_reset(used)
        self.release(used)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.settimeout(PATIENCE_S)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._keep(client)
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        try:
            self.serve(client)
        except OSError:
            pass
        except BaseException as error:  # noqa: BLE001 - told when the relay is closed
            self._failures.append(error)
        finally:
            self.release(client)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            # What was on its way when all was cut may be read here still: it came too late.
            while (block := source.recv(BLOCK_BYTES)) and not self._is_cut(source, target):
                target.sendall(block)
        if not self._is_cut(target):
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)

    def _is_cut(self, *used: socket.socket) -> bool:
        with self._lock:
            return not self._cut.isdisjoint(used)

    def _keep(self, made: socket.socket) -> socket.socket:
        with self._lock:
            self._sockets.add(made)
        if self._closing.is_set():
            with suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)
        return made

    def _start(self, call: Callable[..., None], *arguments: socket.socket) -> threading.Thread:
        name = f"relay-{id(self):x}"
        thread = threading.Thread(target=call, args=arguments, name=name, daemon=True)
        with self._lock:
            # None is forgotten before it has ended, or closing would not wait for the rest of it.
            self._threads = {each for each in self._threads if each.is_alive()}
            thread.start()
            self._threads.add(thread)
        return thread


def _prepare_reset(used: socket.socket) -> None:
    """Let the close of a socket be a reset, which also drops what is still on its way."""
    with suppress(OSError):
        used.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
