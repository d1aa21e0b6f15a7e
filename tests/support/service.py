"""A real service over a real SQLite file, with a clock that stands still, for unit tests of the use cases."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.credential import CredentialKind, Principal
from rainbow_sched.model.job import Terms
from rainbow_sched.model.request import Count, Group, Level, Request, Task
from rainbow_sched.service.assembly import Service, assemble
from rainbow_sched.service.clusters import registration
from rainbow_sched.service.random_ids import Ids
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.submission.intake import Submission
from rainbow_sched.service.submission.new_jobs import Receipt
from rainbow_sched.store.factory import open_store
from tests.support.database import NAME, put_empty_database
from tests.support.manual_clock import ManualClock

ADMIN = Principal(name="admin", kind=CredentialKind.ADMIN, scopes=frozenset({"admin"}))


def a_user(name: str) -> Principal:
    """A caller who may submit anywhere and see their own jobs."""
    return Principal(
        name=name, kind=CredentialKind.USER, scopes=frozenset({"submit:*", "job:read:own", "job:cancel:own"})
    )


@contextlib.asynccontextmanager
async def a_service(
    folder: Path, *, settings: Settings | None = None, clock: ManualClock | None = None, seed: int = 1
) -> AsyncIterator[Service]:
    """Yield a service without background tasks: tests run `decide_pending()` and `timers.tick()` themselves."""
    await put_empty_database(folder)
    store = await open_store(f"sqlite:///{folder / NAME}")
    chosen = settings or Settings(policy="first")
    service = await assemble(store, chosen, clock or ManualClock(), Ids(Random(seed)), "a registration secret")
    try:
        yield service
    finally:
        await service.stop()


def a_graph(nodes: int = 2, cores: int = 4, gpus: int = 0, memory: int = 0) -> bytes:
    """A cluster in the compact form."""
    inside: list[dict[str, object]] = [{"type": "core", "count": cores}]
    if gpus:
        inside.append({"type": "gpu", "count": gpus})
    if memory:
        inside.append({"type": "memory", "size": memory, "unit": "MiB"})
    node = {"type": "node", "count": nodes, "name": f"n[0-{nodes - 1}]" if nodes > 1 else "n0", "with": inside}
    return json.dumps({"rainbow": "graph/1", "cluster": "c", "with": [node]}).encode()


async def with_cluster(service: Service, name: str, **shape: int) -> registration.ClusterCredentials:
    """Register a cluster of that shape."""
    made = await registration.register(service.core, name, a_graph(**shape))
    assert made is not None
    return made


def a_request(nodes: int = 1, cores: int = 1, gpus: int = 0) -> Request:
    """Nodes with cores in each."""
    inside = [Level(type="core", count=Count(cores))]
    if gpus:
        inside.append(Level(type="gpu", count=Count(gpus)))
    level = Level(type="node", count=Count(nodes), inside=tuple(inside))
    return Request(groups=(Group(levels=(level,)),), tasks=(Task(command=("true",)),))


def a_submission(owner: str = "ana", *, token: str = "", terms: Terms | None = None, **shape: int) -> Submission:
    """A job that asks for nodes with cores."""
    request = prepare(a_request(**shape))
    return Submission(owner=owner, request=request, name="job", client_token=token, terms=terms or Terms())


async def submit(service: Service, *submissions: Submission) -> list[Receipt]:
    """Submit together."""
    return await service.intake.submit(submissions)
