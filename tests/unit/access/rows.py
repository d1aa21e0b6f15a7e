"""The expected answer to every RPC, from every kind of caller, about every kind of object; said anew, not derived."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from rainbow_sched.pb.prototype import memory_pb2, rainbow_pb2
from rainbow_sched.pb.v2 import access_pb2, agents_pb2, clusters_pb2, jobs_pb2
from tests.support.calls import upload
from tests.support.service import a_graph
from tests.unit.access.world import CLUSTER_OF, DELETED, IO_GRAPH, MISSING, OTHER, OWN, World, a_submit

OK, UNAUTHENTICATED, DENIED, NOT_FOUND = "OK", "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND"
PRECONDITION, SILENT = "FAILED_PRECONDITION", "DEADLINE_EXCEEDED"
EXISTING = (OWN, OTHER)
Send = Callable[[World, str, str], Any]
Expect = Callable[[str, str], str]
Check = Callable[[World, str, str, Any], None]

SUBMITS = {
    "ana": {OWN},
    "submit-alpha": {OWN},
    "bob": {OTHER},
    "submit-beta": {OTHER},
    "admin": {OWN, OTHER, MISSING, DELETED},
}
READS = {
    "ana": {OWN},
    "ana-narrow": {OWN},
    "fellow": {OWN},
    "agent-alpha": {OWN},
    "bob": {OTHER},
    "agent-beta": {OTHER},
    "auditor": {OWN, OTHER, DELETED},
    "admin": {OWN, OTHER, DELETED},
}
CANCELS = {"ana": {OWN}, "bob": {OTHER}, "admin": {OWN, OTHER, DELETED}}
SEES = {
    "ana": {OWN},
    "submit-alpha": {OWN},
    "agent-alpha": {OWN},
    "bob": {OTHER},
    "submit-beta": {OTHER},
    "agent-beta": {OTHER},
    "admin": {OWN, OTHER},
}
SPEAKS_FOR = {"agent-alpha": {OWN}, "agent-beta": {OTHER}}
USERS = {OWN: "ana", OTHER: "bob", MISSING: "ines", DELETED: "dora"}
PEOPLE = {"ana": {OWN}, "ana-narrow": {OWN}, "bob": {OTHER}}
GROUPS = {OWN: "lab", OTHER: "gpus", MISSING: "no-such", DELETED: "never"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One RPC: what is sent about an object, and what a live caller must be answered."""

    send: Send
    expect: Expect
    check: Check | None = None  # what an OK must and must not hold
    in_message: bool = False  # the credential is in the message
    changes: bool = False  # an OK changes the world: the next cell gets a new one
    anonymous: str = UNAUTHENTICATED
    dead: str = UNAUTHENTICATED


def anyone(who: str, case: str) -> str:
    """Every live caller."""
    return OK


def nobody(who: str, case: str) -> str:
    """No caller at all."""
    return UNAUTHENTICATED


def administrators(who: str, case: str) -> str:
    """Administrators alone."""
    return OK if who == "admin" else DENIED


def of_cluster(who: str, case: str) -> str:
    """The cluster's own agent and administrators; to all others an unknown name and a known one look alike."""
    if who == "admin":
        return OK if case in EXISTING else NOT_FOUND
    return OK if case in SPEAKS_FOR.get(who, ()) else DENIED


def registering(who: str, case: str) -> str:
    """Who holds a right to register; a taken name is said so inside the answer."""
    return OK if who in ("registration", "join", "admin") else DENIED


def submitting(who: str, case: str) -> str:
    """Whoever may submit anywhere; where it may not, the check looks at."""
    return OK if who in SUBMITS else DENIED


def among(table: dict[str, set[str]], otherwise: str = NOT_FOUND, yes: str = OK) -> Expect:
    """The pairs of a table; the rest is answered like what does not exist."""
    return lambda who, case: yes if case in table.get(who, ()) else otherwise


def changing_user(who: str, case: str) -> str:
    """Administrators; a missing user is missing."""
    return DENIED if who != "admin" else NOT_FOUND if case == MISSING else OK


def changing_group(who: str, case: str) -> str:
    """Administrators; a missing group is missing."""
    return DENIED if who != "admin" else OK if case in EXISTING else NOT_FOUND


def making_token(who: str, case: str) -> str:
    """People for themselves, administrators for anybody."""
    if who == "admin":
        return NOT_FOUND if case == MISSING else OK
    return OK if case in PEOPLE.get(who, ()) else DENIED


def ending_token(who: str, case: str) -> str:
    """Its owner by a token that opens as much, or an administrator; of a dead token nobody."""
    if who == "admin":
        return OK if case in EXISTING else NOT_FOUND
    return OK if case in PEOPLE.get(who, ()) else NOT_FOUND


def prototype_submit(who: str, case: str) -> str:
    """The token must open the cluster that is named with it."""
    if who == "admin" and case not in EXISTING:
        return PRECONDITION  # may, but there is no such cluster
    return OK if case in SUBMITS.get(who, ()) else DENIED


def _job(world: World, case: str) -> int:
    return world.jobs[case]


def _plan(world: World, case: str, who: str) -> Any:
    return jobs_pb2.PlanRequest(spec=a_submit("alpha").spec, reasons=True)


def _bound_only_where_opened(world: World, case: str, who: str, answer: Any) -> None:
    answer = answer.jobs[0] if hasattr(answer, "jobs") else answer
    opened = case in SUBMITS[who] and case in EXISTING
    assert answer.cluster == (CLUSTER_OF[case] if opened else ""), (who, case, answer)


def _tells_of_nothing_closed(world: World, case: str, who: str, answer: Any) -> None:
    for other in EXISTING:
        if other not in SUBMITS[who]:
            assert CLUSTER_OF[other] not in answer.decision + answer.explanations, (who, other)


def _lists_visible_jobs(world: World, case: str, who: str, answer: Any) -> None:
    listed = {job.id for job in answer.jobs}
    assert (world.jobs[case] in listed) == (case in READS.get(who, ())), (who, case, listed)


def _lists_visible_clusters(world: World, case: str, who: str, answer: Any) -> None:
    listed = {cluster.name for cluster in answer.clusters}
    assert (CLUSTER_OF[case] in listed) == (case in SEES.get(who, ())), (who, case, listed)


def _lists_own_tokens(world: World, case: str, who: str, answer: Any) -> None:
    owners = {token.owner for token in answer.tokens}
    allowed = {USERS[case]} if who == "admin" or case in PEOPLE.get(who, ()) else set()
    assert owners <= allowed, (who, case, owners)
    assert "rbw_" not in str(answer)


def _secret(world: World, who: str) -> str:
    return world.credentials[who]


def _graph(world: World, case: str, who: str) -> Any:
    return list(upload(CLUSTER_OF[case], a_graph()))


def _io(world: World, case: str, who: str) -> Any:
    return list(upload(CLUSTER_OF[case], IO_GRAPH, subsystem="io"))


def _sync(world: World, case: str, who: str) -> Any:
    seq = list(SPEAKS_FOR | SUBMITS).index(who) + 1 if who in SPEAKS_FOR or who in SUBMITS else 1
    return agents_pb2.SyncRequest(cluster=CLUSTER_OF[case], epoch="one agent", seq=seq)


def _submit_job(world: World, case: str, who: str) -> Any:
    entry = rainbow_pb2.SubmitJobRequest.Cluster(name=CLUSTER_OF[case], token=_secret(world, who))
    return rainbow_pb2.SubmitJobRequest(clusters=[entry], jobspec=JOBSPEC, satisfy_only=True)


JOBSPEC = json.dumps(
    {
        "version": 1,
        "resources": {"n": {"type": "node", "count": 1}},
        "tasks": [{"command": ["true"], "resources": "n"}],
    }
)
_OURS, _THEIRS = "/rainbow.v2.", "/convergedcomputing.org.grpc.v1.RainbowScheduler/"
_MARKS = {"n0": "down"}

ROWS: dict[str, Row] = {
    f"{_OURS}Jobs/Submit": Row(
        send=lambda w, c, who: a_submit(CLUSTER_OF[c]), expect=submitting, check=_bound_only_where_opened
    ),
    f"{_OURS}Jobs/SubmitBatch": Row(
        send=lambda w, c, who: jobs_pb2.SubmitBatchRequest(jobs=[a_submit(CLUSTER_OF[c])]),
        expect=submitting,
        check=_bound_only_where_opened,
    ),
    f"{_OURS}Jobs/Plan": Row(send=_plan, expect=submitting, check=_tells_of_nothing_closed),
    f"{_OURS}Jobs/Get": Row(
        send=lambda w, c, who: jobs_pb2.GetJobRequest(id=_job(w, c), spec=True), expect=among(READS)
    ),
    f"{_OURS}Jobs/List": Row(
        send=lambda w, c, who: jobs_pb2.ListJobsRequest(), expect=anyone, check=_lists_visible_jobs
    ),
    f"{_OURS}Jobs/Watch": Row(
        send=lambda w, c, who: jobs_pb2.WatchRequest(filter=jobs_pb2.JobFilter(ids=[_job(w, c)])),
        expect=among(READS, SILENT),
    ),
    f"{_OURS}Jobs/Logs": Row(send=lambda w, c, who: jobs_pb2.LogsRequest(id=_job(w, c)), expect=among(READS)),
    f"{_OURS}Jobs/Cancel": Row(
        send=lambda w, c, who: jobs_pb2.CancelRequest(ids=[_job(w, c)]), expect=among(CANCELS), changes=True
    ),
    f"{_OURS}Jobs/Release": Row(
        send=lambda w, c, who: jobs_pb2.ReleaseRequest(id=_job(w, c)), expect=among(CANCELS, yes=PRECONDITION)
    ),
    f"{_OURS}Jobs/Explain": Row(send=lambda w, c, who: jobs_pb2.ExplainRequest(id=_job(w, c)), expect=among(READS)),
    f"{_OURS}Clusters/Register": Row(send=_graph, expect=registering, changes=True),
    f"{_OURS}Clusters/PutSubsystem": Row(send=_io, expect=of_cluster),
    f"{_OURS}Clusters/ReplaceGraph": Row(send=_graph, expect=of_cluster),
    f"{_OURS}Clusters/DeleteSubsystem": Row(
        send=lambda w, c, who: clusters_pb2.DeleteSubsystemRequest(cluster=CLUSTER_OF[c], subsystem="io"),
        expect=of_cluster,
        changes=True,
    ),
    f"{_OURS}Clusters/Delete": Row(
        send=lambda w, c, who: clusters_pb2.DeleteClusterRequest(cluster=CLUSTER_OF[c]),
        expect=of_cluster,
        changes=True,
    ),
    f"{_OURS}Clusters/UpdateState": Row(
        send=lambda w, c, who: clusters_pb2.UpdateStateRequest(cluster=CLUSTER_OF[c], values='{"nodes_free": 1}'),
        expect=of_cluster,
    ),
    f"{_OURS}Clusters/PatchGraph": Row(
        send=lambda w, c, who: clusters_pb2.PatchGraphRequest(cluster=CLUSTER_OF[c], marks=_MARKS), expect=of_cluster
    ),
    f"{_OURS}Clusters/List": Row(
        send=lambda w, c, who: clusters_pb2.ListClustersRequest(), expect=anyone, check=_lists_visible_clusters
    ),
    f"{_OURS}Clusters/Get": Row(
        send=lambda w, c, who: clusters_pb2.GetClusterRequest(cluster=CLUSTER_OF[c], tree=True), expect=among(SEES)
    ),
    f"{_OURS}Clusters/Drain": Row(
        send=lambda w, c, who: clusters_pb2.DrainRequest(cluster=CLUSTER_OF[c]), expect=of_cluster
    ),
    f"{_OURS}Clusters/Undrain": Row(
        send=lambda w, c, who: clusters_pb2.UndrainRequest(cluster=CLUSTER_OF[c]), expect=of_cluster
    ),
    f"{_OURS}Clusters/SetRules": Row(
        send=lambda w, c, who: clusters_pb2.SetRulesRequest(cluster=CLUSTER_OF[c], max_nodes=4), expect=of_cluster
    ),
    f"{_OURS}Clusters/GetRestore": Row(
        send=lambda w, c, who: clusters_pb2.GetRestoreRequest(),
        expect=lambda who, case: DENIED if who != "admin" else NOT_FOUND,  # it never was restored
    ),
    f"{_OURS}Clusters/GiveUpReport": Row(
        send=lambda w, c, who: clusters_pb2.GiveUpReportRequest(cluster=CLUSTER_OF[c]),
        expect=lambda who, case: DENIED if who != "admin" else PRECONDITION if case in EXISTING else NOT_FOUND,
    ),
    f"{_OURS}Agents/Sync": Row(send=_sync, expect=of_cluster),
    f"{_OURS}Agents/Receive": Row(
        send=lambda w, c, who: agents_pb2.ReceiveRequest(cluster=CLUSTER_OF[c]), expect=of_cluster
    ),
    f"{_OURS}Agents/Accept": Row(
        send=lambda w, c, who: agents_pb2.AcceptRequest(
            cluster=CLUSTER_OF[c], attempts=[agents_pb2.AttemptRef(job=w.jobs[OWN], n=1)]
        ),
        expect=lambda who, case: OK if who == "admin" else of_cluster(who, case),  # accepts nothing of nowhere
    ),
    f"{_OURS}Agents/Renew": Row(
        send=lambda w, c, who: agents_pb2.RenewRequest(cluster=CLUSTER_OF[c], id="abcdefghijkl", digest=b"d" * 32),
        expect=among(SPEAKS_FOR, DENIED),  # an administrator has other ways, and is no agent
        changes=True,
    ),
    f"{_OURS}Access/WhoAmI": Row(send=lambda w, c, who: access_pb2.WhoAmIRequest(), expect=anyone),
    f"{_OURS}Access/PutUser": Row(
        send=lambda w, c, who: access_pb2.PutUserRequest(name=USERS[c], disabled=True),
        expect=changing_user,
        changes=True,
    ),
    f"{_OURS}Access/ListUsers": Row(send=lambda w, c, who: access_pb2.ListUsersRequest(), expect=administrators),
    f"{_OURS}Access/PutGroup": Row(
        send=lambda w, c, who: access_pb2.PutGroupRequest(name=GROUPS[c]), expect=changing_group, changes=True
    ),
    f"{_OURS}Access/ListGroups": Row(send=lambda w, c, who: access_pb2.ListGroupsRequest(), expect=administrators),
    f"{_OURS}Access/CreateToken": Row(
        send=lambda w, c, who: access_pb2.CreateTokenRequest(owner=USERS[c], scopes=["job:read:own"]),
        expect=making_token,
    ),
    f"{_OURS}Access/ListTokens": Row(
        send=lambda w, c, who: access_pb2.ListTokensRequest(owner=USERS[c], dead=True),
        expect=anyone,
        check=_lists_own_tokens,
    ),
    f"{_OURS}Access/RevokeToken": Row(
        send=lambda w, c, who: access_pb2.RevokeTokenRequest(id=w.tokens[c]), expect=ending_token, changes=True
    ),
    f"{_OURS}Access/RotateToken": Row(
        send=lambda w, c, who: access_pb2.RotateTokenRequest(id=w.tokens[c]), expect=ending_token, changes=True
    ),
    f"{_OURS}Access/AskRenewal": Row(
        send=lambda w, c, who: access_pb2.AskRenewalRequest(cluster=CLUSTER_OF[c]),
        expect=lambda who, case: DENIED if who != "admin" else OK if case in EXISTING else NOT_FOUND,
    ),
    f"{_OURS}Access/ReadAudit": Row(
        send=lambda w, c, who: access_pb2.ReadAuditRequest(verify=True), expect=administrators
    ),
    f"{_THEIRS}Register": Row(
        send=lambda w, c, who: rainbow_pb2.RegisterRequest(
            name=CLUSTER_OF[c], secret=_secret(w, who), nodes=a_graph().decode()
        ),
        expect=registering,
        in_message=True,
        changes=True,
    ),
    f"{_THEIRS}RegisterSubsystem": Row(
        send=lambda w, c, who: rainbow_pb2.RegisterRequest(
            name=CLUSTER_OF[c], secret=_secret(w, who), nodes=IO_GRAPH.decode(), subsystem="new"
        ),
        expect=of_cluster,
        in_message=True,
        changes=True,
    ),
    f"{_THEIRS}Delete": Row(
        send=lambda w, c, who: rainbow_pb2.DeleteRequest(name=CLUSTER_OF[c], secret=_secret(w, who)),
        expect=of_cluster,
        in_message=True,
        changes=True,
    ),
    f"{_THEIRS}DeleteSubsystem": Row(
        send=lambda w, c, who: rainbow_pb2.DeleteRequest(name=CLUSTER_OF[c], secret=_secret(w, who), subsytem="io"),
        expect=of_cluster,
        in_message=True,
        changes=True,
    ),
    f"{_THEIRS}UpdateState": Row(
        send=lambda w, c, who: rainbow_pb2.UpdateStateRequest(
            cluster=CLUSTER_OF[c], secret=_secret(w, who), payload='{"cost": 2}'
        ),
        expect=of_cluster,
        in_message=True,
    ),
    f"{_THEIRS}SubmitJob": Row(send=_submit_job, expect=prototype_submit, in_message=True),
    f"{_THEIRS}ReceiveJobs": Row(
        send=lambda w, c, who: rainbow_pb2.ReceiveJobsRequest(cluster=CLUSTER_OF[c], secret=_secret(w, who)),
        expect=of_cluster,
        in_message=True,
    ),
    f"{_THEIRS}AcceptJobs": Row(
        send=lambda w, c, who: rainbow_pb2.AcceptJobsRequest(
            cluster=CLUSTER_OF[c], secret=_secret(w, who), jobids=[w.jobs[OWN]]
        ),
        expect=lambda who, case: OK if who == "admin" else of_cluster(who, case),
        in_message=True,
    ),
    "/service.MemoryGraph/Satisfy": Row(
        send=lambda w, c, who: memory_pb2.SatisfyRequest(payload=JOBSPEC), expect=anyone, anonymous=OK
    ),
    "/service.MemoryGraph/Register": Row(
        send=lambda w, c, who: memory_pb2.RegisterRequest(name=CLUSTER_OF[c], payload="{}"), expect=nobody
    ),
    "/grpc.health.v1.Health/Check": Row(
        send=lambda w, c, who: health_pb2.HealthCheckRequest(), expect=anyone, anonymous=OK, dead=OK
    ),
    "/grpc.health.v1.Health/Watch": Row(
        send=lambda w, c, who: health_pb2.HealthCheckRequest(), expect=anyone, anonymous=OK, dead=OK
    ),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Row(
        send=lambda w, c, who: [reflection_pb2.ServerReflectionRequest(list_services="")], expect=anyone
    ),
}
