"""A real server on loopback: two clusters, a deleted one, jobs of several people, and credentials of every kind."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpc import aio

from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.model.credential import CredentialKind
from rainbow_sched.pb.v2 import clusters_pb2, jobs_pb2
from rainbow_sched.server.admission.limits import AdmissionLimits
from rainbow_sched.server.main import RunningServer
from rainbow_sched.server.options import ServerOptions
from rainbow_sched.service.access.principals import changed
from rainbow_sched.store.base import Tx
from tests.support.calls import bearer, upload
from tests.support.database import put_empty_database
from tests.support.service import a_graph, a_request

SECRET = "a-registration-secret-of-this-test"
OWN, OTHER, MISSING, DELETED = "own", "other", "missing", "deleted"
CASES = (OWN, OTHER, MISSING, DELETED)
CLUSTER_OF = {OWN: "alpha", OTHER: "beta", MISSING: "nowhere", DELETED: "gone"}
OWN_SCOPES = ("job:read:own", "job:cancel:own")

# Who calls. The dead ones are refused the same way everywhere; the others have something to their name.
DEAD = ("nonsense", "unknown", "revoked", "expired", "disabled", "spent-join", "agent-gone", "submit-gone")
ALIVE = (
    "registration",
    "join",
    "submit-alpha",
    "submit-beta",
    "agent-alpha",
    "agent-beta",
    "ana",
    "ana-narrow",
    "bob",
    "fellow",
    "auditor",
    "admin",
)
EVERYBODY = ("anonymous", *DEAD, *ALIVE)


@dataclass
class World:
    """The server, how to reach it, and what is in it."""

    running: RunningServer
    channel: aio.Channel
    credentials: dict[str, str]
    jobs: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)  # ids of tokens: own (ana's), other (bob's) ...

    def metadata(self, who: str) -> list[tuple[str, str]]:
        """How `who` names themselves."""
        credential = self.credentials[who]
        return bearer(credential) if credential else []

    async def snapshot(self) -> object:
        """Everything that a refused call must leave as it was."""

        def work(tx: Tx) -> object:
            jobs = [tx.job(self.jobs[case]) for case in (OWN, OTHER)]  # the third waits and may be decided anew
            clusters = [(c.name, c.standing, dict(c.state), tx.subsystems(c.id), dict(c.marks)) for c in tx.clusters()]
            credentials = [(c.id, c.revoked_at, c.uses_left, c.scopes) for c in tx.credentials()]
            return (jobs, clusters, credentials, tx.users(), tx.groups(), tx.sizes()["jobs"])

        return await self.running.service.core.store.read(work)


@contextlib.asynccontextmanager
async def a_world(folder: Path, **changes: Any) -> AsyncIterator[World]:
    """A running server with everything in it."""
    os.makedirs(folder, exist_ok=True)
    changes.setdefault("limits", AdmissionLimits(refused_rate=1_000, refused_burst=10_000))
    options = ServerOptions(
        listen="127.0.0.1:0", data_dir=folder, registration_secret=SECRET, policy="first", **changes
    )
    await put_empty_database(folder)
    running = await RunningServer.start(options)
    try:
        async with aio.insecure_channel(running.address) as channel:
            world = World(running, channel, {"anonymous": "", "registration": SECRET})
            await _populate(world, folder)
            yield world
    finally:
        await running.stop()


async def _populate(world: World, folder: Path) -> None:
    world.credentials["admin"] = (folder / "admin.token").read_text().strip()
    for name in ("alpha", "beta", "gone"):
        made = await register(world, name)
        world.credentials[f"agent-{name}"], world.credentials[f"submit-{name}"] = made.secret, made.token
        await put_subsystem(world, name)
    await _people(world)
    world.jobs[OWN] = await submit(world, "ana", "alpha")
    world.jobs[OTHER] = await submit(world, "bob", "beta")
    world.jobs[DELETED] = await submit(world, "carol", "gone")
    world.jobs[MISSING] = 999_999
    delete = world.channel.unary_unary(
        "/rainbow.v2.Clusters/Delete",
        clusters_pb2.DeleteClusterRequest.SerializeToString,
        clusters_pb2.DeleteClusterResponse.FromString,
    )
    await delete(clusters_pb2.DeleteClusterRequest(cluster="gone"), metadata=world.metadata("admin"))


async def _people(world: World) -> None:
    core = world.running.service.core
    now = core.clock.now()
    made = {
        "ana": ("ana", CredentialKind.USER, ("submit:alpha", *OWN_SCOPES), {}),
        "ana-narrow": ("ana", CredentialKind.USER, ("job:read:own",), {}),
        "bob": ("bob", CredentialKind.USER, ("submit:beta", *OWN_SCOPES), {}),
        "carol": ("carol", CredentialKind.USER, ("submit:*", *OWN_SCOPES), {}),
        "fellow": ("fellow", CredentialKind.USER, ("job:read:group", "job:cancel:own"), {}),
        "auditor": ("auditor", CredentialKind.USER, ("job:read:all",), {}),
        "revoked": ("ana", CredentialKind.USER, ("submit:alpha", *OWN_SCOPES), {}),
        "expired": ("ana", CredentialKind.USER, ("submit:alpha", *OWN_SCOPES), {"expires_at": now - 1}),
        "disabled": ("dora", CredentialKind.USER, ("submit:alpha", "admin", *OWN_SCOPES), {}),
        "join": ("admin", CredentialKind.JOIN, ("register:*",), {"uses_left": 1}),
        "spent-join": ("admin", CredentialKind.JOIN, ("register:*",), {"uses_left": 0}),
        "unknown": ("ana", CredentialKind.USER, ("admin",), {}),
    }
    drawn = {
        who: core.ids.credential(kind, owner, scopes, now, **more) for who, (owner, kind, scopes, more) in made.items()
    }

    def work(tx: Tx) -> None:
        for who, (_, stored) in drawn.items():
            if who != "unknown":
                tx.add_credential(stored)
        tx.revoke(drawn["revoked"][1].id, now)
        tx.put_group("lab", ("alpha",))
        tx.put_group("gpus", ("beta",))
        give(tx, "ana", ("lab",), ("submit:*",), now)
        give(tx, "bob", (), ("submit:*",), now)
        give(tx, "carol", (), ("submit:*",), now)
        give(tx, "fellow", ("lab",), ("job:read:group",), now)
        give(tx, "auditor", (), ("job:read:all",), now)
        give(tx, "dora", (), ("admin",), now, disabled=True)

    await core.store.write(work)
    world.credentials |= {who: text for who, (text, _) in drawn.items()} | {"nonsense": "let me in"}
    world.tokens = {OWN: drawn["ana-narrow"][1].id, OTHER: drawn["bob"][1].id, MISSING: "abcdefabcdef"}
    world.tokens[DELETED] = drawn["revoked"][1].id


def give(
    tx: Tx, name: str, groups: tuple[str, ...], rights: tuple[str, ...], now: float, disabled: bool = False
) -> None:
    """A user with rights of their own."""
    tx.put_user(name, now, groups=groups, rights=rights, disabled=disabled)
    changed(tx)


def end_at(tx: Tx, id: str, at: float) -> None:
    """Move the end of a replaced credential, which nothing else can move."""
    tx.db.run(f"UPDATE credentials SET ends_at = {at!r} WHERE id = '{id}'")  # type: ignore[attr-defined]


async def register(world: World, name: str) -> clusters_pb2.RegisterResponse:
    """A new cluster of two nodes."""
    call = world.channel.stream_unary(
        "/rainbow.v2.Clusters/Register",
        clusters_pb2.GraphUpload.SerializeToString,
        clusters_pb2.RegisterResponse.FromString,
    )
    made: clusters_pb2.RegisterResponse = await call(upload(name, a_graph()), metadata=world.metadata("registration"))
    return made


async def put_subsystem(world: World, name: str) -> None:
    """Give a cluster the subsystem `io`."""
    call = world.channel.stream_unary(
        "/rainbow.v2.Clusters/PutSubsystem",
        clusters_pb2.GraphUpload.SerializeToString,
        clusters_pb2.PutGraphResponse.FromString,
    )
    await call(upload(name, IO_GRAPH, subsystem="io"), metadata=world.metadata(f"agent-{name}"))


async def submit(world: World, who: str, cluster: str) -> int:
    """A held job of `who` that would go to `cluster`."""
    call = world.channel.unary_unary(
        "/rainbow.v2.Jobs/Submit",
        jobs_pb2.SubmitRequest.SerializeToString,
        jobs_pb2.SubmitResponse.FromString,
    )
    answer: jobs_pb2.SubmitResponse = await call(a_submit(cluster), metadata=world.metadata(who))
    assert answer.cluster == cluster
    return answer.id


def a_submit(cluster: str) -> jobs_pb2.SubmitRequest:
    """One node, on this cluster alone."""
    spec = jobs_pb2.Spec(canonical=to_json(a_request()))
    return jobs_pb2.SubmitRequest(name="job", spec=spec, terms=jobs_pb2.Terms(only_clusters=[cluster]))


IO_GRAPH = json.dumps(
    {
        "graph": {
            "nodes": {"io0": {"metadata": {"type": "io", "name": "io0"}}},
            "edges": [{"source": "1", "target": "io0", "metadata": {"relation": "contains"}}],
        }
    }
).encode()
