"""Connections: how many one address may hold, and how many there may be in all.

gRPC lets nobody look at a connection before its first call, so the sockets of this process are looked
at from outside: a connection on which no good credential was ever shown is a stranger's, and one
address holds only so many of those. The oldest go first, for an honest one says who it is at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import logging
import os
import resource
import socket
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)
LOOK_EVERY = 0.25  # seconds
SHARE = 50  # a look takes at most one fiftieth of the time
MOST_KNOWN = 200_000
SPARE_FILES = 200  # descriptors for the database, certificates and logs
_OWN = Path("/proc/self/fd")


@dataclass(frozen=True, slots=True)
class PeerConnection:
    """One connection as the kernel has it."""

    peer: str  # as gRPC names it
    address: str  # what limits count by: see `network_of`


@functools.lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """What one caller can hold: an address, or of IPv6 the 64 bits that are theirs to fill."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    if found.is_loopback:
        return address
    return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))


def peer_of(host: str, port: int) -> str:
    """A peer as gRPC writes it."""
    if host.startswith("::ffff:"):
        host = host.removeprefix("::ffff:")
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"


class ConnectionLimiter:
    """Looks after the connections of one port."""

    def __init__(self, port: int, *, strangers: int, per_address: int) -> None:
        self._port, self._strangers, self._per_address = port, strangers, per_address
        self._visible = _OWN.is_dir()
        self._known: dict[str, None] = {}  # peers that have shown a good credential
        self._open: dict[int, PeerConnection | None] = {}  # by the socket's inode, oldest first; None: not ours

    def welcome(self, peer: str) -> None:
        """A good credential came over this connection."""
        if len(self._known) < MOST_KNOWN:
            self._known[peer] = None

    def knows(self, peer: str) -> bool:
        """True if a good credential came over this connection."""
        return peer in self._known

    async def run(self) -> None:
        """Until cancelled; where the kernel does not tell, there is nothing to do."""
        while self._visible:
            began = time.thread_time()
            try:
                self.look()
            except OSError as problem:  # out of descriptors, for a moment
                log.warning("cannot look at the connections: %s", problem)
            await asyncio.sleep(max(LOOK_EVERY, SHARE * (time.thread_time() - began)))

    def look(self) -> int:
        """Cut what is too much; how many were cut."""
        there = self._sockets()
        self._open = {inode: one for inode, one in self._open.items() if inode in there}
        for inode, descriptor in there.items():
            if inode not in self._open:
                self._open[inode] = self._opened(descriptor, inode)
        ours = {inode: one for inode, one in self._open.items() if one is not None}
        self._known = {one.peer: None for one in ours.values() if one.peer in self._known}
        cut = [inode for inode in self._too_many(ours) if self._cut(there[inode], inode)]
        if cut:
            log.warning("cut %d connections: more than one address may hold", len(cut))
        return len(cut)

    def _too_many(self, ours: dict[int, PeerConnection]) -> Iterable[int]:
        by_address: dict[str, list[int]] = defaultdict(list)
        for inode, one in ours.items():
            by_address[one.address].append(inode)
        for held in by_address.values():
            if len(held) <= min(self._strangers, self._per_address):
                continue
            strangers = [inode for inode in held if ours[inode].peer not in self._known]
            gone = strangers[: max(0, len(strangers) - self._strangers)]
            yield from gone
            yield from [inode for inode in held if inode not in set(gone)][self._per_address :]

    def _sockets(self) -> dict[int, int]:
        """The sockets of this process: their inodes and descriptors, in the order of age as far as it is known."""
        found = {}
        for name in os.listdir(_OWN):
            with contextlib.suppress(OSError, ValueError):
                text = os.readlink(_OWN / name)
                if text.startswith("socket:["):
                    found[int(text[8:-1])] = int(name)
        return dict(sorted(found.items()))  # inodes grow

    def _opened(self, descriptor: int, inode: int) -> PeerConnection | None:
        with _borrowed(descriptor, inode) as held:
            if held is None or held.family not in (socket.AF_INET, socket.AF_INET6):
                return None
            try:
                if held.getsockname()[1] != self._port:
                    return None
                host, port = held.getpeername()[:2]
            except OSError:  # it listens, or is gone
                return None
            return PeerConnection(peer_of(host, port), network_of(host))

    def _cut(self, descriptor: int, inode: int) -> bool:
        with _borrowed(descriptor, inode) as held:
            if held is None:
                return False
            try:
                held.shutdown(socket.SHUT_RDWR)
            except OSError:
                return False
            return True


@contextlib.contextmanager
def _borrowed(descriptor: int, inode: int) -> Iterator[socket.socket | None]:
    """The socket for a moment, if the descriptor still stands for it: gRPC closes its own when it likes."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        yield None
        return
    try:
        held = socket.socket(fileno=copy) if os.fstat(copy).st_ino == inode else None
    except OSError:
        held = None
    if held is None:
        os.close(copy)
        yield None
        return
    with held:
        yield held


def room_for(connections: int) -> int:
    """How many connections this process can have: raise its limit on open files as far as it is allowed to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - SPARE_FILES))
