"""Register the agent's cluster if it has no credential yet, and keep its graph on the server current.

A cluster that was discovered is inspected once per interval and when the backend reports a change. A change is sent
once two checks in a row agree on it, so that no half-finished change is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rainbow_sched.agent.options import SECRET_FILE, AgentOptions, write_private
from rainbow_sched.client.async_client import AsyncClient
from rainbow_sched.client.settings import ClientSettings
from rainbow_sched.discovery.finder import MANAGERS, DiscoveredCluster, discover_cluster
from rainbow_sched.graphs.formats.jgf.writer import subsystem_to_jgf, to_jgf
from rainbow_sched.graphs.formats.reader import read
from rainbow_sched.model.errors import AlreadyExists, Invalid, NotFound, RainbowError
from rainbow_sched.model.graph import Graph

log = logging.getLogger("rainbow.agent")
CONFIRM_SECONDS = 5.0  # seconds between the two checks
GRAPH_FILE, STATE_FILE = "graph.json", "told.json"
TOKEN_FILE = "submit-token"


@dataclass(frozen=True, slots=True)
class RegisteredState:
    """Digests of the registered graph and subsystems."""

    graph: str = ""
    subsystems: Mapping[str, str] = field(default_factory=dict)

    def with_subsystem(self, name: str, digest: str) -> RegisteredState:
        """Return a copy with one subsystem set, or removed for an empty digest."""
        digests = {**self.subsystems, name: digest}
        return replace(self, subsystems={one: value for one, value in digests.items() if value})


@dataclass(frozen=True, slots=True)
class ClusterDocuments:
    """A cluster's graph and subsystems as JGF."""

    graph: str
    subsystems: Mapping[str, str]

    def registered_state(self) -> RegisteredState:
        return RegisteredState(digest(self.graph), {name: digest(text) for name, text in self.subsystems.items()})


def to_documents(found: DiscoveredCluster) -> ClusterDocuments:
    return ClusterDocuments(to_jgf(found.graph), {one.name: subsystem_to_jgf(one) for one in found.subsystems})


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read_state(directory: Path) -> RegisteredState | None:
    """Return the stored state; None if this agent has registered nothing, empty if the file is damaged."""
    with contextlib.suppress(FileNotFoundError):
        try:
            return RegisteredState(**json.loads((directory / STATE_FILE).read_text()))
        except (ValueError, TypeError):
            return RegisteredState()
    return None


def write_state(directory: Path, registered_state: RegisteredState) -> None:
    write_private(directory, STATE_FILE, json.dumps(asdict(registered_state)))


class Rediscovery:
    """Periodic discovery. `look` may block; `connect` returns a client with the cluster's credential."""

    def __init__(
        self,
        cluster: str,
        look: Callable[[], DiscoveredCluster],
        connect: Callable[[], AsyncClient],
        directory: Path,
        interval: float,
    ):
        self._cluster, self._look, self._connect = cluster, look, connect
        self._directory, self._interval = directory, interval
        self._registered = read_state(directory) or RegisteredState()
        self._unconfirmed: RegisteredState | None = None  # a change seen once
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
            pause = min(CONFIRM_SECONDS, self._interval) if self._unconfirmed is not None else self._interval
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hint.wait(), pause)
            self._hint.clear()
            try:
                await self.check(reshape)
            except (RainbowError, OSError) as problem:
                log.warning("the cluster could not be inspected or updated on the server: %s", problem)

    async def check(self, reshape: Callable[[Graph], None]) -> bool:
        """Check once; return True if a change was sent."""
        found = await asyncio.to_thread(self._look)
        documents = await asyncio.to_thread(to_documents, found)
        now = documents.registered_state()
        if now == self._registered:
            self._unconfirmed = None
            return False
        if now != self._unconfirmed:
            self._unconfirmed = now
            return False
        async with self._connect() as client:
            if now.graph != self._registered.graph:
                await self._send_graph(client, documents, now)
                reshape(found.graph)
                log.info("the cluster changed: its graph now has %d vertices", len(found.graph))
            await self._send_subsystems(client, documents, now)
        self._unconfirmed = None
        return True

    async def _send_graph(self, client: AsyncClient, documents: ClusterDocuments, now: RegisteredState) -> None:
        data = documents.graph.encode()
        write_private(self._directory, GRAPH_FILE, documents.graph)  # before the server: the next start runs jobs in it
        try:
            await client.replace_graph(self._cluster, data)
        except (Invalid, NotFound):  # a subsystem refers to a removed vertex: remove ours, they are sent again
            if not self._registered.subsystems:
                raise
            for name in list(self._registered.subsystems):
                with contextlib.suppress(NotFound):
                    await client.delete_subsystem(self._cluster, name)
                self._save(self._registered.with_subsystem(name, ""))
            await client.replace_graph(self._cluster, data)
        self._save(replace(self._registered, graph=now.graph))

    async def _send_subsystems(self, client: AsyncClient, documents: ClusterDocuments, now: RegisteredState) -> None:
        for name in [removed for removed in self._registered.subsystems if removed not in now.subsystems]:
            with contextlib.suppress(NotFound):
                await client.delete_subsystem(self._cluster, name)
            self._save(self._registered.with_subsystem(name, ""))
            log.info("the cluster changed: removed subsystem %s", name)
        for name, digest in now.subsystems.items():
            if self._registered.subsystems.get(name) != digest:
                await client.put_subsystem(self._cluster, name, documents.subsystems[name].encode())
                self._save(self._registered.with_subsystem(name, digest))
                log.info("the cluster changed: updated subsystem %s", name)

    def _save(self, registered_state: RegisteredState) -> None:
        self._registered = registered_state
        write_state(self._directory, registered_state)


async def register(options: AgentOptions, settings: ClientSettings) -> str:
    """Register the cluster; store its secret in the state directory and return it."""
    given = options.register != "auto"
    documents = ClusterDocuments(to_jgf(_read(options.register)), {}) if given else to_documents(look(options))
    text, directory = documents.graph, options.state_dir
    async with AsyncClient(settings=settings) as client:
        client.connection.on_unreachable = lambda seconds: log.warning("no server answers; tried for %.0f s", seconds)
        client.connection.outlast_restarts()  # the server may be starting too
        answer = await client.register(options.cluster, text.encode(), manager=options.backend)
    if answer.exists:
        raise AlreadyExists(
            f"cluster {options.cluster} is already registered; give its secret with --secret-file, or use another name"
        )
    write_private(directory, GRAPH_FILE, text)
    write_private(directory, TOKEN_FILE, answer.token)
    write_private(directory, SECRET_FILE, answer.secret)
    log.info("registered %s; its token for submitters is in %s", options.cluster, directory / TOKEN_FILE)
    if not given:
        # Subsystems that a crash leaves unsent are sent by the rediscovery.
        write_state(directory, RegisteredState(digest(text)))
        async with as_cluster(options, settings, answer.secret) as client:
            for name, subsystem in documents.subsystems.items():
                await client.put_subsystem(options.cluster, name, subsystem.encode())
        write_state(directory, documents.registered_state())
    return answer.secret


def as_cluster(options: AgentOptions, settings: ClientSettings, secret: str) -> AsyncClient:
    """Return a client that is authenticated as the cluster."""
    return AsyncClient(settings=replace(settings, cluster=options.cluster, cluster_secret=secret))


def rediscovery(options: AgentOptions, settings: ClientSettings, secret: Callable[[], str]) -> Rediscovery | None:
    """Return the periodic rediscovery; None if the graph is given or was not discovered here."""
    found_here = options.register == "auto" or (not options.register and read_state(options.state_dir) is not None)
    if not options.rediscover or options.graph or not found_here:
        return None
    return Rediscovery(
        options.cluster,
        lambda: look(options, strict=True),  # a part that does not answer is not removed
        lambda: as_cluster(options, settings, secret()),
        options.state_dir,
        options.rediscover,
    )


def graph_of(options: AgentOptions) -> Graph | None:
    """Return the graph for jobs: the given one, else the one registered from here, else None."""
    if options.graph:
        return _read(options.graph)
    if options.register and options.register != "auto":
        return _read(options.register)
    path = options.state_dir / GRAPH_FILE
    return _read(str(path)) if path.exists() else None


def look(options: AgentOptions, *, strict: bool = False) -> DiscoveredCluster:
    """Discover the cluster from its manager, or from the host if the backend has no discovery."""
    manager = options.backend if options.backend in MANAGERS else "host"
    return discover_cluster(options.cluster, manager, options.backend_options, strict=strict)


def _read(path: str) -> Graph:
    try:
        return read(Path(path).read_bytes())
    except OSError as problem:
        raise NotFound(f"cannot read the graph {path}: {problem.strerror}") from None
    except Invalid as problem:
        raise Invalid(f"the graph {path} is not usable: {problem}") from None
