"""Backend `slurm`: runs jobs with sbatch, as the agent's user, from a login node.

Each job has a directory that its nodes can see (`files.py`) and carries its tag as name and comment. One `squeue`
reads all jobs, one `scontrol` all nodes. A job id is no proof of identity: Slurm reuses ids after a crash of its
controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import time
from dataclasses import replace
from pathlib import Path

from rainbow_sched.agent.backends.base import BackendSettings, CannotBind, Launch
from rainbow_sched.agent.backends.common.cached_facts import CachedFacts
from rainbow_sched.agent.backends.common.finished_tags import FinishedTags
from rainbow_sched.agent.backends.common.launches import TAG
from rainbow_sched.agent.backends.common.poll_interval import PollInterval
from rainbow_sched.agent.backends.common.submit_locks import SubmitLocks
from rainbow_sched.agent.backends.slurm.commands import SlurmCommands
from rainbow_sched.agent.backends.slurm.facts import MarkedNodes, make_facts
from rainbow_sched.agent.backends.slurm.files import ComponentRecord, SlurmFiles, SlurmRecord, hostlist
from rainbow_sched.agent.backends.slurm.jobs import SHOW_WAITING, JobComment, SlurmJob
from rainbow_sched.agent.backends.slurm.lost_jobs import AccountingQuery, LostJobs
from rainbow_sched.agent.backends.slurm.options import SITE
from rainbow_sched.agent.backends.slurm.partitions import unreachable
from rainbow_sched.agent.backends.slurm.queries import OPTIONS, SlurmQueries, SlurmQueue
from rainbow_sched.agent.backends.slurm.shape import RULES, SlurmShape
from rainbow_sched.agent.backends.slurm.tracker import choose, update_of
from rainbow_sched.agent.core.values import (
    ANY_HOST,
    Absent,
    AllowedHosts,
    BidAnswer,
    ClusterFacts,
    JobFound,
    Phase,
    Unknown,
    Update,
)
from rainbow_sched.discovery.slurm import check_conf
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.errors import Invalid, Unavailable, Unsupported
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.request import Request

_NODE_NAME = re.compile("invalid node name", re.IGNORECASE)
MAX_CONCURRENT = 4  # concurrent sbatch calls; more do not speed the controller up


class SlurmBackend:
    """A Slurm cluster."""

    guards_runs = False  # jobs cannot see whether the agent is alive

    def __init__(self, settings: BackendSettings) -> None:
        self.settings = settings
        settings.know(*OPTIONS, maps=SITE)
        options = settings.options
        self.root = Path(options.get("spool") or settings.directory / "jobs")
        conf = check_conf(options["conf"]) if options.get("conf") else ""
        self.commands = SlurmCommands(os.environ, conf=conf)
        self.questions = SlurmQueries(settings, self.commands)
        self.queue = SlurmQueue(self.commands, user=os.getuid(), cluster=settings.cluster)
        self._pace = PollInterval(cap=settings.seconds("interval", 10.0))
        self._locks = SubmitLocks(MAX_CONCURRENT)
        self._seen: dict[str, tuple[object, ...]] = {}
        self._facts = CachedFacts("slurm", settings.seconds("facts_interval", 30.0), time.monotonic)
        self._marked = MarkedNodes(settings.directory / "marked.json")
        self._finished = FinishedTags(settings.directory / "forgotten")
        settle = settings.seconds("settle", 60.0)
        self._lost_jobs = LostJobs(AccountingQuery(self.commands), settle, time.monotonic, time.time)

    @property
    def node_rules(self) -> NodeRules:
        """What Slurm can enforce; `one_group` says why this site runs no jobs of several groups."""
        reason = self.questions.no_groups
        return replace(RULES, groups=not reason, one_group=reason)

    async def start(self) -> None:
        """Read the cluster's configuration; if Slurm does not answer, it is read on first use."""
        self.settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._finished.read()
        with contextlib.suppress(Unavailable):
            await self.questions.site()

    # --- jobs ---

    async def submit(self, launch: Launch) -> str:
        """Submit a job with sbatch, unless Slurm has it."""
        async with self._locks.of(launch.tag):
            if not TAG.fullmatch(launch.tag):
                raise Unsupported(f"{launch.tag!r} is not the tag of an attempt")
            files = SlurmFiles(self.root, launch.tag)
            before = files.record()
            if before is not None:
                known = before.native or await self._submitted_before(launch.tag, files)
                if known:
                    return known
            asking = await self.questions.require(launch.request, launch.allowed)
            parts = tuple(_part(component.shape) for component in asking.components)
            record = SlurmRecord(
                key=secrets.token_hex(8), asked=time.time(), duration=launch.request.duration, parts=parts
            ).whole()
            await asyncio.to_thread(files.create, launch, record, asking.steps)
            native = await self._sbatch(files, record, asking.words)
            files.put(replace(record, native=native))
            self._pace.reset()
            return native

    async def _submitted_before(self, tag: str, files: SlurmFiles) -> str:
        """Return the id of a job whose submission may have failed; empty if Slurm does not have it."""
        job = choose(self.queue.ours(await self.queue.fresh()).get(tag, []), files)
        if job is None:
            return files.begun() or ""
        record = files.record()
        if record is not None:
            files.put(replace(record, native=job.id))
        return job.id

    async def _sbatch(self, files: SlurmFiles, record: SlurmRecord, words: tuple[str, ...]) -> str:
        await self.commands.check_controller()
        comment = JobComment(self.settings.cluster, files.tag, record.key)
        place = str(files.path).replace("%", "%%")  # sbatch expands % patterns
        done = await self.commands.run(
            *("sbatch", "--parsable", "--no-requeue", "--open-mode=append", "--export=ALL"),
            *(f"--job-name={files.tag}", f"--comment={comment}", f"--chdir={files.path}"),
            *(f"--output={place}/stdout", f"--error={place}/stderr"),
            *(*words, str(files.script)),
        )
        if done.code:
            problem = self.commands.problem(done)
            if isinstance(problem, Invalid):
                await asyncio.to_thread(files.remove)
                if record.only and _NODE_NAME.search(done.err):
                    self.questions.reshape(self.settings)
                    raise CannotBind(f"{problem}; the cluster's nodes have changed and will be read again")
            raise problem
        return done.out.strip().partition(";")[0]

    async def lookup(self, tag: str) -> JobFound | Absent | Unknown:
        """Return the job from Slurm or from its own files."""
        if tag in self._finished:
            return Absent()
        files = SlurmFiles(self.root, tag)
        try:
            jobs = self.queue.ours(await self.queue.fresh()).get(tag, [])
        except Unavailable as problem:
            return Unknown(str(problem))
        update = update_of(files, choose(jobs, files), time.time())
        if update is not None:
            return JobFound(update)
        return await self._lost_jobs.look(files)

    async def poll(self) -> tuple[Update, ...]:
        """Return every job of ours that Slurm lists or that left its exit code."""
        jobs = self.queue.ours(await self.queue.fresh())
        return await asyncio.to_thread(self._updates, jobs)

    def _updates(self, jobs: dict[str, list[SlurmJob]]) -> tuple[Update, ...]:
        names = {path.name for path in self.root.iterdir() if TAG.fullmatch(path.name)}
        found = []
        for tag in sorted((names | jobs.keys()) - self._finished.tags):
            files = SlurmFiles(self.root, tag)
            update = update_of(files, choose(jobs.get(tag, []), files), time.time())
            if update is not None:
                found.append(update)
        running = [update.tag for update in found if update.phase is Phase.RUNNING]
        self._seen = {tag: SlurmFiles(self.root, tag).change_marker() for tag in running}
        return tuple(found)

    async def changed(self) -> None:
        """Wait until the next poll; the interval is short after an action or output, then grows up to the maximum."""
        await self._pace.wait(
            lambda: any(SlurmFiles(self.root, tag).change_marker() != seen for tag, seen in self._seen.items())
        )

    async def cancel(self, tag: str) -> None:
        jobs = self.queue.ours(await self.queue.fresh()).get(tag, [])
        alive = [job.id for job in jobs if job.phase is not Phase.ENDED]
        if alive:
            SlurmFiles(self.root, tag).request_end()
            done = await self.commands.run("scancel", *alive)
            self._pace.reset()
            if done.code and isinstance(problem := self.commands.problem(done), Unavailable):
                raise problem

    async def output(self, tag: str, stream: str, offset: int, limit: int) -> bytes:
        return await asyncio.to_thread(SlurmFiles(self.root, tag).read, stream, offset, limit)

    # --- questions ---

    async def check(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> str | None:
        """Return what Slurm cannot express or could never run, or None."""
        return await self.questions.check(request, allowed)

    async def bid(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> BidAnswer:
        """Estimate start with `sbatch --test-only`, cost from the site's prices."""
        return await self.questions.bid(request, allowed)

    async def facts(self) -> ClusterFacts:
        """Return free and used resources, refreshed once per interval."""
        return await self._facts.get(self._look)

    async def _look(self) -> ClusterFacts:
        site = await self.questions.look_again()
        waiting = await self.commands.ask(*SHOW_WAITING)
        own = self._holdings(self.queue.ours(self.queue.last))
        queued = len({word.partition("+")[0] for word in waiting.split()})  # components of one job: 7+0 7+1
        state = {"queue_depth": queued, **self.settings.prices.state()}
        nodes = self.questions.nodes
        away = unreachable(site, nodes)
        found = await asyncio.to_thread(make_facts, site.graph, nodes, own, self._marked, state, away)
        found = replace(found, shape=site.shape)
        if self.settings.graph is None:
            return replace(found, marks={}, used=None)  # the server's graph may have other names
        return found

    def _holdings(self, jobs: dict[str, list[SlurmJob]]) -> list[tuple[SlurmJob, SlurmRecord]]:
        found = []
        for tag, same in jobs.items():
            record = SlurmFiles(self.root, tag).record() or SlurmRecord(key="", asked=0.0)
            for job in same:
                found += [(part, record.part(number)) for number, part in enumerate((job, *job.parts))]
        return found

    def reshape(self, graph: Graph) -> None:
        """Use another graph and read the cluster again."""
        self.settings = replace(self.settings, graph=graph)
        self.questions.reshape(self.settings)
        self._facts.expire()

    async def forget(self, tag: str) -> None:
        """Remove the job's directory; Slurm lists the job for a while, which is ignored."""
        self._finished.add(tag)
        self._lost_jobs.forget(tag)
        await asyncio.to_thread(SlurmFiles(self.root, tag).remove)

    async def close(self) -> None:
        """Do nothing: jobs continue in Slurm."""


def _part(found: SlurmShape) -> ComponentRecord:
    return ComponentRecord(
        gpus=found.gpus_per_node,
        cores=0 if found.exclusive else found.total_cores,
        memory=found.total_memory,
        only=hostlist(found.only),
    )


def make(settings: BackendSettings) -> SlurmBackend:
    return SlurmBackend(settings)
