"""Backend `slurm`: runs jobs through sbatch on the cluster whose login node the agent runs on, as the agent's user.

Every job lies in a directory that its nodes can see (`slurm_files.py`) and carries its tag
as name and comment. One `squeue` answers for all jobs, one `scontrol` for all nodes. An id
alone proves nothing: Slurm gives ids out again after a crash of its controller.
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

from rainbow.agent.backends.base import BackendSettings, CannotBind, Launch
from rainbow.agent.backends.kept_facts import KeptFacts
from rainbow.agent.backends.launches import TAG
from rainbow.agent.backends.pace import Pace
from rainbow.agent.backends.slurm_accounts import Accounts
from rainbow.agent.backends.slurm_commands import SlurmCommands
from rainbow.agent.backends.slurm_facts import MarkedNodes, make_facts
from rainbow.agent.backends.slurm_files import Part, Record, SlurmFiles, hostlist
from rainbow.agent.backends.slurm_forgotten import Forgotten
from rainbow.agent.backends.slurm_jobs import SHOW_WAITING, Comment, SlurmJob
from rainbow.agent.backends.slurm_options import SITE
from rainbow.agent.backends.slurm_partitions import unreachable
from rainbow.agent.backends.slurm_questions import OPTIONS, SlurmQuestions
from rainbow.agent.backends.slurm_queue import SlurmQueue
from rainbow.agent.backends.slurm_shape import RULES, Shape
from rainbow.agent.backends.slurm_tracking import choose, update_of
from rainbow.agent.backends.tombstones import Tombstones
from rainbow.agent.backends.turns import Turns
from rainbow.agent.values import ANY_HOST, Absent, AllowedHosts, BidAnswer, Facts, Found, Phase, Unknown, Update
from rainbow.discover.slurm import (
    check_conf,
)
from rainbow.model.binding import NodeRules
from rainbow.model.errors import Invalid, Unavailable, Unsupported
from rainbow.model.graph import Graph
from rainbow.model.request import Request

_NODE_NAME = re.compile("invalid node name", re.IGNORECASE)
AT_ONCE = 4  # calls of sbatch: more do not make a controller faster


class SlurmBackend:
    """One Slurm cluster."""

    guards_runs = False  # its jobs do not see whether the agent lives

    def __init__(self, settings: BackendSettings) -> None:
        self.settings = settings
        settings.know(*OPTIONS, maps=SITE)
        options = settings.options
        self.root = Path(options.get("spool") or settings.directory / "jobs")
        conf = check_conf(options["conf"]) if options.get("conf") else ""
        self.commands = SlurmCommands(os.environ, conf=conf)
        self.questions = SlurmQuestions(settings, self.commands)
        self.queue = SlurmQueue(self.commands, user=os.getuid(), cluster=settings.cluster)
        self._pace = Pace(cap=settings.seconds("interval", 10.0))
        self._turns = Turns(AT_ONCE)
        self._seen: dict[str, tuple[object, ...]] = {}
        self._facts = KeptFacts("slurm", settings.seconds("facts_interval", 30.0), time.monotonic)
        self._marked = MarkedNodes(settings.directory / "marked.json")
        self._gone = Tombstones(settings.directory / "forgotten")
        settle = settings.seconds("settle", 60.0)
        self._forgotten = Forgotten(Accounts(self.commands), settle, time.monotonic, time.time)

    @property
    def node_rules(self) -> NodeRules:
        """What Slurm can be told, and why it takes no job of several groups once that is known."""
        reason = self.questions.no_groups
        return replace(RULES, groups=not reason, one_group=reason)

    async def start(self) -> None:
        """Find out what the cluster is; if it does not answer now, it is asked again when it is needed."""
        self.settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._gone.read()
        with contextlib.suppress(Unavailable):
            await self.questions.site()

    # --- jobs ---

    async def submit(self, launch: Launch) -> str:
        """Hand a job to sbatch, unless Slurm has it already."""
        async with self._turns.of(launch.tag):
            if not TAG.fullmatch(launch.tag):
                raise Unsupported(f"{launch.tag!r} is no tag of an attempt")
            files = SlurmFiles(self.root, launch.tag)
            before = files.record()
            if before is not None:
                known = before.native or await self._submitted_before(launch.tag, files)
                if known:
                    return known
            asking = await self.questions.require(launch.request, launch.allowed)
            parts = tuple(_part(component.shape) for component in asking.components)
            record = Record(
                key=secrets.token_hex(8), asked=time.time(), duration=launch.request.duration, parts=parts
            ).whole()
            await asyncio.to_thread(files.create, launch, record, asking.steps)
            native = await self._sbatch(files, record, asking.words)
            files.put(replace(record, native=native))
            self._pace.hurry()
            return native

    async def _submitted_before(self, tag: str, files: SlurmFiles) -> str:
        """The id of a job that was submitted without our knowing whether Slurm took it; empty if it did not."""
        job = choose(self.queue.ours(await self.queue.fresh()).get(tag, []), files)
        if job is None:
            return files.begun() or ""
        record = files.record()
        if record is not None:
            files.put(replace(record, native=job.id))
        return job.id

    async def _sbatch(self, files: SlurmFiles, record: Record, words: tuple[str, ...]) -> str:
        await self.commands.awake()
        comment = Comment(self.settings.cluster, files.tag, record.key)
        place = str(files.path).replace("%", "%%")  # Slurm has meanings of its own for %
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
                    raise CannotBind(f"{problem}; the nodes of the cluster have changed, and are asked for again")
            raise problem
        return done.out.strip().partition(";")[0]

    async def lookup(self, tag: str) -> Found | Absent | Unknown:
        """What Slurm and the job's own files know of a tag."""
        if tag in self._gone:
            return Absent()
        files = SlurmFiles(self.root, tag)
        try:
            jobs = self.queue.ours(await self.queue.fresh()).get(tag, [])
        except Unavailable as problem:
            return Unknown(str(problem))
        update = update_of(files, choose(jobs, files), time.time())
        if update is not None:
            return Found(update)
        return await self._forgotten.look(files)

    async def poll(self) -> tuple[Update, ...]:
        """Every job that was submitted here, if Slurm knows it or it left its exit code behind.

        Without a record a listed job may be one of an earlier agent, with the same tag: only `lookup` finds it.
        """
        jobs = self.queue.ours(await self.queue.fresh())
        return await asyncio.to_thread(self._updates, jobs)

    def _updates(self, jobs: dict[str, list[SlurmJob]]) -> tuple[Update, ...]:
        names = {path.name for path in self.root.iterdir() if TAG.fullmatch(path.name)}
        found = []
        for tag in sorted(names - self._gone.tags):
            files = SlurmFiles(self.root, tag)
            if files.record() is None:
                continue
            update = update_of(files, choose(jobs.get(tag, []), files), time.time())
            if update is not None:
                found.append(update)
        running = [update.tag for update in found if update.phase is Phase.RUNNING]
        self._seen = {tag: SlurmFiles(self.root, tag).signs() for tag in running}
        return tuple(found)

    async def changed(self) -> None:
        """Soon after something was done or a running job wrote something, then ever more seldom up to the interval."""
        await self._pace.wait(
            lambda: any(SlurmFiles(self.root, tag).signs() != seen for tag, seen in self._seen.items())
        )

    async def cancel(self, tag: str) -> None:
        """End a job, found by its tag."""
        jobs = self.queue.ours(await self.queue.fresh()).get(tag, [])
        alive = [job.id for job in jobs if job.phase is not Phase.ENDED]
        if alive:
            SlurmFiles(self.root, tag).ask_to_end()
            done = await self.commands.run("scancel", *alive)
            self._pace.hurry()
            if done.code and isinstance(problem := self.commands.problem(done), Unavailable):
                raise problem

    async def output(self, tag: str, stream: str, offset: int, limit: int) -> bytes:
        """A piece of a job's output, from its file."""
        return await asyncio.to_thread(SlurmFiles(self.root, tag).read, stream, offset, limit)

    # --- questions ---

    async def check(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> str | None:
        """What Slurm cannot be told, and what it could never run."""
        return await self.questions.check(request, allowed)

    async def bid(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> BidAnswer:
        """By `sbatch --test-only`, and by the prices of this site."""
        return await self.questions.bid(request, allowed)

    async def facts(self) -> Facts:
        """What is free and what others use, asked for at most once per interval."""
        return await self._facts.get(self._look)

    async def _look(self) -> Facts:
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

    def _holdings(self, jobs: dict[str, list[SlurmJob]]) -> list[tuple[SlurmJob, Record]]:
        found = []
        for tag, same in jobs.items():
            record = SlurmFiles(self.root, tag).record() or Record(key="", asked=0.0)
            for job in same:
                found += [(part, record.part(number)) for number, part in enumerate((job, *job.parts))]
        return found

    def reshape(self, graph: Graph) -> None:
        """Take over another graph; Slurm is asked anew what it has."""
        self.settings = replace(self.settings, graph=graph)
        self.questions.reshape(self.settings)
        self._facts.expire()

    async def forget(self, tag: str) -> None:
        """Remove the job's directory; Slurm shows the job for a while yet, and that is no longer news."""
        self._gone.add(tag)
        self._forgotten.forget(tag)
        await asyncio.to_thread(SlurmFiles(self.root, tag).remove)

    async def close(self) -> None:
        """Nothing to stop: jobs are Slurm's."""


def _part(found: Shape) -> Part:
    """What was asked for one group."""
    return Part(
        gpus=found.gpus_per_node,
        cores=0 if found.exclusive else found.total_cores,
        memory=found.total_memory,
        only=hostlist(found.only),
    )


def make(settings: BackendSettings) -> SlurmBackend:
    """Build the backend."""
    return SlurmBackend(settings)
