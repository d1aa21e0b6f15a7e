"""The Python SDK: `Client` and `AsyncClient` with the same verbs, job handles, and an `Executor` for commands."""

from rainbow_sched.client.async_client import AsyncClient, AsyncJobHandle, JobFailed, JobResult
from rainbow_sched.client.blocking_client import Client, JobHandle
from rainbow_sched.client.codec import JobFilter
from rainbow_sched.client.executor import Executor
from rainbow_sched.client.settings import ClientSettings, resolve
from rainbow_sched.client.submission import JobSubmission, command

__all__ = [
    "AsyncClient",
    "AsyncJobHandle",
    "Client",
    "ClientSettings",
    "Executor",
    "JobFailed",
    "JobFilter",
    "JobHandle",
    "JobResult",
    "JobSubmission",
    "command",
    "resolve",
]
