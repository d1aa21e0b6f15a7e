"""Notices that the cluster is no longer what was registered, and tells the server: its graph, then what hangs on it.

It looks once per interval, and when the backend's own questions hint at a change. What is
found must be found twice, so that a change in the making is not told half.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Protocol

from rainbow_sched.agent.runtime.registered_state import Texts, Told, ToldFile, texts
from rainbow_sched.discovery.finder import Found
from rainbow_sched.model.errors import Invalid, NotFound, RainbowError
from rainbow_sched.model.graph import Graph

log = logging.getLogger("rainbow.agent")
SETTLE = 5.0  # seconds between the two looks that must agree


class Uploads(Protocol):
    """The calls of the client that are needed here."""

    async def replace_graph(self, name: str, graph: bytes) -> int:
        """Put another graph in place."""

    async def put_subsystem(self, name: str, subsystem: str, graph: bytes) -> int:
        """Add or replace a subsystem."""

    async def delete_subsystem(self, name: str, subsystem: str) -> None:
        """Remove a subsystem."""


Connect = Callable[[], AbstractAsyncContextManager[Uploads]]


class Rediscovery:
    """Looks again and again. `look` may block; `connect` gives the client, with the cluster's credential."""

    def __init__(self, cluster: str, look: Callable[[], Found], connect: Connect, file: ToldFile, interval: float):
        self._cluster, self._look, self._connect = cluster, look, connect
        self._file, self._interval = file, interval
        self._told = file.read() or Told()
        self._seen: Told | None = None  # found once, and other than what was told
        self._hint = asyncio.Event()
        self._shape = ""

    def hint(self, shape: str) -> None:
        """The backend's word for what its manager has; another than before means: look soon."""
        if shape and self._shape not in ("", shape):
            self._hint.set()
        self._shape = shape or self._shape

    async def run(self, reshape: Callable[[Graph], None]) -> None:
        """For ever: look, tell, wait. What fails is tried again; `reshape` is called with each new graph."""
        while True:
            pause = min(SETTLE, self._interval) if self._seen is not None else self._interval
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hint.wait(), pause)
            self._hint.clear()
            try:
                await self.look_again(reshape)
            except (RainbowError, OSError) as problem:
                log.warning("what this cluster is could not be looked at or told: %s", problem)

    async def look_again(self, reshape: Callable[[Graph], None]) -> bool:
        """Look once; True if something was told."""
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
                log.info("the cluster changed: its graph has %d vertices now", len(found.graph))
            await self._tell_subsystems(client, said, now)
        self._seen = None
        return True

    async def _tell_graph(self, client: Uploads, said: Texts, now: Told) -> None:
        data = said.graph.encode()
        self._file.keep_graph(said.graph)
        try:
            await client.replace_graph(self._cluster, data)
        except (Invalid, NotFound):  # a subsystem hangs on something that is gone: ours are sent anew after it
            if not self._told.subsystems:
                raise
            for name in list(self._told.subsystems):
                with contextlib.suppress(NotFound):
                    await client.delete_subsystem(self._cluster, name)
                self._note(self._told.with_subsystem(name, ""))
            await client.replace_graph(self._cluster, data)
        self._note(replace(self._told, graph=now.graph))

    async def _tell_subsystems(self, client: Uploads, said: Texts, now: Told) -> None:
        for name in [gone for gone in self._told.subsystems if gone not in now.subsystems]:
            with contextlib.suppress(NotFound):
                await client.delete_subsystem(self._cluster, name)
            self._note(self._told.with_subsystem(name, ""))
            log.info("the cluster changed: no more %s", name)
        for name, digest in now.subsystems.items():
            if self._told.subsystems.get(name) != digest:
                await client.put_subsystem(self._cluster, name, said.subsystems[name].encode())
                self._note(self._told.with_subsystem(name, digest))
                log.info("the cluster changed: %s", name)

    def _note(self, told: Told) -> None:
        self._told = told
        self._file.write(told)
