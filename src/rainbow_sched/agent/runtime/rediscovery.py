"""Detect changes of the cluster and update its graph and subsystems on the server.

The cluster is inspected once per interval and when the backend reports a change. A change is sent once two checks in
a row agree on it, so that no half-finished change is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Protocol

from rainbow_sched.agent.runtime.registered_state import ClusterDocuments, RegisteredState, RegisteredStateFile, texts
from rainbow_sched.discovery.finder import DiscoveredCluster
from rainbow_sched.model.errors import Invalid, NotFound, RainbowError
from rainbow_sched.model.graph import Graph

log = logging.getLogger("rainbow.agent")
SETTLE = 5.0  # seconds between the two checks


class UploadClient(Protocol):
    """The client calls used here."""

    async def replace_graph(self, name: str, graph: bytes) -> int:
        """Replace the cluster's graph."""

    async def put_subsystem(self, name: str, subsystem: str, graph: bytes) -> int:
        """Add or replace a subsystem."""

    async def delete_subsystem(self, name: str, subsystem: str) -> None:
        """Remove a subsystem."""


Connect = Callable[[], AbstractAsyncContextManager[UploadClient]]


class Rediscovery:
    """Periodic discovery. `look` may block; `connect` returns a client with the cluster's credential."""

    def __init__(
        self,
        cluster: str,
        look: Callable[[], DiscoveredCluster],
        connect: Connect,
        file: RegisteredStateFile,
        interval: float,
    ):
        self._cluster, self._look, self._connect = cluster, look, connect
        self._file, self._interval = file, interval
        self._told = file.read() or RegisteredState()
        self._seen: RegisteredState | None = None  # a change seen once
        self._hint = asyncio.Event()
        self._shape = ""

    def hint(self, shape: str) -> None:
        """Start a check soon if the backend's hardware digest has changed."""
        if shape and self._shape not in ("", shape):
            self._hint.set()
        self._shape = shape or self._shape

    async def run(self, reshape: Callable[[Graph], None]) -> None:
        """Check periodically until cancelled; failures are retried. `reshape` is called with each new graph."""
        while True:
            pause = min(SETTLE, self._interval) if self._seen is not None else self._interval
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hint.wait(), pause)
            self._hint.clear()
            try:
                await self.look_again(reshape)
            except (RainbowError, OSError) as problem:
                log.warning("the cluster could not be inspected or updated on the server: %s", problem)

    async def look_again(self, reshape: Callable[[Graph], None]) -> bool:
        """Check once; return True if a change was sent."""
        found = await asyncio.to_thread(self._look)
        said = await asyncio.to_thread(texts, found)
        now = said.told()
        if now == self._told:
            self._seen = None
            return False
        if now != self._seen:
            self._seen = now
            return False
        async with self._connect() as client:
            if now.graph != self._told.graph:
                await self._tell_graph(client, said, now)
                reshape(found.graph)
                log.info("the cluster changed: its graph now has %d vertices", len(found.graph))
            await self._tell_subsystems(client, said, now)
        self._seen = None
        return True

    async def _tell_graph(self, client: UploadClient, said: ClusterDocuments, now: RegisteredState) -> None:
        data = said.graph.encode()
        self._file.keep_graph(said.graph)
        try:
            await client.replace_graph(self._cluster, data)
        except (Invalid, NotFound):  # a subsystem refers to a removed vertex: remove ours, they are sent again
            if not self._told.subsystems:
                raise
            for name in list(self._told.subsystems):
                with contextlib.suppress(NotFound):
                    await client.delete_subsystem(self._cluster, name)
                self._note(self._told.with_subsystem(name, ""))
            await client.replace_graph(self._cluster, data)
        self._note(replace(self._told, graph=now.graph))

    async def _tell_subsystems(self, client: UploadClient, said: ClusterDocuments, now: RegisteredState) -> None:
        for name in [gone for gone in self._told.subsystems if gone not in now.subsystems]:
            with contextlib.suppress(NotFound):
                await client.delete_subsystem(self._cluster, name)
            self._note(self._told.with_subsystem(name, ""))
            log.info("the cluster changed: removed subsystem %s", name)
        for name, digest in now.subsystems.items():
            if self._told.subsystems.get(name) != digest:
                await client.put_subsystem(self._cluster, name, said.subsystems[name].encode())
                self._note(self._told.with_subsystem(name, digest))
                log.info("the cluster changed: updated subsystem %s", name)

    def _note(self, told: RegisteredState) -> None:
        self._told = told
        self._file.write(told)
