"""Registration of the agent's cluster when it has no credential yet."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rainbow_sched.agent.runtime.rediscovery import (
    GRAPH_FILE,
    ClusterDocuments,
    Rediscovery,
    RegisteredState,
    RegisteredStateFile,
    digest,
    to_documents,
)
from rainbow_sched.agent.setup.options import SECRET_FILE, AgentOptions, write_private
from rainbow_sched.client.async_client import AsyncClient
from rainbow_sched.client.settings import ClientSettings
from rainbow_sched.discovery.finder import MANAGERS, DiscoveredCluster, discover_cluster
from rainbow_sched.graphs.formats.jgf.writer import to_jgf
from rainbow_sched.graphs.formats.reader import read
from rainbow_sched.model.errors import AlreadyExists, Invalid, NotFound
from rainbow_sched.model.graph import Graph

log = logging.getLogger("rainbow.agent")
TOKEN_FILE = "submit-token"


async def register(options: AgentOptions, settings: ClientSettings) -> str:
    """Register the cluster; store its secret in the state directory and return it."""
    given = options.register != "auto"
    documents = ClusterDocuments(to_jgf(_read(options.register)), {}) if given else to_documents(look(options))
    text, file = documents.graph, RegisteredStateFile(options.state_dir)
    async with AsyncClient(settings=settings) as client:
        client.connection.on_unreachable = lambda seconds: log.warning("no server answers; tried for %.0f s", seconds)
        client.connection.outlast_restarts()  # the server may be starting too
        answer = await client.register(options.cluster, text.encode(), manager=options.backend)
    if answer.exists:
        raise AlreadyExists(
            f"cluster {options.cluster} is already registered; give its secret with --secret-file, or use another name"
        )
    file.store_graph(text)
    write_private(options.state_dir, TOKEN_FILE, answer.token)
    write_private(options.state_dir, SECRET_FILE, answer.secret)
    log.info("registered %s; its token for submitters is in %s", options.cluster, options.state_dir / TOKEN_FILE)
    if not given:
        file.write(RegisteredState(digest(text)))  # subsystems that a crash leaves unsent are sent by the rediscovery
        async with as_cluster(options, settings, answer.secret) as client:
            for name, subsystem in documents.subsystems.items():
                await client.put_subsystem(options.cluster, name, subsystem.encode())
        file.write(documents.registered_state())
    return answer.secret


def as_cluster(options: AgentOptions, settings: ClientSettings, secret: str) -> AsyncClient:
    """Return a client that is authenticated as the cluster."""
    return AsyncClient(settings=replace(settings, cluster=options.cluster, cluster_secret=secret))


def rediscovery(options: AgentOptions, settings: ClientSettings, secret: Callable[[], str]) -> Rediscovery | None:
    """Return the periodic rediscovery; None if the graph is given or was not discovered here."""
    file = RegisteredStateFile(options.state_dir)
    found_here = options.register == "auto" or (not options.register and file.read() is not None)
    if not options.rediscover or options.graph or not found_here:
        return None
    return Rediscovery(
        options.cluster,
        lambda: look(options, strict=True),  # a part that does not answer is not removed
        lambda: as_cluster(options, settings, secret()),
        file,
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
