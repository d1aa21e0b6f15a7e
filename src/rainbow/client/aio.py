"""The asynchronous client: every verb of the API, and handles on the jobs that it submits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from rainbow.client.access_verbs import AccessVerbs
from rainbow.client.cluster_verbs import ClusterVerbs
from rainbow.client.connection import Connection, Patience
from rainbow.client.job_verbs import JobVerbs
from rainbow.client.settings import Overrides, Settings, resolve
from rainbow.client.submission import Submission, command
from rainbow.client.views import Chunk, JobView
from rainbow.model.errors import Invalid, RainbowError
from rainbow.model.job import Delivery, Terms


class JobFailed(RainbowError):
    """The job ended without success; `job` says how."""

    def __init__(self, job: JobView) -> None:
        code = "" if job.exit_code is None else f" with exit code {job.exit_code}"
        super().__init__(f"job {job.id} {job.state}{code}" + (f": {job.reason}" if job.reason else ""))
        self.job = job


@dataclass(frozen=True, slots=True)
class Result:
    """A job that succeeded, and what it printed."""

    job: JobView
    stdout: bytes
    stderr: bytes


class AsyncClient(JobVerbs, ClusterVerbs, AccessVerbs):
    """Talks to one server, or to the first of several that answers.

        async with AsyncClient() as client:
            handle = await client.submit(["hostname"], nodes=2, tasks=2)
            print((await handle.result()).stdout)

    Without arguments it finds its server and credentials where the command line does.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        settings: Settings | None = None,
        patience: Patience | None = None,
    ) -> None:
        if settings is None:
            settings = resolve(Overrides(server=server, token=token))
        self.connection = Connection(settings, patience=patience)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; calls under way are cancelled."""
        await self.connection.close()

    async def submit(
        self,
        argv: Sequence[str] | None = None,
        *,
        jobspec: str = "",
        name: str = "",
        terms: Terms | Mapping[str, Any] | None = None,
        **resources: Any,
    ) -> AsyncJobHandle:
        """Submit a command, or a `jobspec` in any dialect; the job is durable when this returns.

        `resources` are those of `rainbow.client.command`: nodes, tasks, cores, gpus, duration,
        environment, cwd. `terms` are those of `rainbow.model.job.Terms`.
        """
        submission = _submission(argv, jobspec, name, terms, resources)
        return self.handle((await self.submit_one(submission)).id)

    def handle(self, id: int) -> AsyncJobHandle:
        """A handle on a job that exists already."""
        return AsyncJobHandle(self, id)


@dataclass(frozen=True, slots=True)
class AsyncJobHandle:
    """One job, to wait for, read, or cancel."""

    client: AsyncClient
    id: int

    async def status(self) -> JobView:
        """The job as it is now."""
        return await self.client.job(self.id)

    async def wait(self) -> JobView:
        """Wait until the job has ended, however it ended."""
        return await self.client.wait(self.id)

    async def result(self) -> Result:
        """Wait for success and give what the job printed; raise JobFailed if it did not succeed."""
        job = await self.wait()
        if job.state != "succeeded":
            raise JobFailed(job)
        kept: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        async for chunk in self.logs():
            kept[chunk.stream].append(chunk.data)
        return Result(job, b"".join(kept["stdout"]), b"".join(kept["stderr"]))

    def logs(self, *, follow: bool = False, stream: str = "", tail: int = 0) -> AsyncGenerator[Chunk, None]:
        """The job's output; with `follow` until it has ended."""
        return self.client.logs(self.id, follow=follow, stream=stream, tail=tail)

    async def cancel(self, reason: str = "") -> JobView:
        """Ask for the job's end."""
        return (await self.client.cancel([self.id], reason=reason))[0]


def _submission(
    argv: Sequence[str] | None,
    jobspec: str,
    name: str,
    terms: Terms | Mapping[str, Any] | None,
    resources: Mapping[str, Any],
) -> Submission:
    if (argv is None) == (not jobspec):
        raise Invalid("submit takes a command or a jobspec, one of them")
    if jobspec and resources:
        raise Invalid(f"{', '.join(sorted(resources))}: a jobspec says what it asks for itself")
    if not isinstance(terms, Terms):
        plain = dict(terms or {})
        if "delivery" in plain:
            plain["delivery"] = Delivery(plain["delivery"])
        terms = replace(Terms(), **plain)
    if argv is not None:
        return Submission(text=command(argv, name=name, **resources), dialect="flux", name=name, terms=terms)
    return Submission(text=jobspec, name=name, terms=terms)


async def gather(handles: Sequence[AsyncJobHandle]) -> list[JobView]:
    """Wait for several jobs at once."""
    return list(await asyncio.gather(*(handle.wait() for handle in handles)))
