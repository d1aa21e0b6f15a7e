"""The asynchronous client: all calls of the API, and handles for submitted jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rainbow_sched.client.access import AccessClient
from rainbow_sched.client.clusters import ClusterClient
from rainbow_sched.client.connection import Connection, Timeouts
from rainbow_sched.client.jobs import JobClient, JobInfo, StreamChunk
from rainbow_sched.client.settings import ClientSettings, Overrides, resolve
from rainbow_sched.client.submission import JobSubmission, command
from rainbow_sched.model.errors import Invalid, RainbowError
from rainbow_sched.model.job import Delivery, Terms


class JobFailed(RainbowError):
    """The job ended without success; `job` holds its final state."""

    def __init__(self, job: JobInfo) -> None:
        code = "" if job.exit_code is None else f" with exit code {job.exit_code}"
        super().__init__(f"job {job.id} {job.state}{code}" + (f": {job.reason}" if job.reason else ""))
        self.job = job


@dataclass(frozen=True, slots=True)
class JobResult:
    """A job that succeeded, and its output."""

    job: JobInfo
    stdout: bytes
    stderr: bytes


class AsyncClient(JobClient, ClusterClient, AccessClient):
    """Client of one server, or of the first of several that answers.

        async with AsyncClient() as client:
            handle = await client.submit(["hostname"], nodes=2, tasks=2)
            print((await handle.result()).stdout)

    Without arguments it uses the same server and credentials as the command line.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        settings: ClientSettings | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        if settings is None:
            settings = resolve(Overrides(server=server, token=token))
        self.connection = Connection(settings, timeouts=timeouts)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; calls in progress are cancelled."""
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

        `resources` are the options of `rainbow_sched.client.command`: nodes, tasks, cores, gpus, duration,
        environment, cwd. `terms` are the fields of `rainbow_sched.model.job.Terms`.
        """
        submission = _submission(argv, jobspec, name, terms, resources)
        return self.handle((await self.submit_one(submission)).id)

    def handle(self, id: int) -> AsyncJobHandle:
        """Return a handle for an existing job."""
        return AsyncJobHandle(self, id)


@dataclass(frozen=True, slots=True)
class AsyncJobHandle:
    """One job: wait for it, read its output, cancel it."""

    client: AsyncClient
    id: int

    async def status(self) -> JobInfo:
        """Return the current state of the job."""
        return await self.client.job(self.id)

    async def wait(self) -> JobInfo:
        """Wait until the job has ended; return it."""
        return await self.client.wait(self.id)

    async def result(self) -> JobResult:
        """Wait for the job and return its output; raise JobFailed if it did not succeed."""
        job = await self.wait()
        if job.state != "succeeded":
            raise JobFailed(job)
        output = {"stdout": bytearray(), "stderr": bytearray()}
        async for chunk in self.logs():
            output[chunk.stream] += chunk.data
        return JobResult(job, bytes(output["stdout"]), bytes(output["stderr"]))

    def logs(self, *, follow: bool = False, stream: str = "", tail: int = 0) -> AsyncGenerator[StreamChunk, None]:
        """Yield the job's output; with `follow` until it has ended."""
        return self.client.logs(self.id, follow=follow, stream=stream, tail=tail)

    async def cancel(self, reason: str = "") -> JobInfo:
        """Cancel the job; return its current state."""
        return (await self.client.cancel([self.id], reason=reason))[0]


def _submission(
    argv: Sequence[str] | None,
    jobspec: str,
    name: str,
    terms: Terms | Mapping[str, Any] | None,
    resources: Mapping[str, Any],
) -> JobSubmission:
    if (argv is None) == (not jobspec):
        raise Invalid("submit takes either a command or a jobspec")
    if jobspec and resources:
        raise Invalid(f"{', '.join(sorted(resources))}: a jobspec already states its resources")
    if not isinstance(terms, Terms):
        values = dict(terms or {})
        if "delivery" in values:
            values["delivery"] = Delivery(values["delivery"])
        terms = replace(Terms(), **values)
    if argv is not None:
        return JobSubmission(text=command(argv, name=name, **resources), dialect="flux", name=name, terms=terms)
    return JobSubmission(text=jobspec, name=name, terms=terms)
