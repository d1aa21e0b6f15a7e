"""A TCP proxy that injects faults: resets, stalls, drops in one direction or both, and delays.

It runs in threads of the test's own process, in front of one server. `UP` is from client to
server, `DOWN` from server to client.
"""

from __future__ import annotations

import contextlib
import enum
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

PIECE = 64 * 1024
Pair = tuple[socket.socket, socket.socket]


class Way(enum.Enum):
    """A direction."""

    UP = "up"
    DOWN = "down"


UP, DOWN = Way.UP, Way.DOWN


@dataclass
class Proxy:
    """Listens on a free port and forwards everything until a fault is injected."""

    port: int
    target: tuple[str, int]
    cuts: int = 0
    _pairs: set[Pair] = field(default_factory=set)
    _forgotten: set[Pair] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: dict[Way, threading.Event] = field(default_factory=lambda: {way: _opened() for way in Way})
    _moved: threading.Condition = field(default_factory=threading.Condition)
    _bytes: dict[Way, int] = field(default_factory=lambda: dict.fromkeys(Way, 0))
    _refusing: bool = False
    _closed: threading.Event = field(default_factory=threading.Event)
    delay: float = 0.0

    @property
    def address(self) -> str:
        """Return the address for clients."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> int:
        """Reset every connection on both sides; return how many."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            for side in pair:
                _reset(side)
        self.cuts += len(pairs)
        return len(pairs)

    def forget(self) -> int:
        """Silently drop everything on existing connections; new ones work. Return how many there were."""
        with self._lock:
            self._forgotten |= self._pairs
            self._pairs = set()
        return len(self._forgotten)

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Reset all connections and refuse new ones until the block ends."""
        self._refusing = True
        self.cut()
        try:
            yield
        finally:
            self._refusing = False

    @contextlib.contextmanager
    def silent(self, *ways: Way) -> Iterator[None]:
        """Silently drop everything in these directions until the block ends; then reset the connections."""
        for way in ways:
            self._open[way].clear()
        try:
            yield
        finally:
            self.cut()
            for way in ways:
                self._open[way].set()

    @contextlib.contextmanager
    def stalled(self, *ways: Way) -> Iterator[None]:
        """Hold everything back in these directions until the block ends; then deliver it."""
        for way in ways:
            self._open[way].clear()
        try:
            yield
        finally:
            for way in ways:
                self._open[way].set()

    def passed(self, way: Way) -> int:
        """How many bytes went this way so far."""
        return self._bytes[way]

    def reaches(self, way: Way, count: int, timeout: float) -> bool:
        """Wait until `count` bytes went this way in all; False if they did not within `timeout` seconds."""
        with self._moved:
            return self._moved.wait_for(lambda: self._bytes[way] >= count, timeout)

    # --- its threads ---

    def serve(self, listener: socket.socket) -> None:
        """Take connections until it is closed."""
        while not self._closed.is_set():
            try:
                client, _ = listener.accept()
            except OSError:
                return
            if self._refusing:
                _reset(client)
                continue
            try:
                server = socket.create_connection(self.target, timeout=5)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            pair = (client, server)
            with self._lock:
                self._pairs.add(pair)
            for way, source, sink in ((UP, client, server), (DOWN, server, client)):
                threading.Thread(target=self._pump, args=(pair, way, source, sink), daemon=True).start()

    def _pump(self, pair: Pair, way: Way, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(PIECE):
                self._open[way].wait()
                if self.delay:
                    self._closed.wait(self.delay)
                with self._lock:
                    if pair not in self._pairs:
                        return
                sink.sendall(data)
                with self._moved:
                    self._bytes[way] += len(data)
                    self._moved.notify_all()
        except OSError:
            pass  # one side is gone: the other learns it below
        with self._lock:
            known = pair in self._pairs
            self._pairs.discard(pair)
        if known:
            for side in pair:
                _reset(side)

    def close(self) -> None:
        """Let go of everything."""
        self._closed.set()
        for event in self._open.values():
            event.set()
        self.cut()
        for pair in self._forgotten:
            for side in pair:
                _reset(side)


def _opened() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def _reset(side: socket.socket) -> None:
    with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()


@contextlib.contextmanager
def a_proxy(target: str) -> Iterator[Proxy]:
    """A proxy in front of HOST:PORT that ends with the block."""
    host, _, port = target.rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = Proxy(listener.getsockname()[1], (host, int(port)))
        thread = threading.Thread(target=proxy.serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            proxy.close()
            thread.join(5)
