"""Limit the connections per address, and those without a valid credential.

gRPC does not expose a connection before its first call, so this module inspects the sockets of the process. A
connection without any call with a valid credential is unauthenticated, and each address may have a limited number of
these. The oldest are closed first, because an honest client authenticates immediately.
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
from pathlib import Path

log = logging.getLogger(__name__)
CHECK_SECONDS = 0.25  # between two checks of the connections; longer if a check is slow
CHECK_COST_FACTOR = 50  # wait at least this many times the duration of a check
MAX_AUTHENTICATED_PEERS = 200_000  # bounds the memory; ten times the default limit of connections
RESERVED_DESCRIPTORS = 200  # descriptors for the database, certificates and logs
_DESCRIPTORS = Path("/proc/self/fd")


@functools.lru_cache(maxsize=4096)
def address_of(peer: str) -> str:
    """Return the host of a gRPC peer: `ipv4:127.0.0.1:4711`, `ipv6:[::1]:4711`, `unix:`."""
    if peer.startswith("unix:"):
        return "unix"
    _, _, rest = peer.partition(":")
    return rest.rpartition(":")[0].replace("%5B", "[").replace("%5D", "]").strip("[]").partition("%")[0]


@functools.lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """Return the key by which limits count a caller: its IPv4 address, or the /64 network of its IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    if parsed.is_loopback:
        return address
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))


def peer_of(host: str, port: int) -> str:
    """Return a peer in gRPC's notation."""
    host = host.removeprefix("::ffff:")
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"


class ConnectionLimiter:
    """Enforces the connection limits of one port."""

    def __init__(self, port: int, *, unauthenticated: int, per_address: int) -> None:
        self._port, self._max_unauthenticated, self._per_address = port, unauthenticated, per_address
        self._visible = _DESCRIPTORS.is_dir()
        self._authenticated: dict[str, None] = {}  # peers with a valid credential
        self._open: dict[int, str | None] = {}  # peers by socket inode, oldest first; None: not of this port

    def mark_authenticated(self, peer: str) -> None:
        """Record that a call of this connection had a valid credential."""
        if len(self._authenticated) < MAX_AUTHENTICATED_PEERS:
            self._authenticated[peer] = None

    def is_authenticated(self, peer: str) -> bool:
        """Return True if a call of this connection had a valid credential."""
        return peer in self._authenticated

    async def run(self) -> None:
        """Enforce the limits until cancelled. Without /proc, do nothing."""
        while self._visible:
            began = time.thread_time()
            try:
                self.enforce()
            except OSError as problem:  # out of descriptors
                log.warning("cannot check the connections: %s", problem)
            await asyncio.sleep(max(CHECK_SECONDS, CHECK_COST_FACTOR * (time.thread_time() - began)))

    def enforce(self) -> int:
        """Close connections above the limits; return how many."""
        there = self._socket_descriptors()
        self._open = {inode: peer for inode, peer in self._open.items() if inode in there}
        for inode, descriptor in there.items():
            if inode not in self._open:
                self._open[inode] = self._opened(descriptor, inode)
        ours = {inode: peer for inode, peer in self._open.items() if peer is not None}
        self._authenticated = {peer: None for peer in ours.values() if peer in self._authenticated}
        cut = [inode for inode in self._excess(ours) if self._close(there[inode], inode)]
        if cut:
            log.warning("closed %d connections: above the limit of one address", len(cut))
        return len(cut)

    def _excess(self, ours: dict[int, str]) -> Iterable[int]:
        by_address: dict[str, list[int]] = defaultdict(list)
        for inode, peer in ours.items():
            by_address[network_of(address_of(peer))].append(inode)
        for inodes in by_address.values():
            if len(inodes) <= min(self._max_unauthenticated, self._per_address):
                continue
            unauthenticated = [inode for inode in inodes if ours[inode] not in self._authenticated]
            oldest = unauthenticated[: max(0, len(unauthenticated) - self._max_unauthenticated)]
            yield from oldest
            yield from [inode for inode in inodes if inode not in set(oldest)][self._per_address :]

    def _socket_descriptors(self) -> dict[int, int]:
        """Return the sockets of this process by inode, with their descriptors, approximately oldest first."""
        descriptors = {}
        for name in os.listdir(_DESCRIPTORS):
            with contextlib.suppress(OSError, ValueError):
                text = os.readlink(_DESCRIPTORS / name)
                if text.startswith("socket:["):
                    descriptors[int(text[8:-1])] = int(name)
        return dict(sorted(descriptors.items()))  # inodes increase with age

    def _opened(self, descriptor: int, inode: int) -> str | None:
        """Return the peer of a connection of the port."""
        with _socket_of(descriptor, inode) as connection:
            if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
                return None
            try:
                if connection.getsockname()[1] != self._port:
                    return None
                host, port = connection.getpeername()[:2]
            except OSError:  # a listening or closed socket
                return None
            return peer_of(host, port)

    def _close(self, descriptor: int, inode: int) -> bool:
        with _socket_of(descriptor, inode) as connection:
            if connection is None:
                return False
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                return False
            return True


@contextlib.contextmanager
def _socket_of(descriptor: int, inode: int) -> Iterator[socket.socket | None]:
    """Yield a duplicate of the socket, or None if gRPC has closed it and the descriptor is invalid or reused."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        yield None
        return
    try:
        connection = socket.socket(fileno=copy) if os.fstat(copy).st_ino == inode else None
    except OSError:
        connection = None
    if connection is None:
        os.close(copy)
        yield None
        return
    with connection:
        yield connection


def raise_descriptor_limit(connections: int) -> int:
    """Raise the limit on open files for `connections`; return how many connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + RESERVED_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - RESERVED_DESCRIPTORS))
