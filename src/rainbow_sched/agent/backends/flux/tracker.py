"""Find an attempt's Flux job, and combine Flux's state with the job's own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rainbow_sched.agent.backends.common.batch import first_job
from rainbow_sched.agent.backends.common.batch_script import ALREADY_RAN
from rainbow_sched.agent.backends.common.exit_results import exited
from rainbow_sched.agent.backends.common.host_binding import wrong_nodes
from rainbow_sched.agent.backends.flux.commands import FluxCommands
from rainbow_sched.agent.backends.flux.files import FluxFiles
from rainbow_sched.agent.backends.flux.jobs import FluxJob, parse_jobs, result
from rainbow_sched.agent.core.values import Phase, Update
from rainbow_sched.discovery.flux import FluxNode
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hostlist import collapse


async def by_tag(commands: FluxCommands, files: FluxFiles, cluster: str) -> FluxJob | None:
    """Return the job with this tag, verified by its key or cluster."""
    text = await commands.ask("jobs", "-a", "--json", "--count=0", f"--name={files.tag}")
    record = files.record()
    same = []
    for job in parse_jobs(text):
        mark = await _mark(commands, job)
        if mark.get("cluster") == cluster and (record is None or mark.get("key") == record.key):
            same.append(job)
    return first_job(same, files.begun())


async def _mark(commands: FluxCommands, job: FluxJob) -> Mapping[str, object]:
    """Return Rainbow's attributes of a job; empty if it is not ours."""
    try:
        document = await commands.document("job", "info", job.native, "jobspec")
        attributes = document["attributes"]
        found = attributes["user"]["rainbow"] if isinstance(attributes, dict) else {}
    except (Invalid, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def update_of(files: FluxFiles, job: FluxJob | None, nodes: Sequence[FluxNode] = ()) -> Update | None:
    """Return the attempt's state; None if neither Flux nor the files have it. `nodes`: the instance's, for names."""
    if job is None:
        return _from_files(files)
    ended = None
    if job.phase is Phase.ENDED:
        if job.code == ALREADY_RAN and files.begun() not in (None, job.native):
            return None  # a repeated submission that did not run
        record, got = files.recorded(), files.wrong_nodes()
        if got is not None and job.result != "CANCELED":
            ended = wrong_nodes(got or _node_list(job, nodes), record.only, "Flux", job.ended)
        else:
            ended = result(
                job, limit=record.duration, problem_text=files.problem_text(), began=files.begun() is not None
            )
    return Update(
        tag=files.tag,
        phase=job.phase,
        native=job.native,
        result=ended,
        started_at=job.started,
        sizes=files.sizes(),
        nodes=_node_list(job, nodes) if job.phase is not Phase.SUBMITTED else "",
    )


def _node_list(job: FluxJob, nodes: Sequence[FluxNode]) -> str:
    """Return a job's nodes as a hostlist: from Flux, else by its ranks."""
    ranks = frozenset(job.on)
    return job.node_list or collapse([node.name for node in nodes if node.rank in ranks]) or ""


def _from_files(files: FluxFiles) -> Update | None:
    """Return the state of a job that Flux has purged, from the exit codes of its tasks."""
    begun, code, got = files.begun(), files.exit_code(), files.wrong_nodes()
    if begun is None or (code is None and got is None):
        return None
    ended = wrong_nodes(got or "", files.recorded().only, "Flux") if code is None else exited(code)
    return Update(tag=files.tag, phase=Phase.ENDED, native=begun, result=ended, sizes=files.sizes())
