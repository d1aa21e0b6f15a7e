"""Registers the agent's own cluster when it has no credential yet, and remembers what came of it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from rainbow.agent.options import SECRET_FILE, AgentOptions, keep
from rainbow.client import AsyncClient
from rainbow.client.settings import Settings
from rainbow.discover.finding import MANAGERS, find
from rainbow.discover.host import Host
from rainbow.graphs.jgf_write import subsystem_to_jgf, to_jgf
from rainbow.graphs.reading import read
from rainbow.model.errors import AlreadyExists, NotFound
from rainbow.model.graph import Graph

log = logging.getLogger("rainbow.agent")
GRAPH_FILE = "graph.json"
TOKEN_FILE = "submit-token"


async def register(options: AgentOptions, settings: Settings) -> str:
    """Register the cluster; returns its secret, which is kept in the state directory."""
    host = _found(options)
    text = to_jgf(host.graph)
    async with AsyncClient(settings=settings) as client:
        answer = await client.register(options.cluster, text.encode(), manager=options.backend)
    if answer.exists:
        raise AlreadyExists(
            f"cluster {options.cluster} is registered already; give its secret with --secret-file, or take another name"
        )
    keep(options.state_dir, GRAPH_FILE, text)
    keep(options.state_dir, TOKEN_FILE, answer.token)
    keep(options.state_dir, SECRET_FILE, answer.secret)
    log.info("registered %s; its token for submitters is in %s", options.cluster, options.state_dir / TOKEN_FILE)
    own = replace(settings, cluster=options.cluster, cluster_secret=answer.secret)
    async with AsyncClient(settings=own) as client:
        for subsystem in host.subsystems:
            await client.put_subsystem(options.cluster, subsystem.name, subsystem_to_jgf(subsystem).encode())
    return answer.secret


def graph_of(options: AgentOptions) -> Graph | None:
    """The graph that jobs are run within: the one given, else the one registered from here, else None."""
    if options.graph:
        return _read(options.graph)
    if options.register and options.register != "auto":
        return _read(options.register)
    kept = options.state_dir / GRAPH_FILE
    return _read(str(kept)) if kept.exists() else None


def _found(options: AgentOptions) -> Host:
    if options.register != "auto":
        return Host(_read(options.register), ())
    manager = options.backend if options.backend in MANAGERS else "host"
    found = find(options.cluster, manager, options.backend_options)
    return Host(found.graph, found.subsystems)


def _read(path: str) -> Graph:
    try:
        return read(Path(path).read_bytes())
    except OSError as problem:
        raise NotFound(f"cannot read the graph {path}: {problem.strerror}") from None
